"""The built-in targets, registered as any plugin registers its own."""

from outrider.plugins.hookspecs import Register, hookimpl
from outrider.targets.gemma3 import gemma3
from outrider.targets.smollm2 import smollm2
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget


@hookimpl
def register_targets(register: Register) -> None:
    register("transformers", TransformersTarget)
    register("smollm2", smollm2)
    register("gemma3", gemma3)
    register("tabular", TabularTarget)
