"""Three drafters of papers: Falcon, a self-sparse cache, and shallow aggressive decoding."""

from outrider import hookimpl

PACKAGE = "outrider_more_drafters"


@hookimpl
def register_drafters(register):
    register("falcon", f"{PACKAGE}.falcon:Falcon")
    register("self_sparse", f"{PACKAGE}.self_sparse:SelfSparse")
    register("shallow_aggressive", f"{PACKAGE}.shallow_aggressive:ShallowAggressive")


@hookimpl
def register_recipes(register):
    register("falcon", "outrider.extras.training.drafters:DrafterRecipe", extra="training")


@hookimpl
def config_search_paths():
    return [f"pkg://{PACKAGE}.conf"]
