"""Milliseconds a round outside the model, and of each rule, for a vocabulary of 49152.

The loop runs with prompt lookup at gamma 8, and a target whose scores are ready. The rules judge a
chain of 8 tokens, and trees of 64 nodes if they take trees, on one thread. The exit status is 1
if one takes longer than its limit.

python evidence/clocks.py --rounds 20
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from time import perf_counter, thread_time

import torch
from torch import Tensor

from outrider import (
    Context,
    Draft,
    Drafter,
    Pen,
    SampledChance,
    Sampling,
    Scores,
    Session,
    Target,
    Tokens,
    Verdict,
    Verifier,
    decode,
)
from outrider.contract.sheet import Sheet
from outrider.drafters.parts.trees.shapes import one_by_one
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.plugins.parts import make
from outrider.plugins.registry import installed

VOCAB = 49152
GAMMA = 8
SAMPLED = Sampling(temperature=1.0)
SHAPES = {"iid": "iid:4x3x4", "distinct": "4x3x4", "deterministic": "top:4x3x4", "paths": "paths:8"}
"""A tree of 64 nodes of each kind: 4 + 12 + 48, or eight paths of eight."""
LOOP_LIMITS = {0.0: 3.0, 1.0: 8.0}
"""Milliseconds a round of the loop, by temperature."""
RULE_LIMITS = {"token": 5.0, "block": 5.0}
RULE_LIMIT = 25.0
"""Milliseconds a verdict, for the rules named above and for all others."""


class Instant(Target):
    """A target that costs nothing: its scores are ready, and accept half of a periodic text."""

    vocab_size = VOCAB

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.logits = torch.randn(64, GAMMA + 1, VOCAB, generator=generator)
        self.rounds = 0

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        return InstantSession(self)


class InstantSession(Session):
    def __init__(self, target: Instant) -> None:
        self.target = target

    def score(self, draft: Draft) -> Tensor:
        self.target.rounds += 1
        logits = self.target.logits[self.target.rounds % 64, : len(draft) + 1].clone()
        agreed = self.target.rounds % (GAMMA + 1)
        for row, token in enumerate(draft.tokens[:agreed]):
            logits[row, token] = 40.0
        # Then another token of the prompt, so that the next draft is full again.
        other = next(token for token in range(50) if token not in draft.tokens[agreed : agreed + 1])
        logits[min(agreed, len(draft)), other] = 40.0
        return logits

    def commit(self, verdict: Verdict) -> None:
        return


def loop_milliseconds(temperature: float, rounds: int) -> list[float]:
    """Returns the milliseconds of each round that were not spent in the target."""
    prompt = [int(token) for token in torch.arange(1000) % 50]
    loop = decode(
        Instant(),
        make("drafter", "prompt_lookup"),
        make("verifier", "token"),
        prompt,
        gamma=GAMMA,
        sampling=Sampling(temperature=temperature),
        max_new_tokens=100 * rounds,
    )
    spent = []
    for _ in range(rounds):
        began = perf_counter()
        round = next(loop)
        assert round.drafted == GAMMA, "only rounds with a full draft count"
        spent.append((perf_counter() - began - round.seconds["score"]) * 1000)
    return spent[5:]


class Close(Drafter):
    """Draws from distributions close to the target's, so that part of each draft is accepted."""

    def __init__(self, tree: str | None, logits: torch.Tensor) -> None:
        self.shape = parse_tree(tree)
        self.kind = self.shape.kind
        self.logits = logits

    def propose(self, context: Context, pen: Pen) -> None:
        self.shape.grow(pen, one_by_one(lambda path: self.logits[len(path)]))


def rule_milliseconds(rule: Verifier, tree: str | None, rounds: int) -> tuple[float, float]:
    """Returns the median milliseconds of a verdict, and the mean length accepted."""
    generator = torch.Generator().manual_seed(0)
    target = 4 * torch.randn(9, VOCAB, generator=generator)
    drafter = Close(tree, target + 0.7 * torch.randn(9, VOCAB, generator=generator))
    times, accepted = [], 0
    for seed in range(rounds):
        chance = SampledChance.seeded(seed)
        budget = 64 if tree else None
        pen = Pen(Sheet(sampling=SAMPLED, chance=chance, vocab_size=VOCAB, gamma=8, budget=budget))
        drafter.propose(Context(Tokens([0])), pen)
        draft = pen.sheet.finish()
        logits = target[[0, *(len(draft.path(node)) for node in range(len(draft)))]]
        scores = Scores(logits, SAMPLED)
        _ = scores.probs  # the softmax of the target's rows, which every rule needs
        spent = []
        for _ in range(3):  # the shortest counts: other work on the machine can only add
            chance = SampledChance.seeded(rounds + seed)  # its own, not the draft's
            began = thread_time()
            verdict = rule.verify(draft, scores, chance)
            spent.append(1000 * (thread_time() - began))
        times.append(min(spent))
        accepted += len(verdict.accepted)
    assert isinstance(draft, Draft)
    return statistics.median(times[rounds // 5 :]), accepted / rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    more = "factor of the limits, for a busy machine"
    parser.add_argument("--slack", type=float, default=1.0, help=more)
    options = parser.parse_args()
    torch.set_num_threads(1)  # its own time is measured, whatever else is running
    slow = False
    for temperature, limit in LOOP_LIMITS.items():
        spent = statistics.median(loop_milliseconds(temperature, 5 + 10 * options.rounds))
        slow |= spent > options.slack * limit
        print(f"temperature {temperature:g}: {spent:.2f} ms a round (at most {limit:g})")
    for name, entry in installed().of("verifier").items():
        limit = options.slack * RULE_LIMITS.get(name, RULE_LIMIT)
        for kind, tree in {"chain": None, **SHAPES}.items():
            if kind in entry.product.takes:
                spent, accepted = rule_milliseconds(make("verifier", name), tree, options.rounds)
                slow |= spent > limit
                shape = f"{name:<20} {tree or 'chain of 8':<12}"
                line = f"{spent:6.2f} ms a round (limit {limit:g}), {accepted:.2f} accepted"
                print(shape, line, flush=True)
    sys.exit(slow)


if __name__ == "__main__":
    main()
