"""Registers the loggers: each needs a setting, so none follows a run unless it is named."""

from outrider.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_reports(register: Register) -> None:
    register("json_lines", "outrider.extras.loggers.logger:JsonLines")
    register("tensorboard", "outrider.extras.loggers.logger:TensorBoard", extra="tensorboard")
    register("wandb", "outrider.extras.loggers.logger:Wandb", extra="wandb")
    register("mlflow", "outrider.extras.loggers.logger:MLflow", extra="mlflow")
