"""Each check of a target catches the wrong target that was made for it."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from tiny.toy_target import VOCABULARY, Plain, PlainBatch, PlainSession, Seen
from torch import Tensor

from outrider import ConfigError, Draft, Verdict
from outrider.contract.context import Features
from outrider.contract.target import Session, Target
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget
from outrider.testing import check_target, parametrize_with_checks, run_checks, targets


def with_session(session_class: Any) -> Callable[[], Target]:
    """Returns what makes the toy with another kind of session."""

    class Wrong(Plain):
        def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
            session: Session = session_class(list(tokens), needs)
            return session

    return Wrong


class ForgetsNothing(PlainSession):
    """Keeps the whole draft, whatever was rejected."""

    def commit(self, verdict: Verdict) -> None:
        self.cache += self.nodes
        self.pending = [verdict.next_token]


class PositionsOffByOne(PlainSession):
    """The first token of a draft stands where the last of the text does."""

    def positions(self) -> list[int]:
        return [position - 1 for position in super().positions()]


class CountsRejectedPositions(PlainSession):
    """Forgets what was rejected, and goes on counting after it, if a draft was accepted in part."""

    shift = 0

    def score(self, draft: Draft) -> Tensor:
        return super().score(draft) if not self.shift else super().score(draft).roll(1, -1)

    def commit(self, verdict: Verdict) -> None:
        self.shift += len(self.draft) > len(verdict.accepted) > 0
        super().commit(verdict)


class LosesALongAcceptance(PlainSession):
    """Drops the last token of a draft that was accepted as a whole."""

    def commit(self, verdict: Verdict) -> None:
        accepted = verdict.accepted
        whole = bool(accepted) and len(accepted) == len(self.draft)
        super().commit(Verdict(accepted[:-1] if whole else accepted, verdict.next_token))


class IgnoresTheTreeMask(PlainSession):
    def seen(self, node: int) -> list[int]:
        return list(range(node + 1))


class KeepsTheFirstPath(PlainSession):
    """Keeps as many nodes as were accepted, but the first ones."""

    def commit(self, verdict: Verdict) -> None:
        super().commit(Verdict(tuple(range(len(verdict.accepted))), verdict.next_token))


class NotANumber(PlainSession):
    def score(self, draft: Draft) -> Tensor:
        return super().score(draft).index_fill(0, torch.tensor([len(draft)]), float("nan"))


class TooFewRows(PlainSession):
    def score(self, draft: Draft) -> Tensor:
        return super().score(draft)[-max(1, len(draft)) :]


class GlobalNoise(PlainSession):
    def row(self, seen: Seen) -> Tensor:
        return super().row(seen) + 0.1 * torch.rand(VOCABULARY)


class NewFeatures(PlainSession):
    """Its features keep what was rejected."""

    def features(self) -> dict[str, Tensor]:
        kept = super().features()
        return {name: torch.cat([kept[name], kept[name][-len(self.draft) :]]) for name in kept}


class ShowsMore(PlainSession):
    def features(self) -> dict[str, Tensor]:
        return {"states": torch.zeros(1, 1)}


class SharedCache(PlainSession):
    """The texts of one target write to one cache, which a text of more tokens begins anew."""

    held: Seen = []  # noqa: RUF012

    def __init__(self, tokens: list[int], needs: frozenset[str]) -> None:
        super().__init__(tokens, needs)
        SharedCache.held = self.cache

    def commit(self, verdict: Verdict) -> None:
        self.cache = SharedCache.held
        super().commit(verdict)


class OffersWhatItLacks(Plain):
    offers = frozenset({"tokenizer"})


class TakesAnyIds(Plain):
    def encode(self, prompt: str | Sequence[int], *, chat: bool = False) -> list[int]:
        if isinstance(prompt, str):
            raise ConfigError("no tokenizer")
        return list(prompt)


class OffersAll(Plain):
    """Offers even what the kit made up."""

    offers = frozenset({"states"}) | targets._Needy.needs


class GoesOnElsewhere(PlainSession):
    """Takes what its first layer gave for that of other tokens."""

    def features(self) -> dict[str, Tensor]:
        rows = torch.tensor(self.cache + self.nodes).double()
        return dict.fromkeys(("keys.0", "values.0", "hidden_states.1"), rows)

    def resume(self, draft: Draft, computed: Features) -> Tensor:
        return self.score(draft).roll(len(computed), -1)


class Resumed(Plain):
    offers = frozenset({"cache", "hidden_states.1"})

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        return GoesOnElsewhere(list(tokens), needs)


class NoReason(Plain):
    trees, no_trees = False, ""


CAUGHT: dict[Callable[[Any], Any], list[Any]] = {
    targets.check_scores_are_distributions: [NotANumber, TooFewRows],
    targets.check_scores_are_the_same_each_time: [GlobalNoise],
    targets.check_a_chain_equals_token_by_token: [PositionsOffByOne],
    targets.check_a_rollback_forgets_what_was_rejected: [ForgetsNothing, CountsRejectedPositions],
    targets.check_rounds_follow_each_other: [LosesALongAcceptance],
    targets.check_a_tree_equals_its_paths: [IgnoresTheTreeMask, KeepsTheFirstPath, NoReason],
    targets.check_a_pass_goes_on_behind_layers: [Resumed],
    targets.check_sessions_are_independent: [SharedCache],
    targets.check_offers_work: [OffersWhatItLacks, NewFeatures],
    targets.check_what_is_not_offered_is_refused: [ShowsMore, TakesAnyIds, OffersAll],
}
FAULTY = [
    (with_session(part) if issubclass(part, PlainSession) else part, check)
    for check, parts in CAUGHT.items()
    for part in parts
]


@pytest.mark.parametrize(("part", "check"), FAULTY)
def test_the_check_catches_its_faulty_part(part: Any, check: Callable[[Any], Any]) -> None:
    with pytest.raises(AssertionError):
        check(part)


def test_every_check_has_a_faulty_part() -> None:
    assert {check for _, check in FAULTY} == set(targets.CHECKS)


@parametrize_with_checks(
    [Plain, PlainBatch, TabularTarget, partial(TabularTarget, 4, encoder=True)]
)
def test_honest_targets_pass(make: Callable[[], Target], check: Callable[[Any], Any]) -> None:
    check(make)


@pytest.fixture(scope="module")
def tiny(llama: Any, t5: Any, words: Any) -> Iterator[list[TransformersTarget]]:
    """A decoder in two precisions, packed, and an encoder-decoder."""
    yield [
        TransformersTarget(llama(), words),
        TransformersTarget(llama().bfloat16()),
        TransformersTarget(llama(), optimize="packed"),
        TransformersTarget(t5()),
    ]


def test_transformers_targets_pass(tiny: list[TransformersTarget]) -> None:
    for target in tiny:
        check_target(target)


def test_a_target_without_trees_refuses_them_and_passes() -> None:
    class Chains(Plain):
        trees, no_trees = False, "the toy takes only chains"

    outcomes = {outcome.check: outcome for outcome in run_checks(Chains)}
    assert not any(outcome.fault for outcome in outcomes.values())
    refused = {name for name, outcome in outcomes.items() if outcome.refused}
    assert refused == {"a_tree_equals_its_paths"}
    assert outcomes["a_tree_equals_its_paths"].refused == "the toy takes only chains"


def test_texts_that_are_too_short_to_check_say_so() -> None:
    class Short(Plain):
        max_length = 20

    with pytest.raises(AssertionError, match="max_length is 20: the checks need texts of 27"):
        check_target(Short())
