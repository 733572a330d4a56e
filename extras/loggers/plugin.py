"""Registers the loggers: each needs a setting, so none follows a run unless it is named."""

from outrider.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_reports(register: Register) -> None:
    register("json_lines", "outrider.extras.loggers.services:JsonLines")
    register("tensorboard", "outrider.extras.loggers.services:TensorBoard", extra="tensorboard")
    register("wandb", "outrider.extras.loggers.services:Wandb", extra="wandb")
    register("mlflow", "outrider.extras.loggers.services:MLflow", extra="mlflow")
