"""What a comparison compares: each drafter with its rule, its policy and its lengths."""

import itertools
from typing import Any

from outrider.base.errors import ConfigError
from outrider.decoding.kinds import check_takes
from outrider.lab.measuring.variants import Variant
from outrider.lab.statistics.pairs import check_reference, drafter_in
from outrider.plugins.config import build
from outrider.plugins.reading import plain_values

RULES = {"verifier": "verifiers", "policy": "policies"}
"""What all drafters run with that have none of their own, and the settings that list several."""

LENGTHS = ("gamma", "budget")


def variants_of(settings: Any) -> tuple[dict[str, dict[str, Any]], dict[str, Variant]]:
    """Returns by name the configs of each variant, with the lengths of its own, and the variants.

    settings: those of a comparison, or of another command with such drafters.

    Raises `ConfigError` if a part can't be made, or a rule does not take what a drafter writes.
    """
    configs = _combined(settings)
    check_reference(getattr(settings, "reference", None), plain_values(configs))
    nodes = {str(parts["drafter"]): parts["drafter"] for parts in configs.values()}
    # A drafter may be a whole model, so variants that differ in the rest share it.
    drafters = {key: build(node) for key, node in nodes.items()}
    variants = {}
    for name, parts in configs.items():
        lengths = {length: parts[length] for length in LENGTHS if length in parts}
        rule, policy = build(parts["verifier"]), build(parts["policy"])
        variants[name] = Variant(drafters[str(parts["drafter"])], rule, policy, **lengths)
        _check_fit(name, variants[name])
    return configs, variants


def _combined(settings: Any) -> dict[str, dict[str, Any]]:
    """Returns all combinations of drafters, rules and policies.

    If several rules or policies are listed, their names are part of the variant's name. A drafter
    with a rule or a policy of its own has that one alone.
    """
    variants = {}
    for drafter, own in settings.drafters.items():
        verifiers, policies = (
            {"": own.get(role, getattr(settings, role))} if listed is None else listed
            for role, several in RULES.items()
            for listed in [None if role in own else getattr(settings, several, None)]
        )
        for verifier, policy in itertools.product(verifiers, policies):
            rules = {"verifier": verifiers[verifier], "policy": policies[policy]}
            variants["/".join(filter(None, (drafter, verifier, policy)))] = {**own, **rules}
    return variants


def _check_fit(name: str, variant: Variant) -> None:
    try:
        check_takes(variant.verifier, variant.drafter)
    except ConfigError as error:
        own = f"{{drafter: {drafter_in(name)}, verifier: ...}} gives it one of its own"
        raise ConfigError(f"{error}; {own}") from error
