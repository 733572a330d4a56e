"""The distribution of the first two tokens on the real model, by chi-square against exact p.

    python evidence/distribution.py --samples 2000

At temperature 1 with top-k 8, with and without top-p 0.9, for every drafter; and for a drafter that
lies about its distribution, which the test must reject. The target scores each text only once:
under test is everything around the model.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from outrider import Context, Draft, Drafter, Pen, Sampling, Session, Target, Verdict, decode
from outrider.plugins.registry import make
from outrider.testing.chi_square import SIGNIFICANCE, chi_square

PROMPT = (
    "The old man and the cat went to the sea. The old woman and the dog went to the hill. The old"
)
"""A text with many continuations, some of which every drafter but the random one proposes."""
SETTINGS = (Sampling(temperature=1.0, top_k=8), Sampling(temperature=1.0, top_k=8, top_p=0.9))
DRAFTERS = ("none", "random", "unigram", "bigram", "prompt_lookup", "small_lm")


class Remembered(Target):
    """A target that scores each text only once, and no text without probability."""

    def __init__(
        self, target: Target, sampling: Sampling, rows: dict[tuple[int, ...], Tensor]
    ) -> None:
        self.inner, self.sampling, self.rows = target, sampling, rows
        self.vocab_size, self.tokenizer, self.model = (
            target.vocab_size,
            target.tokenizer,
            target.model,
        )
        self.offers = target.offers

    def row(self, text: tuple[int, ...]) -> Tensor:
        if text not in self.rows:
            self.rows[text] = self.inner.open(list(text)).score(Draft())[0]
        return self.rows[text]

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        return RememberedSession(self, tuple(tokens))


class RememberedSession(Session):
    def __init__(self, target: Remembered, text: tuple[int, ...]) -> None:
        self.target, self.text, self.draft = target, text, Draft()

    def score(self, draft: Draft) -> Tensor:
        self.draft = draft
        rows, text, reachable = [self.target.row(self.text)], self.text, True
        for token in draft.tokens:
            # A token without probability is rejected, so nothing after it matters.
            reachable = reachable and bool(self.target.sampling.probs(rows[-1])[token] > 0)
            text = (*text, token)
            rows.append(self.target.row(text) if reachable else torch.zeros_like(rows[0]))
        return torch.stack(rows)

    def commit(self, verdict: Verdict) -> None:
        accepted = [self.draft.tokens[node] for node in verdict.accepted]
        self.text = (*self.text, *accepted, verdict.next_token)


class Liar(Drafter):
    """Draws from a sharpened distribution but records a flat one."""

    def bind(self, target: Target) -> None:
        assert isinstance(target, Remembered)
        self.target = target

    def propose(self, context: Context, pen: Pen) -> None:
        probs = self.target.sampling.probs(self.target.row(tuple(context.tokens)))
        flat = (probs > 0).double() / int((probs > 0).sum())
        pen.submit_drawn([(pen.sheet.chance.categorical(probs**3), flat)])


def exact(target: Remembered, prompt: list[int]) -> dict[tuple[int, int], float]:
    """Returns p of each pair of tokens with a probability above 0."""
    probs = {}
    first = target.sampling.probs(target.row(tuple(prompt)).double())
    for a in first.nonzero().flatten().tolist():
        second = target.sampling.probs(target.row((*prompt, a)).double())
        for b in second.nonzero().flatten().tolist():
            probs[a, b] = float(first[a] * second[b])
    return probs


def p_value(
    target: Remembered, drafter: Drafter, prompt: list[int], samples: int
) -> tuple[float, int]:
    """Returns the p-value of samples of the loop, and the number of accepted draft tokens."""
    accepted = 0
    pairs: Counter[tuple[int, int]] = Counter()
    verifier = make("verifier", "token")
    for seed in range(samples):
        sampling = Sampling(1.0, target.sampling.top_k, target.sampling.top_p, 0.0, seed)
        text: list[int] = []
        for round in decode(
            target, drafter, verifier, prompt, gamma=2, sampling=sampling, max_new_tokens=4
        ):
            text += round.tokens
            accepted += round.accepted
            if len(text) >= 2:
                break
        pairs[text[0], text[1]] += 1
    distribution = exact(target, prompt)
    if set(pairs) - set(distribution):
        return 0.0, accepted
    # Cells with an expectation below five are merged, as the test requires.
    large = [pair for pair, p in distribution.items() if p * samples >= 5]
    rest = 1 - sum(distribution[pair] for pair in large)
    counts = [pairs[pair] for pair in large]
    probs = [distribution[pair] for pair in large]
    if rest > 0:
        counts.append(samples - sum(counts))
        probs.append(rest)
    return chi_square(torch.tensor(counts), torch.tensor(probs)), accepted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--drafters", nargs="*", default=DRAFTERS)
    options = parser.parse_args()
    model = make("target", "smollm2")
    prompt = model.encode(PROMPT)
    wrong = 0
    rows: dict[tuple[int, ...], Tensor] = {}  # of every text, whatever the settings
    for sampling in SETTINGS:
        target = Remembered(model, sampling, rows)
        for name in (*options.drafters, "liar"):
            drafter = Liar() if name == "liar" else make("drafter", name)
            p, accepted = p_value(target, drafter, prompt, options.samples)
            right = (p > SIGNIFICANCE) != (name == "liar")
            wrong += not right
            verdict = "rejected" if p <= SIGNIFICANCE else "agrees"
            print(
                f"top-p {sampling.top_p}: {name:<14} p = {p:.2e}  {verdict}"
                f"  ({accepted} draft tokens accepted)",
                flush=True,
            )
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
