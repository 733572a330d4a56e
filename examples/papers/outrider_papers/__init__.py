"""Ten methods of 2026, a file each, from their abstracts or papers."""

from outrider import hookimpl

PACKAGE = "outrider_papers"


@hookimpl
def register_drafters(register):
    register("replayed", f"{PACKAGE}.replayed:Replayed")
    register("rheo", f"{PACKAGE}.rheo:Rheo")
    register("treespark", f"{PACKAGE}.treespark:TreeSpark")
    register("dloop", f"{PACKAGE}.dloop:DLoop")
    register("latent_block", f"{PACKAGE}.latent_block:LatentBlock")
    register("diffusion", f"{PACKAGE}.diffusion:Diffusion")
    register("slrs", f"{PACKAGE}.slrs:SLRS")


@hookimpl
def register_verifiers(register):
    register("nucleus", f"{PACKAGE}.nucleus:Nucleus")
    register("asd", f"{PACKAGE}.asd:ASD")
    register("poisson", f"{PACKAGE}.poisson:Poisson")
