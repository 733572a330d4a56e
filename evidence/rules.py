"""Milliseconds of one thread that each rule takes a round, for a vocabulary of 49152.

On a chain of 8 tokens, and on trees of 64 nodes if the rule takes trees.

python evidence/rules.py --rounds 20
"""

import argparse
import statistics
import sys
from time import thread_time

import torch

from outrider import Context, Draft, Drafter, Pen, Sampling, Scores, Tokens, Verifier
from outrider.contract.chance import SampledChance
from outrider.contract.sheet import Sheet
from outrider.drafters.parts.trees.shapes import one_by_one
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.plugins.registry import installed, make

VOCAB = 49152
SAMPLED = Sampling(temperature=1.0)
SHAPES = {"iid": "iid:4x3x4", "distinct": "4x3x4", "deterministic": "top:4x3x4", "paths": "paths:8"}
"""A tree of 64 nodes of each kind: 4 + 12 + 48, or eight paths of eight."""
LIMITS = {"token": 5.0, "block": 5.0}
LIMIT = 25.0
"""Milliseconds a round, for the rules named above and for all others."""


class Close(Drafter):
    """Draws from distributions close to the target's, so that part of each draft is accepted."""

    def __init__(self, tree: str | None, logits: torch.Tensor) -> None:
        self.shape = parse_tree(tree)
        self.kind = self.shape.kind
        self.logits = logits

    def propose(self, context: Context, pen: Pen) -> None:
        self.shape.grow(pen, one_by_one(lambda path: self.logits[len(path)]))


def milliseconds(rule: Verifier, tree: str | None, rounds: int) -> tuple[float, float]:
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument(
        "--slack", type=float, default=1.0, help="factor of the limits, for a busy machine"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)  # its own time is measured, whatever else is running
    slow = 0
    for name, entry in installed().of("verifier").items():
        limit = options.slack * LIMITS.get(name, LIMIT)
        for kind, tree in {"chain": None, **SHAPES}.items():
            if kind in entry.product.takes:
                spent, accepted = milliseconds(make("verifier", name), tree, options.rounds)
                slow += spent > limit
                print(
                    f"{name:<20} {tree or 'chain of 8':<12} {spent:6.2f} ms a round"
                    f" (limit {limit:g}), {accepted:.2f} accepted",
                    flush=True,
                )
    sys.exit(slow > 0)


if __name__ == "__main__":
    main()
