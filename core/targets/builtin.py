"""The built-in targets and policies, registered as any plugin registers its own."""

from outrider.contract.policy import Fixed
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.targets.smollm2 import smollm2
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget


@hookimpl
def register_targets(register: Register) -> None:
    register("transformers", TransformersTarget)
    register("smollm2", smollm2)
    register("tabular", TabularTarget)


@hookimpl
def register_policies(register: Register) -> None:
    register("fixed", Fixed)
