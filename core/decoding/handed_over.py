"""Handed over: what parts say of themselves and return, refused in one line where it is wrong."""

import operator
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from torch import Tensor

from outrider.base.errors import ConfigError, PluginError, TargetError, shown
from outrider.base.instances import misfit, require_instance
from outrider.contract.constraint import Constraint
from outrider.contract.draft import KINDS, ROOT, Draft
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Policy
from outrider.contract.target import Session, Target, check_finite, check_flag
from outrider.contract.verifier import Verdict, Verifier
from outrider.decoding.blame import named_errors

FLAGS = (bool, np.bool_)
"""What answers a question with yes or no."""


def check_says(drafter: Drafter) -> None:
    """Raises `ConfigError` unless a drafter is one, and what it says of itself is possible."""
    require_instance("drafter", drafter, Drafter)
    name, kind, needs = type(drafter).__name__, drafter.kind, drafter.needs
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError(
            f"drafter {name} says kind={shown(kind)}: expected one of {', '.join(KINDS)}"
        )
    if not _are_names(needs):
        raise ConfigError(
            f"drafter {name} says needs={shown(needs)}: expected a frozenset of names"
        )
    for field in ("trees", "asks", "observes", "remembers"):
        _require_flag("drafter", drafter, field)
    if not _is_id(drafter.remembered):
        line = f"drafter {name} says remembered={shown(drafter.remembered)}"
        raise ConfigError(f"{line}: expected a number of texts")


@named_errors()
def check_target_says(target: Target) -> None:
    """Raises `ConfigError` unless a target is one, and what it says of itself is possible."""
    require_instance("target", target, Target)
    size, limit, eos = target.vocab_size, target.max_length, target.eos
    is_list = isinstance(eos, Collection) and not isinstance(eos, str | bytes)
    facts = (
        ("vocab_size", _is_id(size) and size > 0, "a whole number of at least 1"),
        ("max_length", limit is None or (_is_id(limit) and limit > 0), "a length, or None"),
        ("eos", is_list and all(map(_is_id, eos)), "a frozenset of ids"),
        ("offers", _are_names(target.offers), "a frozenset of names"),
    )
    for field, holds, expected in facts:
        if not holds:
            value = getattr(target, field)
            name = type(target).__name__
            raise ConfigError(f"target {name} says {field}={shown(value)}: expected {expected}")


def check_rule_says(verifier: Verifier) -> None:
    """Raises `ConfigError` unless a rule is one, and what it says of itself is possible."""
    require_instance("verifier", verifier, Verifier)
    name, takes = type(verifier).__name__, verifier.takes
    if not _are_names(takes) or not takes <= KINDS.keys():
        expected = f"a frozenset of {', '.join(KINDS)}"
        raise ConfigError(f"rule {name} says takes={shown(takes)}: expected {expected}")
    for field in ("lossless", "coupled"):
        _require_flag("rule", verifier, field)


def _require_flag(role: str, part: Any, field: str) -> None:
    value = getattr(part, field)
    if not isinstance(value, bool):
        name = type(part).__name__
        raise ConfigError(f"{role} {name} says {field}={shown(value)}: expected True or False")


def _is_id(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value) >= 0
    except TypeError:
        return False


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
        raise PluginError(f"{rule} accepted {shown(verdict.accepted)}: expected nodes") from None
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
        raise PluginError(f"{rule} adds the token {shown(verdict.next_token)}: expected {expected}")
    return Verdict(accepted, token)


def encoded(target: Target, prompt: Any, *, chat: bool = False) -> list[int]:
    """Returns the ids of a prompt, from a target that says of itself what it may."""
    check_target_says(target)
    with named_errors():
        ids: object = target.encode(prompt, chat=True) if chat else target.encode(prompt)
    if not isinstance(ids, list):
        name, kind = type(target).__name__, type(ids).__name__
        raise TargetError(f"target {name} encoded a prompt as {kind}: expected a list of ids")
    return ids


def working(target: Target) -> AbstractContextManager[None]:
    """Returns a target's `computing`; raises `TargetError` if it is none."""
    manager: object = target.computing()
    if not isinstance(manager, AbstractContextManager):
        name = type(target).__name__
        raise TargetError(f"target {name} computes in {shown(manager)}: expected a context manager")
    return manager


def checked_session(target: Target, session: Any) -> Session:
    """Returns what a target opened; raises `TargetError` if it is no session, or can't be used."""
    name = f"target {type(target).__name__}"
    if not isinstance(session, Session):
        raise TargetError(f"{name} opened {type(session).__name__}: expected a Session")
    if fault := misfit(type(session), Session):
        raise TargetError(f"{name} opened {type(session).__name__}, which {fault}")
    return session


def checked_scores(target: Target, logits: Any, rows: int) -> Callable[[], None]:
    """Checks that logits are rows of finite numbers, one for each node.

    Returns a function to call once the device has been waited for, which raises `TargetError` as
    this one does. On a CPU this one checks all.
    """
    expected = (rows, target.vocab_size)
    if not isinstance(logits, Tensor) or logits.shape != expected:
        given = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        name = type(target).__name__
        raise TargetError(f"target {name} scored with {given}: expected logits of shape {expected}")
    if logits.device.type == "cpu":
        check_finite(logits)
        return lambda: None
    is_finite = logits.amax(-1).isfinite().all()
    return lambda: check_flag(is_finite)


def begun(constraint: Constraint, target: Target, ids: Sequence[int]) -> Constraint:
    """Returns the constraint of one text; raises `ConfigError` if that is none."""
    own = constraint.begin(target, ids)
    require_instance(f"constraint {type(constraint).__name__} began", own, Constraint)
    steering: Any = own.steering()
    if steering is not None:
        require_instance(f"constraint {type(own).__name__} steers", steering, Constraint)
    return own


def checked_ends(constraint: Constraint, ids: Sequence[int]) -> bool:
    """Returns whether a constraint ends a text; raises `PluginError` for no such answer."""
    return _flag("constraint", constraint, "ends", constraint.ends(ids))


def goes_on(policy: Policy, draft: Draft) -> bool:
    """Returns whether a policy lets a draft go on; raises `PluginError` for no such answer."""
    return _flag("policy", policy, "more", policy.more(draft))


def checked_depth(policy: Policy, gamma: int) -> int:
    """Returns how deep a policy drafts; raises `PluginError` unless that is 0 to `gamma`."""
    depth = policy.depth(gamma)
    if not (_is_id(depth) and depth <= gamma):
        name = type(policy).__name__
        raise PluginError(f"policy {name} returned depth {shown(depth)}: expected 0 to {gamma}")
    return operator.index(depth)


def _flag(role: str, part: Any, method: str, answer: Any) -> bool:
    if not isinstance(answer, FLAGS):
        name, kind = type(part).__name__, type(answer).__name__
        raise PluginError(f"{role} {name} answered {method}() with a {kind}: expected a bool")
    return bool(answer)
