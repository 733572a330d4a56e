"""Milliseconds a round outside the model: prompt lookup, gamma 8, a vocabulary of 49152.

python evidence/overhead.py --rounds 200
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from time import perf_counter

import torch
from torch import Tensor

from outrider import Draft, Sampling, Session, Target, Verdict, decode
from outrider.plugins.registry import make

VOCAB = 49152
GAMMA = 8
LIMITS = {0.0: 3.0, 1.0: 8.0}
"""Milliseconds a round, by temperature."""


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


def milliseconds(temperature: float, rounds: int) -> list[float]:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    slow = False
    for temperature, limit in LIMITS.items():
        median = statistics.median(milliseconds(temperature, options.rounds))
        slow |= median > limit
        print(f"temperature {temperature:g}: {median:.2f} ms a round (at most {limit:g})")
    sys.exit(slow)


if __name__ == "__main__":
    main()
