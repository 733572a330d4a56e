"""Alpha of drafters that learn while they decode, by order of prompts and by position in the text.

    python evidence/online.py --prompts 24 --tokens 96

The target writes a text for each prompt. Then each drafter follows the texts in their order: at
every prefix, alpha is sum_x min(p(x), q(x)) for the token that it would draft, and it observes the
target's distribution there afterwards, as in a round without accepted tokens. So all of them are
measured at the same prefixes, without the noise of drawing. In decoding they also learn from
rejected tokens.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from outrider import Context, Draft, Drafter, Sampling, Tokens, Verdict, decode_together
from outrider.data.jsonl import demo
from outrider.lab.statistics.intervals import interval, ratio
from outrider.plugins.registry import make
from outrider.testing.tiny_targets import write_draft
from outrider.verifiers.token import Token

FITTED = {"counts": "smollm2"}
DRAFTERS: Mapping[str, Mapping[str, Any]] = {
    "bigram, fitted": {"drafter": "bigram", **FITTED},
    "online": {"drafter": "online"},
    "online, no memory, from fitted": {"drafter": "online", **FITTED, "remember": False},
    "online, from fitted": {"drafter": "online", **FITTED},
    "online, from fitted, prior 4": {"drafter": "online", **FITTED, "prior": 4},
    "online, order 3, from fitted": {"drafter": "online", **FITTED, "order": 3},
}
POSITIONS = 32
Cell = tuple[str, int]
"""A column: "prompt" or "token", and the first number of the stretch."""


def alphas(
    drafter: Drafter, target: Any, text: list[int], start: int, logits: torch.Tensor
) -> Iterator[float]:
    """Yields sum_x min(p(x), q(x)) at each prefix of a text, from `start` on.

    logits: of the tokens from `start` on.
    """
    sampling = Sampling(temperature=1.0)
    drafter = drafter.open()
    for row, length in zip(logits, range(start, len(text)), strict=True):
        context = Context(Tokens(text, length))
        draft = write_draft(drafter, target, context, gamma=1, sampling=sampling)
        p = row.double().softmax(-1)
        yield float(p.minimum(draft.distribution(0, p).double()).sum()) if draft else 0.0
        if drafter.observes:
            drafter.observe(context, Draft(), row[None], Verdict((), text[length]))
    if drafter.remembers:
        drafter.remember(Context(Tokens(text)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=96)
    options = parser.parse_args()
    target = make("target", {"target": "smollm2"})
    prompts = [target.encode(prompt.turns[0], chat=True) for prompt in demo(options.prompts)]
    texts = [list(prompt) for prompt in prompts]
    for number, round in decode_together(
        target, make("drafter", "none"), Token(), prompts,
        sampling=Sampling(temperature=1.0), max_new_tokens=options.tokens, batch_size=8,
    ):  # fmt: skip
        texts[number] += round.tokens
    drafters = {name: make("drafter", settings) for name, settings in DRAFTERS.items()}
    sums: dict[str, dict[Cell, dict[int, list[float]]]] = {
        name: defaultdict(dict) for name in drafters
    }
    for drafter in drafters.values():
        drafter.bind(target)
    for number, (prompt, text) in enumerate(zip(prompts, texts, strict=True), start=1):
        logits = target.open(prompt).score(Draft.chain(text[len(prompt) : -1]))
        for name, drafter in drafters.items():
            values = alphas(drafter, target, text, len(prompt), logits)
            for position, alpha in enumerate(values):
                stretch = 1 << (number.bit_length() - 1)
                for cell in (("prompt", stretch), ("token", position // POSITIONS * POSITIONS)):
                    by_prompt = sums[name][cell].setdefault(number, [0.0, 0.0])
                    by_prompt[0] += alpha
                    by_prompt[1] += 1
    columns = sorted({cell for row in sums.values() for cell in row})
    print("| drafter | " + " | ".join(f"{kind} {first}" for kind, first in columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for name, row in sums.items():
        cells = []
        for cell in columns:
            total, count = zip(*row[cell].values(), strict=True)
            figure = interval(ratio(total, count), "logit")
            assert figure is not None
            spread = "" if figure.low is None else f" [{figure.low:.3f}, {figure.high:.3f}]"
            cells.append(f"{figure.value:.3f}{spread}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
