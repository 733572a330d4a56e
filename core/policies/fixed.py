"""The policy `fixed`, which is part of the contract: it drafts as many tokens as it may."""

from outrider.contract.policy import Fixed
from outrider.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_policies(register: Register) -> None:
    register("fixed", Fixed)
