"""Registers the loggers: each needs a setting, so none follows a run unless it is named."""

from outrider.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_reports(register: Register) -> None:
    register("json_lines", "outrider.extras.loggers.json_lines:JsonLines")
    register("tensorboard", "outrider.extras.loggers.tensorboard:TensorBoard", extra="tensorboard")
    register("wandb", "outrider.extras.loggers.wandb:Wandb", extra="wandb")
    register("mlflow", "outrider.extras.loggers.mlflow:MLflow", extra="mlflow")
