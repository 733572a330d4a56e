"""Handed over: what parts say of themselves and return, refused in one line where it is wrong."""

import operator
from typing import Any

from outrider.base.errors import ConfigError, PluginError
from outrider.contract.draft import KINDS, ROOT, Draft
from outrider.contract.drafter import Drafter
from outrider.contract.verifier import Verdict, Verifier


def check_says(drafter: Drafter) -> None:
    """Raises `ConfigError` unless a drafter's `kind` and `needs` are what they may be."""
    name, kind, needs = type(drafter).__name__, drafter.kind, drafter.needs
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError(f"drafter {name} says kind={kind!r}: expected one of {', '.join(KINDS)}")
    if not _are_names(needs):
        raise ConfigError(f"drafter {name} says needs={needs!r}: expected a frozenset of names")


def check_rule_says(verifier: Verifier) -> None:
    """Raises `ConfigError` unless a rule's `takes` and `lossless` are what they may be."""
    name, takes, lossless = type(verifier).__name__, verifier.takes, verifier.lossless
    if not _are_names(takes) or not takes <= KINDS.keys():
        expected = f"a frozenset of {', '.join(KINDS)}"
        raise ConfigError(f"rule {name} says takes={takes!r}: expected {expected}")
    if not isinstance(lossless, bool):
        raise ConfigError(f"rule {name} says lossless={lossless!r}: expected True or False")


def _are_names(values: Any) -> bool:
    is_set = isinstance(values, frozenset | set)
    return is_set and all(isinstance(value, str) for value in values)


def checked_verdict(verifier: Verifier, verdict: Any, draft: Draft, vocab_size: int) -> Verdict:
    """Returns the verdict of a rule.

    Raises:
        PluginError: it is no `Verdict`, its nodes are no path of the draft, or its token is no id.
    """
    rule = f"rule {type(verifier).__name__}"
    if not isinstance(verdict, Verdict):
        raise PluginError(f"{rule} returned {type(verdict).__name__}: expected a Verdict")
    try:
        accepted = tuple(operator.index(node) for node in verdict.accepted)
    except TypeError:
        raise PluginError(f"{rule} accepted {verdict.accepted!r}: expected nodes") from None
    last = ROOT
    for node in accepted:
        if not (0 <= node < len(draft) and draft.parents[node] == last):
            expected = f"a path from the root of the draft's {len(draft)} nodes"
            raise PluginError(f"{rule} accepted {accepted}: expected {expected}")
        last = node
    try:
        token = operator.index(verdict.next_token)
    except TypeError:
        token = -1
    if not 0 <= token < vocab_size:
        expected = f"an id below {vocab_size}"
        raise PluginError(f"{rule} adds the token {verdict.next_token!r}: expected {expected}")
    return Verdict(accepted, token)
