"""The calls of parts whose answers decoding rests on: each is looked at, and its part named."""

import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, final

from torch import Tensor

from outrider.base.calling import Unusable, calling, returned
from outrider.base.errors import DrafterError, shown
from outrider.contract.chance import Chance
from outrider.contract.constraint import Constraint
from outrider.contract.context import Context, Features
from outrider.contract.draft import ROOT, Draft, Verdict
from outrider.contract.drafter import Drafter, check_returned
from outrider.contract.pen import Pen
from outrider.contract.policy import Policy
from outrider.contract.target import Target, check_finite, check_flag
from outrider.contract.verifier import Scores, Verifier
from outrider.decoding.clock import TimeUp, time_limit


def encoded(target: Target, prompt: Any, *, chat: bool = False) -> list[int]:
    with calling("target", target):
        ids = target.encode(prompt, chat=True) if chat else target.encode(prompt)
        return returned(ids, list)


@final
class computing(AbstractContextManager[None]):
    """Enters a target's `computing`, and names the target if that fails; the block stays apart."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __enter__(self) -> None:
        with calling("target", self._target):
            self._manager = returned(self._target.computing(), AbstractContextManager)
            self._manager.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        with calling("target", self._target):
            return self._manager.__exit__(kind, error, trace)


def opened(drafter: Drafter) -> Drafter:
    """Returns the drafter of one text.

    Raises `DrafterError` if there is none, or it shares what it observes with other texts.
    """
    with calling("drafter", drafter):
        of_text = returned(drafter.open(), Drafter)
        if drafter.observes and of_text is drafter:
            raise Unusable("observes, so open() has to return another one for each text")
        return of_text


def opened_rule(verifier: Verifier) -> Verifier:
    """Returns the rule of one text; raises `PluginError` if that is none."""
    with calling("verifier", verifier):
        return returned(verifier.open(), Verifier)


def call_drafter(
    drafter: Drafter, pairs: Sequence[tuple[Context, Pen]], timeout: float | None = None
) -> None:
    """Has a drafter write its drafts.

    timeout: the most seconds that it may take. Defaults to no limit.

    Raises `DrafterError` if the drafter failed, or took too long.
    """
    propose: Callable[..., object] = drafter.propose_batch  # a plugin's may return something
    with calling("drafter", drafter):
        try:
            with time_limit(timeout):
                check_returned(propose(pairs))
        except TimeUp as error:
            drafts = "a draft" if len(pairs) == 1 else f"{len(pairs)} drafts"
            line = f"took longer than {timeout:g} s for {drafts} (draft_timeout)"
            raise DrafterError(line).with_traceback(error.__traceback__) from error


def computed_by(drafter: Drafter, context: Context, draft: Draft) -> Features | None:
    """Returns what a drafter has computed of the target for its draft.

    Raises `DrafterError` if it failed, or returned too few or many rows.
    """
    with calling("drafter", drafter):
        computed = drafter.computed(context, draft)
        for name, rows in (computed or {}).items():
            if len(rows) != len(draft) + 1:
                raise Unusable(f"computed {len(rows)} rows of {name}, expected {len(draft) + 1}")
        return computed


def depth_of(policy: Policy, gamma: int) -> int:
    """Returns how deep a policy drafts; raises `PluginError` unless that is 0 to `gamma`."""
    with calling("policy", policy):
        depth = policy.depth(gamma)
        if operator.index(depth) not in range(gamma + 1):
            raise Unusable(f"returned depth {shown(depth)}, expected 0 to {gamma}")
        return operator.index(depth)


def goes_on(policy: Policy, draft: Draft) -> bool:
    with calling("policy", policy):
        return bool(policy.more(draft))


def ends(constraint: Constraint, ids: Sequence[int]) -> bool:
    with calling("constraint", constraint):
        return bool(constraint.ends(ids))


def checked_scores(session: Any, logits: Any, shape: tuple[int, int]) -> Callable[[], None]:
    """Checks that logits are rows of finite numbers, one for each node.

    session: what they come from.

    Returns a function to call once the device has been waited for, which raises `TargetError` as
    this one does. On a CPU this one checks all.
    """
    if not isinstance(logits, Tensor) or logits.shape != shape:
        given = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        with calling("target", session):
            raise Unusable(f"scored with {given}, expected logits of shape {shape}")
    if logits.device.type == "cpu":
        check_finite(logits)
        return lambda: None
    is_finite = logits.amax(-1).isfinite().all()
    return lambda: check_flag(is_finite)


def verdict_of(verifier: Verifier, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
    """Returns the verdict of a rule.

    Raises `PluginError` if it is no `Verdict`, its nodes are no path of the draft, or its token is
    no id.
    """
    with calling("verifier", verifier):
        verdict = returned(verifier.verify(draft, scores, chance), Verdict)
        accepted = tuple(map(operator.index, verdict.accepted))
        last = ROOT
        for node in accepted:
            if not (0 <= node < len(draft) and draft.parents[node] == last):
                expected = f"a path from the root of the draft's {len(draft)} nodes"
                raise Unusable(f"accepted {accepted}, expected {expected}")
            last = node
        token, size = operator.index(verdict.next_token), scores.logits.shape[-1]
        if not 0 <= token < size:
            raise Unusable(f"added the token {token}, expected an id below {size}")
        return Verdict(accepted, token)
