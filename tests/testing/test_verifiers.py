"""Each check of a rule catches the mutants that were made for it."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from outrider import (
    Budget,
    Chance,
    Draft,
    DrafterError,
    OutriderError,
    PluginError,
    SampledChance,
    Scores,
    Target,
    Verdict,
    Verifier,
    VerifierExample,
    generate,
)
from outrider.contract.draft import KINDS
from outrider.targets.tabular import TabularTarget
from outrider.testing import check_verifier, checks_of, examples, verifier_distributions, verifiers
from outrider.verifiers import k_seq, multi_path_block, traversal
from outrider.verifiers.block import Block
from outrider.verifiers.k_seq import KSeq, k_residual, smallest_rho
from outrider.verifiers.lenient import Lenient
from outrider.verifiers.multi_path_block import MultiPathBlock, largest_of
from outrider.verifiers.prefix import acceptance, leading
from outrider.verifiers.token import Token, residual
from outrider.verifiers.traversal import Traversal


class Recursive(Verifier):
    """Recursive rejection over siblings, each with its recorded distribution: lossless on any tree.

    It is the control for the mutant that takes siblings out of order.
    """

    lossless = True
    takes = frozenset(KINDS)

    def order(self, children: list[int]) -> list[int]:
        return children

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        path: list[int] = []
        while True:
            node = path[-1] if path else -1
            p = scores.after(node)
            for child in self.order(draft.children(node)):
                x, q = draft.tokens[child], draft.probs[child]
                ratio = p[x] if q is None else p[x] / q[x]
                if chance.coins(ratio.reshape(1))[0]:
                    path.append(child)
                    break
                p = residual(p, q, x)
                p = p / p.sum()
            else:
                return Verdict(tuple(path), chance.categorical(p))


class SwappedSiblings(Recursive):
    def order(self, children: list[int]) -> list[int]:
        return children[::-1]


class Peeks(Verifier):
    """Says that it is lossless, and looks at the text before the draft."""

    lossless = True

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        return Verdict((), scores.context.tokens[-1])


def test_a_lossless_rule_may_not_read_the_context() -> None:
    line = r"^scores\.context: only verify and ceiling of a rule with lossless=False may read it$"
    for check in verifier_distributions.CHECKS[:2]:
        with pytest.raises(PluginError, match=line):
            check(Peeks)
    with pytest.raises(PluginError, match=line):
        generate(TabularTarget(3), [0], "random", Peeks())


class Mutant(Verifier):
    """The token rule, split into steps that a mutant can get wrong."""

    lossless = True

    def ratios(self, draft: Draft, scores: Scores) -> Tensor:
        return acceptance(draft, scores)

    def coins(self, ratios: Tensor, chance: Chance) -> list[bool]:
        return chance.coins(ratios)

    def recovered(self, draft: Draft, scores: Scores, at: int) -> Tensor:
        return residual(scores.after(at - 1), draft.probs[at], draft.tokens[at])

    def bonus(self, draft: Draft, scores: Scores) -> Tensor:
        return scores.after(len(draft) - 1)

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        at = leading(self.coins(self.ratios(draft, scores), chance))
        probs = self.recovered(draft, scores, at) if at < len(draft) else self.bonus(draft, scores)
        return Verdict(tuple(range(at)), chance.categorical(probs))


class WrongResidual(Mutant):
    def recovered(self, draft: Draft, scores: Scores, at: int) -> Tensor:
        return scores.after(at - 1)


class StaleQ(Mutant):
    """Divides by the distribution of the token before."""

    def ratios(self, draft: Draft, scores: Scores) -> Tensor:
        return acceptance(
            Draft(draft.tokens, draft.parents, draft.probs[:1] + draft.probs[:-1]), scores
        )


class WrongRow(Mutant):
    """Draws the bonus token from the distribution of the position before."""

    def bonus(self, draft: Draft, scores: Scores) -> Tensor:
        return scores.after(max(len(draft) - 2, -1))


class ReusedUniform(Mutant):
    """Flips every coin with one random number."""

    def coins(self, ratios: Tensor, chance: Chance) -> list[bool]:
        u = (chance.categorical(torch.ones(64)) + 0.5) / 64
        return [u < float(ratio) for ratio in ratios]


class DroppedToken(Mutant):
    """Drops the last token of a draft that was fully accepted."""

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        verdict = super().verify(draft, scores, chance)
        if len(draft) and len(verdict.accepted) == len(draft):
            path = verdict.accepted[:-1]
            return Verdict(path, chance.categorical(scores.after(len(path) - 1)))
        return verdict


class TakesTheSecondBest(Mutant):
    """Always takes the second likeliest next token, even at temperature 0."""

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        verdict = super().verify(draft, scores, chance)
        second = scores.logits[len(verdict.accepted)].topk(2).indices[1]
        return Verdict(verdict.accepted, int(second))


class AcceptsOneNodeLater(Mutant):
    """Reports the nodes after those that it accepted."""

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        verdict = super().verify(draft, scores, chance)
        return Verdict(tuple(range(1, len(verdict.accepted) + 1)), verdict.next_token)


class GlobalCoins(Mutant):
    def coins(self, ratios: Tensor, chance: Chance) -> list[bool]:
        return [bool(u < ratio) for u, ratio in zip(torch.rand(len(ratios)), ratios, strict=True)]


class Remembers(Mutant):
    """Accepts twice as often in every second round: wrong only over several rounds."""

    def __init__(self) -> None:
        self.rounds = 0

    def coins(self, ratios: Tensor, chance: Chance) -> list[bool]:
        self.rounds += 1
        return chance.coins(ratios if self.rounds % 2 else ratios * 2)


class LenientInPart(Verifier):
    """Is lenient in some rounds, and exact in others."""

    lossless = False

    def ceiling(self, scores: Scores) -> Tensor:
        return Lenient(0.5).ceiling(scores)


class Spends(LenientInPart):
    """Is lenient for the first round of each text alone, as a rule with a budget is."""

    def __init__(self) -> None:
        self.is_spent = False

    def open(self) -> "Spends":
        text = copy.copy(self)
        text.is_spent = False
        return text

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        rule, self.is_spent = Token() if self.is_spent else Lenient(0.5), True
        return rule.verify(draft, scores, chance)


class NeverStartsOver(Spends):
    """What it has spent in one text is missing in the next."""

    def open(self) -> Spends:
        return self


class Judges(LenientInPart):
    """Is lenient where a feature of the target says so, as a judge is."""

    needs = frozenset({"hidden_states.1"})

    def __init__(self) -> None:
        self.bound = False

    def bind(self, target: Target) -> None:
        self.bound = bool(self.needs <= target.offers)

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        assert self.bound
        (states,) = scores.features.values()
        assert len(states) == len(draft) + 1
        assert states.equal(scores.logits)  # those of a table
        rule = Lenient(0.5) if float(states[0, 0]) > 0 else Token()
        return rule.verify(draft, scores, chance)


class SaysThatItsJudgeIsLossless(Judges):
    lossless = True


class WritesIntoScores(Mutant):
    def bonus(self, draft: Draft, scores: Scores) -> Tensor:
        probs = scores.after(len(draft) - 1)
        probs /= 2
        return probs


class OverlyLenient(Lenient):  # type: ignore[misc]  # final, but a mutant needs a base
    """Claims a ceiling that it does not keep."""

    def ceiling(self, scores: Scores) -> Tensor:
        return super().ceiling(scores) * 0.75


class AcceptsLongDrafts(Token):  # type: ignore[misc]
    """Accepts every draft of five or more tokens."""

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        if len(draft) < 5:
            return super().verify(draft, scores, chance)
        path = tuple(range(len(draft)))
        return Verdict(path, chance.categorical(scores.after(path[-1])))


class AcceptsTheNinthOfThree(Mutant):
    """Flips no coin for a token that follows eight accepted ones, of three tokens or more."""

    def ratios(self, draft: Draft, scores: Scores) -> Tensor:
        ratios = super().ratios(draft, scores)
        ratios[8:9] = 1.0 if scores.logits.shape[-1] > 2 else ratios[8:9]
        return ratios


class AcceptsUnderTopK(Mutant):
    """Flips no coin for the sixth token and those after it, under top-k alone."""

    def ratios(self, draft: Draft, scores: Scores) -> Tensor:
        ratios = super().ratios(draft, scores)
        ratios[5:] = 1.0 if scores.sampling.top_k else ratios[5:]
        return ratios


class AcceptsBelowSevenNodes(Traversal):  # type: ignore[misc]
    """Accepts the first child of the seventh node of a path, in trees alone."""

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        verdict = super().verify(draft, scores, chance)
        below = draft.children(verdict.accepted[-1]) if len(verdict.accepted) == 7 else ()
        if draft.is_chain or not below:
            return verdict
        return Verdict((*verdict.accepted, below[0]), chance.categorical(scores.after(below[0])))


class TakesOutTheLastSiblingAlone(Traversal):  # type: ignore[misc]
    """Of several siblings that are rejected, takes only the last out of q."""

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(traversal, "_distribution", self._of_the_last)
            return super().verify(draft, scores, chance)

    @staticmethod
    def _of_the_last(draft: Draft, child: int, parent: Any) -> Tensor:
        probs = draft.distribution(child, parent.p)
        if draft.probs[child] is None or not parent.tested:
            return probs
        probs = probs.clone()
        probs[parent.tested[-1:]] = 0
        return probs / probs.sum()


class SaysToken(Lenient):  # type: ignore[misc]
    """Accepts leniently, but reports the probabilities of the token rule."""

    def accepts(self, q: Tensor, scores: Scores, node: int) -> Tensor:
        return Token().accepts(q, scores, node)


class KSeqOfTwo(KSeq):  # type: ignore[misc]
    """Takes every group of siblings for two."""

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(k_seq, "smallest_rho", lambda p, q, _: smallest_rho(p, q, 2))
            patch.setattr(k_seq, "k_residual", lambda p, q, rho, _: k_residual(p, q, rho, 2))
            return super().verify(draft, scores, chance)


class MultiPathBlockOfTwo(MultiPathBlock):  # type: ignore[misc]
    """Takes the largest of any number of paths for the largest of two."""

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(multi_path_block, "largest_of", lambda _, *rest: largest_of(2, *rest))
            return super().verify(draft, scores, chance)


class GivesUpOnThree(Recursive):
    """Raises for three siblings, for which it would be wrong."""

    def order(self, children: list[int]) -> list[int]:
        if len(children) > 2:
            raise DrafterError("wrote three siblings")
        return children


class SaysTokenAlong(Block):  # type: ignore[misc]
    """Verifies by the block, but reports for a text what the token rule does."""

    def accepts_along(self, ratios: Tensor) -> Tensor:
        return ratios.clamp(max=1)


class SaysTheFirstNode(Lenient):  # type: ignore[misc]
    """Reports for every node the probabilities of the first one."""

    def accepts(self, q: Tensor, scores: Scores, node: int) -> Tensor:
        return super().accepts(q, scores, -1)


class KnowsTheSampler(Mutant):
    """Accepts everything where the run samples and does not enumerate."""

    def coins(self, ratios: Tensor, chance: Chance) -> list[bool]:
        if isinstance(chance, SampledChance):
            return [True] * len(ratios)
        return chance.coins(ratios)


class Overdrawn(Verifier):
    """Lenience that claims a small budget."""

    lossless = False
    budget = Budget(0.02)

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        return Lenient(0.2).verify(draft, scores, chance)

    def ceiling(self, scores: Scores) -> Tensor:
        return scores.probs / 0.2


class Uncoupled(Verifier):
    """Says that it is coupled, but is the token rule."""

    lossless = True
    coupled = True

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        return Token().verify(draft, scores, chance)


class GrowsLenient(Mutant):
    """Accepts the fourth token of a chain, and those after it, twice as often."""

    def ratios(self, draft: Draft, scores: Scores) -> Tensor:
        ratios = super().ratios(draft, scores)
        ratios[3:] *= 2
        return ratios


class SaysWhatIsWrong(Mutant):
    examples = (VerifierExample(p=(0.5, 0.5), q=(0.5, 0.5), accepted=0.5),)


of_texts = verifier_distributions
CAUGHT: dict[Callable[[Callable[[], Verifier]], Any], list[type[Verifier]]] = {
    of_texts.check_output_distribution_is_as_claimed: [
        *(WrongResidual, StaleQ, WrongRow, ReusedUniform, DroppedToken, SwappedSiblings),
        *(OverlyLenient, AcceptsLongDrafts, AcceptsTheNinthOfThree, AcceptsUnderTopK),
        *(AcceptsBelowSevenNodes, TakesOutTheLastSiblingAlone, KSeqOfTwo, MultiPathBlockOfTwo),
        *(GivesUpOnThree, SaysThatItsJudgeIsLossless, Overdrawn),
    ],
    of_texts.check_loop_distribution_is_as_claimed: [WrongResidual, Remembers],
    of_texts.check_greedy_text_is_as_claimed: [TakesTheSecondBest],
    of_texts.check_sampled_texts_have_the_enumerated_distribution: [KnowsTheSampler],
    verifiers.check_accepts_a_path: [AcceptsOneNodeLater],
    verifiers.check_accepts_reports_true_probabilities: [SaysToken, SaysTheFirstNode],
    verifiers.check_accepts_along_reports_true_probabilities: [SaysTokenAlong],
    verifiers.check_a_text_begins_without_state: [NeverStartsOver],
    verifiers.check_draws_only_from_chance: [GlobalCoins],
    verifiers.check_leaves_distributions_alone: [WritesIntoScores],
    verifiers.check_text_depends_on_the_seed_alone: [Uncoupled],
    examples.check_its_examples_of_verdicts_hold: [SaysWhatIsWrong],
}
FAULTY = [(mutant, check) for check, mutants in CAUGHT.items() for mutant in mutants]


@pytest.mark.parametrize(("mutant", "check"), FAULTY)
def test_the_check_catches_its_mutant(
    mutant: type[Verifier], check: Callable[[Callable[[], Verifier]], None]
) -> None:
    with pytest.raises((AssertionError, RuntimeError, IndexError, OutriderError)):
        check(mutant)


def test_every_check_has_a_mutant() -> None:
    assert {check for _, check in FAULTY} == {
        check for mutant, _ in FAULTY for check in checks_of(mutant)
    }


def test_the_thorough_check_catches_errors_in_long_drafts_only() -> None:
    (check,) = verifier_distributions.THOROUGH
    check(Token)
    with pytest.raises(AssertionError, match="draft of 2 tokens, gamma 6"):
        check(GrowsLenient)


@pytest.mark.parametrize(
    "rule",
    [
        *(Mutant, Recursive, Spends, Judges, partial(Lenient, 1.0)),
        *(partial(Lenient, lenience, way) for lenience, way in ((0.5, "plain"), (0.1, "scaled"))),
    ],
)
def test_a_right_rule_passes(rule: Callable[[], Verifier]) -> None:
    check_verifier(rule)


def test_replacing_a_token_by_the_distribution_itself_breaks_the_ceiling_of_lenience() -> None:
    """Leviathan et al. name no residual; with p as residual, the bound p / l would not hold."""

    class PlainP(Lenient):  # type: ignore[misc]
        def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
            if scores.sampling.greedy:
                return super().verify(draft, scores, chance)
            at = leading(chance.coins(acceptance(draft, scores) / self.lenience))
            return Verdict(tuple(range(at)), chance.categorical(scores.after(at - 1)))

    with pytest.raises(AssertionError, match="ceiling"):
        verifier_distributions.check_output_distribution_is_as_claimed(PlainP)
