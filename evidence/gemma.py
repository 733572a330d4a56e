"""Gemma 3 270M past its sliding window: greedy text in every mode, against `generate`.

    python evidence/gemma.py --tokens 300

Two texts go that many tokens past the window of 512, in float32: plain, with chains, with trees,
in a batch and by `write`. The exit status is 1 if a token differs from transformers'
`generate(do_sample=False)` on the same weights; the table then has the distance of the two logits.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from outrider import Sampling, Target, decode_together
from outrider.contract.chance import SampledChance
from outrider.data import jsonl as data
from outrider.decoding.batches.batched import batched
from outrider.plugins.registry import make

sys.path.insert(0, str(Path(__file__).parent))

from partings import Texts, generate, parting, read, until_eos

PROMPTS = (-12, 48)
"""How far the prompts go past the window: one ends within it and one past it."""

DRAFTERS: dict[str, tuple[dict[str, Any], str]] = {
    "plain": ({"drafter": "none"}, "token"),
    "prompt_lookup": ({"drafter": "prompt_lookup"}, "token"),
    "small_lm, 15 of 18 layers": ({"drafter": "small_lm", "layers": 15}, "token"),
    "small_lm, tree top:2x2": (
        {"drafter": "small_lm", "layers": 15, "tree": "top:2x2"},
        "candidates",
    ),
    "bigram, tree dynamic:8": ({"drafter": "bigram", "tree": "dynamic:8"}, "traversal"),
}
"""Drafter and rule, by the name to print."""

ROW = "{:32}{:>8}{:>14}  {}"

Written = tuple[Texts, int]
"""Texts, and the target calls that they took."""


def prompts(target: Target, window: int) -> Texts:
    """Returns two texts of the demo prompts, one from their beginning and one from their middle."""
    turns = [prompt.turns[0] for prompt in data.demo()]
    halves = turns[: len(turns) // 2], turns[len(turns) // 2 :]
    return [
        target.encode_turns(half)[: window + past]
        for half, past in zip(halves, PROMPTS, strict=True)
    ]


def decoded(target: Target, drafter: Any, rule: Any, length: int, texts: Texts) -> Written:
    """Returns what follows texts that are decoded together; of one text, that is by itself."""
    continuations: Texts = [[] for _ in texts]
    calls = [0] * len(texts)
    rounds = decode_together(
        target, drafter, rule, texts, budget=8 if drafter.trees else None, max_new_tokens=length
    )
    for number, round in rounds:
        continuations[number] += round.tokens
        calls[number] += 1
    return continuations, max(calls)


def one_by_one(write: Callable[[Texts], Written], texts: Texts) -> Written:
    alone = [write([text]) for text in texts]
    return [text for written, _ in alone for text in written], sum(calls for _, calls in alone)


def written(target: Target, length: int, texts: Texts) -> Written:
    chances = [SampledChance.seeded(0) for _ in texts]
    continuations = batched(target).write(texts, Sampling(), chances, length)
    return continuations, max(map(len, continuations))


def modes(target: Target, length: int) -> dict[str, Callable[[Texts], Written]]:
    """Returns the ways to write, by the names to print."""
    writers: dict[str, Callable[[Texts], Written]] = {}
    for name, (drafter, rule) in DRAFTERS.items():
        parts = make("drafter", drafter), make("verifier", rule)
        together = partial(decoded, target, *parts, length)
        writers[name] = partial(one_by_one, together)
        if not name.startswith("small_lm"):
            writers[f"{name}, batch of {len(PROMPTS)}"] = together
    writers[f"write, batch of {len(PROMPTS)}"] = partial(written, target, length)
    return writers


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="gemma3", help="a name, hub id or folder")
    parser.add_argument("--tokens", type=int, default=300, help="how many past the window")
    parser.add_argument("--only", nargs="*", help="the modes to run; defaults to all")
    options = parser.parse_args()
    plain = make("target", options.target, dtype="float32", optimize="none")
    target = make("target", options.target, dtype="float32")
    window = plain.model.config.sliding_window
    length = options.tokens - min(PROMPTS)
    texts = prompts(target, window)
    references = [
        until_eos(plain, generate(plain, [text], length).sequences[0, len(text) :].tolist())
        for text in texts
    ]
    writers = modes(target, length)
    names = options.only or list(writers)
    # A row at a time: all of them take minutes.
    print(ROW.format("mode", "tokens", "target calls", "differs from generate"), flush=True)
    different = 0
    for name in names:
        continuations, calls = writers[name](texts)
        partings = []
        for text, other, reference in zip(texts, continuations, references, strict=True):
            rows = partial(read, plain, text, reference)
            apart = parting(other, reference, lambda rows=rows: (rows(), rows()))  # type: ignore[misc]
            if apart:
                partings.append(f"token {apart['position']}, logits {apart['gap']:.2g} apart")
        different += len(partings)
        tokens = sum(map(len, continuations))
        print(ROW.format(name, tokens, calls, "; ".join(partings) or "nowhere"), flush=True)
    ends = ", ".join(str(len(text) + len(own)) for text, own in zip(texts, references, strict=True))
    print(f"window {window}, texts of {ends} tokens, {len(names)} modes: {different} texts differ")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
