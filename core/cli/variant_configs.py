"""The configs of what a comparison compares: each drafter with its rule, policy and lengths."""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.base.bounds import Count, check
from outrider.base.errors import ConfigError, require_instance
from outrider.cli.settings import Compare
from outrider.contract.drafter import Drafter
from outrider.decoding.decode import check_takes
from outrider.decoding.handed_over import check_rule_says, check_says
from outrider.lab.measuring.variants import Variant
from outrider.lab.statistics.pairs import drafter_in
from outrider.plugins.config import build, option_configs, plain_values
from outrider.plugins.roles import plural

RULES = ("verifier", "policy")
LENGTHS = ("gamma", "budget")
"""What an entry of `drafters` may have for itself, in place of the run's: parts, and numbers."""


def variant_configs(settings: Compare) -> dict[str, dict[str, Any]]:
    """Returns the parts' configs of each variant, and the lengths that it has for itself.

    These are all combinations of drafters, rules and policies; if several rules or policies are
    listed, their names are part of the variant's name. A drafter with a rule or a policy of its own
    has that one alone.

    Raises:
        ConfigError: an entry has a setting that neither the run nor its drafter has, or no such
            value, or the name of another.
    """
    return configs_of(settings.drafters, {role: _listed(settings, role) for role in RULES})


def configs_of(listed: Any, usual: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the same for drafters as they are listed.

    usual: by role, the configs of what drafters without their own run with.
    """
    entries, own = _separated(listed)
    drafters = option_configs("drafter", entries, (*RULES, *LENGTHS))
    variants = {}
    for (drafter, config), mine in zip(drafters.items(), own, strict=True):
        lengths = {name: mine[name] for name in LENGTHS if name in mine}
        check(dict.fromkeys(LENGTHS, Count | None), lengths, f"drafters: {drafter}")
        parts = [
            {"": next(iter(option_configs(role, [mine[role]]).values()))}
            if role in mine
            else usual[role]
            for role in RULES
        ]
        for verifier, policy in itertools.product(*parts):
            name = "/".join(filter(None, (drafter, verifier, policy)))
            rules = {"verifier": parts[0][verifier], "policy": parts[1][policy]}
            variants[name] = {"drafter": config, **rules, **lengths}
    return variants


def variants_of(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, Variant]:
    """Returns the variants with these configs.

    A drafter may be a whole model, so variants that differ in the rest share it.

    Raises:
        ConfigError: a part can't be made, or a rule does not take what a drafter writes.
    """
    keys = {name: json.dumps(plain_values(parts["drafter"])) for name, parts in configs.items()}
    drafters = {key: build(configs[name]["drafter"]) for name, key in keys.items()}
    variants = {}
    for name, parts in configs.items():
        drafter, rule, policy = drafters[keys[name]], build(parts["verifier"]), parts["policy"]
        lengths = {length: parts[length] for length in LENGTHS if length in parts}
        variants[name] = Variant(drafter, rule, build(policy), **lengths)
        _check_fit(name, variants[name])
    return variants


def check_job(settings: Compare) -> None:
    """Raises `ConfigError` if a job of a sweep would, before a model is loaded."""
    variants_of(variant_configs(settings))


def _check_fit(name: str, variant: Variant) -> None:
    require_instance("drafter", variant.drafter, Drafter)
    check_says(variant.drafter)
    check_rule_says(variant.verifier)
    try:
        check_takes(variant.verifier, variant.drafter)
    except ConfigError as error:
        own = f"{{drafter: {drafter_in(name)}, verifier: ...}} gives it one of its own"
        raise ConfigError(f"{error}; {own}") from error


def _listed(settings: Compare, role: str) -> dict[str, Any]:
    """Returns the configs of the rules, or policies, that drafters without their own run with."""
    several = getattr(settings, plural(role))
    return {"": getattr(settings, role)} if several is None else option_configs(role, several)


def _separated(entries: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Returns the entries without what they have for themselves, and that, for each of them.

    An entry without a name is given one that says what it has: `token_recycling (candidates)`.
    """
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return entries, []
    separated, own = list[Any](), list[dict[str, Any]]()
    for entry in map(plain_values, entries):
        rest = dict(entry) if isinstance(entry, Mapping) else {"drafter": entry}
        mine = {key: rest.pop(key) for key in (*RULES, *LENGTHS) if key in rest}
        said = [_name(role, mine[role]) for role in RULES if role in mine]
        said += [f"{name} {mine[name]}" for name in LENGTHS if name in mine]
        if said and isinstance(drafter := rest.get("drafter"), str):
            rest.setdefault("name", f"{drafter} ({', '.join(said)})")
        separated.append(rest if mine else entry)
        own.append(mine)
    return separated, own


def _name(role: str, part: Any) -> str:
    return str(part.get("name", part.get(role))) if isinstance(part, Mapping) else str(part)
