"""Registers the command `train`, and the recipes that it knows by name."""

from outrider.plugins.hookspecs import Command, Register, RegisterCommand, hookimpl

TRAINING = "outrider.extras.training"

NETWORKS = (
    "medusa", "mlp_speculator", "hydra", "redrafter", "eagle", "eagle3", "peagle", "dflash", "mtp",
    "early_exit", "small_lm", "pard",
)  # fmt: skip
"""The drafters that are networks; `conf/recipe/` says how each is trained."""


@hookimpl
def register_commands(register: RegisterCommand) -> None:
    run = f"{TRAINING}.command:train"
    settings = f"{TRAINING}.settings:Train"
    about = "train a drafter or a policy"
    register(Command("train", about, run, settings=settings))


@hookimpl
def register_recipes(register: Register) -> None:
    for name in NETWORKS:
        register(name, f"{TRAINING}.drafters:DrafterRecipe", extra="training")
    for name in ("unigram", "bigram"):
        register(name, f"{TRAINING}.drafters:TableRecipe", extra="training")
    register("rest", f"{TRAINING}.drafters:StoreRecipe", extra="training")
    register("speculators", f"{TRAINING}.speculators_data:SpeculatorsData", extra="training")
    register("calibration", f"{TRAINING}.calibration:CalibrationRecipe", extra="training")
    register("classifier", f"{TRAINING}.classifier:ClassifierRecipe", extra="training")
