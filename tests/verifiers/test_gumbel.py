"""Gumbel coupling: lossless, the same text whoever drafts, and as often accepted as published."""

import itertools
from functools import partial
from typing import Any

import pytest
import torch
from tiny.drafters import tokens_of
from tiny.parts import held
from tiny.pens import new_pen

from outrider import Chance, Context, Drafter, Pen, SampledChance, Sampling, decode
from outrider.contract.chance import TARGET as TARGET_PART
from outrider.contract.chance import Noise
from outrider.contract.policy import Policy
from outrider.plugins.parts import make
from outrider.targets.tabular import TabularTarget
from outrider.testing import Setup, check_verifier, loop_distribution, target_distribution
from outrider.testing.exact import distribution_of
from outrider.testing.table_drafters import TreeDrafter
from outrider.verifiers.gumbel import Gumbel, both

TARGET = TabularTarget(5, seed=4)
DRAFTERS: list[Any] = [
    "none", "random", "unigram", "bigram", "prompt_lookup", {"drafter": "bigram", "tree": "3x2"},
    {"drafter": "random", "tree": "top:2x1"},
]  # fmt: skip


def text_of(drafter: Any, seed: int, **options: Any) -> list[int]:
    """Returns the text that a drafter's run writes at temperature 1."""
    rounds = decode(
        TARGET, make("drafter", drafter), Gumbel(), [0, 1, 2],
        sampling=Sampling(temperature=1.0, seed=seed), max_new_tokens=40, **options,
    )  # fmt: skip
    return tokens_of(rounds)


def test_the_text_is_the_same_whoever_drafts() -> None:
    for seed in range(2):
        plain = text_of("none", seed)
        for drafter, gamma in itertools.product(DRAFTERS, (1, 4)):
            assert text_of(drafter, seed, gamma=gamma, budget=12) == plain
        policy: Policy = make("policy", "entropy")
        assert text_of("bigram", seed, policy=policy) == plain
    assert text_of("none", 0) != text_of("none", 1)


def test_gumbel_agrees_as_often_as_published_and_as_the_bound_says() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        p, q = torch.rand(2, 6, generator=generator, dtype=torch.float64) ** 3
        p, q = p / p.sum(), q / q.sum()
        q[torch.rand(6, generator=generator) < 0.2] = 0
        q = q / q.sum()
        if not q.isfinite().all():
            continue
        direct = torch.tensor(
            [
                1 / float(torch.maximum(p / p[x], q / q[x]).sum()) if p[x] > 0 and q[x] > 0 else 0.0
                for x in range(6)
            ],
            dtype=torch.float64,
        )
        torch.testing.assert_close(both(p, q), direct, atol=1e-14, rtol=0)
        tv = float((p - q).abs().sum() / 2)
        assert (1 - tv) / (1 + tv) - 1e-12 <= float(direct.sum()) <= 1 - tv + 1e-12


@pytest.mark.parametrize("kind", ["distinct", "deterministic"])
def test_the_loop_keeps_the_targets_law_where_trees_share_noise(kind: str) -> None:
    """Three tokens, with two rounds whose drafts race at the same positions."""
    target = TabularTarget(3, 1, seed=2)
    drafter = TreeDrafter(target, kind)
    sampling = Sampling(temperature=1.0)
    setup = Setup(target, drafter, Gumbel(), [1], gamma=2, sampling=sampling, budget=2)
    output = loop_distribution(setup, 3)
    exact = target_distribution(target, [1], 3, sampling, Gumbel())
    assert all(output[text] == pytest.approx(p, abs=1e-12) for text, p in exact.items())


class Peeking(Drafter):
    """Knows the noise, and writes the token that the target will draw after it if it may."""

    def propose(self, context: Context, pen: Pen) -> None:
        if pen.open:
            logits = TARGET.logits(context.tokens[:])
            pen.write(held(pen, Chance).race(logits.softmax(-1), len(context.tokens)))


def test_a_drafter_that_knows_the_noise_changes_nothing() -> None:
    assert text_of(Peeking(), 3) == text_of("none", 3)


def test_siblings_without_replacement_are_the_first_to_arrive() -> None:
    """Drawn by one race after another, they are distributed as draws from what is left."""
    logits = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()

    def play(chance: Chance) -> tuple[int, ...]:
        pen = new_pen(chance, vocab_size=3, gamma=1, budget=2, noise=Noise(range(4)))
        pen.branch(logits, 2)
        return pen.sheet.finish().tokens

    output = distribution_of(play)
    for x, y in itertools.permutations(range(3), 2):
        p = [0.5, 0.3, 0.2]
        assert output[x, y] == pytest.approx(p[x] * p[y] / (1 - p[x]), abs=1e-12)


@pytest.mark.parametrize(
    ("window", "keys"), [(None, [2, 3, 4]), (2, [(5, 5, 0), (5, 5, 1), (5, 6, 0)])]
)
def test_noise_is_named_by_the_position_or_by_the_last_tokens(window: Any, keys: Any) -> None:
    noise = Noise([5, 5], window)
    assert [noise.key(path) for path in ([], [5], [5, 6])] == keys


def test_noise_that_is_used_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watermark that does not count how often its window came before repeats itself."""
    monkeypatch.setattr(Noise, "key", lambda self, path: (*self.text, *path)[-1:])
    with pytest.raises(AssertionError, match="comes out with probability"):
        check_verifier(partial(Gumbel, window=1))


def test_a_watermark_is_found_in_the_text_by_who_knows_the_seed() -> None:
    """Of five tokens, those that arrive first are written more often; so with another drafter."""
    texts = []
    for drafter in ("none", "bigram"):
        rounds = decode(
            TARGET, make("drafter", drafter), Gumbel(window=2), [0, 1, 2], gamma=3,
            sampling=Sampling(temperature=1.0, seed=3), max_new_tokens=300,
        )  # fmt: skip
        texts.append([0, 1, 2, *tokens_of(rounds)])
    assert texts[0] == texts[1]

    def first(seed: int) -> float:
        chance, flat = SampledChance.seeded(seed).named(TARGET_PART), torch.ones(5)
        keys = (Noise(texts[0][:length], 2).key(()) for length in range(3, 303))
        written = zip(keys, texts[0][3:], strict=True)
        return sum(chance.race(flat, key) == token for key, token in written) / 300

    assert first(3) > 0.33
    assert first(4) < 0.27
