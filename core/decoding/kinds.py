"""Kinds: whether parts fit each other, and whether a draft is of the kind its drafter declares."""

from typing import Any

import torch

from outrider.base.calling import calling
from outrider.base.errors import ConfigError, require
from outrider.contract.draft import KINDS, ROOT, Draft
from outrider.contract.drafter import Drafter
from outrider.contract.verifier import Verifier
from outrider.plugins.registry import installed

ROUNDING = 0.1
"""The most that rounding may separate two distributions after the same text, in total variation."""


def require_kind(name: str, part: object, kind: type[Any]) -> None:
    """Raises `ConfigError` unless a part is an instance of a class."""
    require(isinstance(part, kind), name, part, f"an instance of {kind.__name__}")


def refuse_lossy(**parts: Any) -> None:
    """Raises `ConfigError` for the first part, named by its role, that is not exact."""
    for role, part in parts.items():
        with calling(role, part):
            is_exact = part.lossless
        if not is_exact:
            name = type(part).__name__
            raise ConfigError(f"lossy=refuse: {role} {name} is lossy: expected one that is exact")


def check_takes(verifier: Verifier, drafter: Drafter) -> None:
    """Raises `ConfigError` if the rule takes no drafts of the drafter's kind."""
    with calling("drafter", drafter):
        kind = drafter.kind
    with calling("verifier", verifier):
        takes = frozenset(verifier.takes)
    if kind in takes:
        return
    meaning = f" ({KINDS[kind]})" if kind in KINDS else f", expected one of {', '.join(KINDS)}"
    rules = installed().of("verifier").items()
    fit = [name for name, rule in rules if rule.product and kind in rule.product.takes]
    raise ConfigError(
        f"drafter {type(drafter).__name__} writes {kind!r} drafts{meaning}: the rule"
        f" {type(verifier).__name__} takes {', '.join(sorted(takes))}; rules that fit:"
        f" {', '.join(fit) or 'none'}"
    )


def violation(draft: Draft, kind: str, tolerance: float = ROUNDING) -> str | None:
    """Returns in words why a draft is not of a kind, None if it is.

    A token without siblings may be drawn or written, except in a "deterministic" draft, which
    allows no draws.

    kind: one of `outrider.contract.draft.KINDS`.
    tolerance: paths that share their first tokens must go on with the same distribution, up to
        this total variation.
    """
    if kind == "deterministic":
        drawn = (node for node, probs in enumerate(draft.probs) if probs is not None)
        return next((f"token {node} was drawn" for node in drawn), None)
    if draft.is_chain:
        return None
    families: dict[int, list[int]] = {}
    for node, parent in enumerate(draft.parents):
        families.setdefault(parent, []).append(node)
    for parent, family in families.items():
        if len(family) > 1 and (kind == "chain" or (kind == "paths" and parent != ROOT)):
            return f"tokens {family[0]} and {family[1]} are siblings"
        fault = _repeated(draft, family) if kind == "distinct" else _dependent(draft, family)
        if fault:
            return fault
    return _unequal_paths(draft, tolerance) if kind == "paths" else None


def _dependent(draft: Draft, family: list[int]) -> str | None:
    """Returns why siblings are not independent draws of a single call of the pen."""
    first, *others = family
    for node in others:
        if not draft.calls or draft.calls[node] != draft.calls[first]:
            # Whether there was a second call could depend on what the first one drew.
            return f"tokens {first} and {node} come from separate calls of the pen"
        p, q = draft.probs[first], draft.probs[node]
        if p is None or q is None:
            same = p is q and draft.tokens[first] == draft.tokens[node]
        else:
            same = p is q or torch.equal(p, q)
        if not same:
            return f"tokens {first} and {node} were drawn without replacement"
    return None


def _repeated(draft: Draft, family: list[int]) -> str | None:
    """Returns why a sibling could have been the same token as one before it."""
    for rank, node in enumerate(family):
        probs = draft.probs[node]
        for earlier in family[:rank]:
            token = draft.tokens[earlier]
            possible = token == draft.tokens[node] if probs is None else bool(probs[token] > 0)
            if possible:
                return f"token {node} could have been the same as its sibling {earlier}"
    return None


def _unequal_paths(draft: Draft, tolerance: float) -> str | None:
    """Returns which paths share their first tokens and then go on differently."""
    first_after: dict[tuple[int, ...], int] = {}
    texts: dict[int, tuple[int, ...]] = {ROOT: ()}
    for node, parent in enumerate(draft.parents):
        texts[node] = (*texts[parent], draft.tokens[node])
        other = first_after.setdefault(texts[parent], node)
        if not _agree(draft, other, node, tolerance):
            return f"tokens {other} and {node} follow the same text with different distributions"
    return None


def _agree(draft: Draft, one: int, other: int, tolerance: float) -> bool:
    p, q = draft.probs[one], draft.probs[other]
    if p is not None and q is not None:
        return p is q or float((p - q).abs().sum()) <= 2 * tolerance
    # At temperature 0 a drawn token has logits but no distribution, and rounding decides ties.
    greedy = bool(draft.logits) and None not in (draft.logits[one], draft.logits[other])
    return p is q and (greedy or draft.tokens[one] == draft.tokens[other])
