"""Alpha is the overlap of p and q, worked out directly on a table."""

import pytest
import torch

from outrider import Context, Draft, Drafter, Pen, Sampling
from outrider.drafters.none import NoDraft
from outrider.drafters.random import Random
from outrider.lab.overlap import Overlap, overlap, reference
from outrider.targets.tabular import TabularTarget
from outrider.testing.stage import ChainDrafter

TARGET = TabularTarget(6, seed=2)
PROMPT, TEXT = [0, 1], [3, 2, 5, 5, 0, 1]
SAMPLED = Sampling(temperature=1.0)
PREFIXES = [[*PROMPT, *TEXT[:t]] for t in range(len(TEXT))]


def alpha(drafter: Drafter, sampling: Sampling) -> float | None:
    return overlap(reference(TARGET, PROMPT, TEXT), drafter, sampling).alpha


def test_the_reference_holds_the_logits_at_each_prefix() -> None:
    text = reference(TARGET, PROMPT, TEXT)
    assert text.ids == PROMPT + TEXT
    for row, prefix in enumerate(PREFIXES):
        assert torch.equal(text.logits[row], TARGET.open(prefix).score(Draft())[0])


@pytest.mark.parametrize("sampling", [SAMPLED, Sampling(temperature=0.5, top_k=3), Sampling()])
def test_alpha_is_the_mean_of_the_smaller_of_p_and_q(sampling: Sampling) -> None:
    other = TabularTarget(6, 2, 7, sharpness=2.5)  # the table of the drafter
    expected = sum(
        float(sampling.law(TARGET.logits(prefix)).minimum(sampling.law(other.logits(prefix))).sum())
        for prefix in PREFIXES
    ) / len(PREFIXES)
    assert alpha(ChainDrafter(TARGET, "drawn"), sampling) == pytest.approx(expected, abs=1e-12)


def test_alpha_of_uniform_guesses() -> None:
    expected = sum(
        float(TARGET.logits(prefix).softmax(-1).clamp(max=1 / 6).sum()) for prefix in PREFIXES
    ) / len(PREFIXES)
    assert alpha(Random(), SAMPLED) == pytest.approx(expected, abs=1e-12)


def test_the_target_itself_has_alpha_one() -> None:
    for sampling in (SAMPLED, Sampling()):
        assert alpha(ChainDrafter(TARGET, "exact"), sampling) == pytest.approx(1, abs=1e-12)


def test_a_written_token_counts_its_probability() -> None:
    class Zero(Drafter):
        def propose(self, context: Context, pen: Pen) -> None:
            pen.write(0)

    expected = sum(float(TARGET.logits(prefix).softmax(-1)[0]) for prefix in PREFIXES)
    assert alpha(Zero(), SAMPLED) == pytest.approx(expected / len(PREFIXES), abs=1e-12)


def test_silence_counts_nothing_and_shows_in_coverage() -> None:
    silent = overlap(reference(TARGET, PROMPT, TEXT), NoDraft(), SAMPLED)
    assert (silent.alpha, silent.coverage) == (0, 0)
    assert silent.prefixes == len(TEXT)
    assert Overlap().alpha is None
    assert Overlap().coverage is None


def test_a_drafter_sees_the_states_that_it_would_see_while_decoding(llama: object) -> None:
    from outrider.targets.transformers import TransformersTarget

    class Watches(Drafter):
        needs = frozenset({"hidden_states"})

        def __init__(self) -> None:
            self.lengths: list[tuple[int, int]] = []

        def propose(self, context: Context, pen: Pen) -> None:
            self.lengths.append((len(context.tokens), len(context.features["hidden_states"])))

    drafter = Watches()
    target = TransformersTarget(llama())  # type: ignore[operator]
    overlap(reference(target, PROMPT, TEXT, drafter.needs), drafter, SAMPLED)
    assert drafter.lengths == [(length, length - 1) for length in range(2, 8)]
