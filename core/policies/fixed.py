"""Registers the policy `fixed`, which is part of the contract: it always drafts gamma tokens."""

from outrider.contract.policy import Fixed
from outrider.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_policies(register: Register) -> None:
    register("fixed", Fixed)
