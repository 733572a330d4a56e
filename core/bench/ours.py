"""Outrider as an entrant of the bench: `python -m outrider.bench.ours`."""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from omegaconf import OmegaConf

from outrider.bench.protocol import Answer, serve
from outrider.contract.draft import Draft
from outrider.contract.target import Target
from outrider.decoding.decode import decode, decode_together
from outrider.decoding.generation import Generation
from outrider.drafters.none import NoDraft
from outrider.errors import require
from outrider.plugins.config import build
from outrider.runtime.cache import GrowingCache
from outrider.runtime.cached_model import SOURCE
from outrider.runtime.passes import PassInput
from outrider.runtime.step import run_pass
from outrider.verifiers.token import Token


def start(given: dict[str, Any]) -> Answer:
    """Builds what the config names, and returns what answers for it."""
    config: Any = OmegaConf.create(given)
    target, drafter, verifier = build(config.target), build(config.drafter), build(config.verifier)
    kind = type(target.model).__name__
    require(SOURCE not in target.offers, "target", kind, "a decoder-only model")

    def write(question: dict[str, Any]) -> dict[str, Any]:
        rounds = decode(
            target,
            drafter,
            verifier,
            question["ids"],
            gamma=config.gamma,
            budget=config.budget,
            sampling=build(config.sampling),
            policy=build(config.policy),
            max_new_tokens=question["max_new_tokens"],
        )
        found = Generation()
        for round in rounds:
            found.add(round)
        phases = {name: value for name, value in found.seconds.items() if name != "total"}
        calls = len(found.rounds)
        return {
            "tokens": found.tokens,
            "seconds": found.total_seconds,
            "phases": phases,
            "calls": calls,
        }

    answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "write": write,
        "encode": lambda asked: {"ids": target.encode_turns(asked["turns"], chat=config.chat)},
        "gap": partial(gap, target),
        "rows": partial(rows, target),
        "texts": partial(texts, target),
        "weights": lambda asked: {"bytes": _bytes(target)},
    }
    return lambda question: answers[question["ask"]](question)


def gap(target: Target, asked: dict[str, Any]) -> dict[str, Any]:
    """Returns how far apart the logits of two tokens are after a text."""
    logits = target.open(asked["ids"]).score(Draft())[0]
    return {"gap": abs(float(logits[asked["one"]] - logits[asked["other"]]))}


def rows(target: Target, asked: dict[str, Any]) -> dict[str, Any]:
    """Returns the median seconds of a pass, by the rows that it scores, taken in turn.

    context: tokens that are there before.
    """
    model, counts, cache = target.model, asked["rows"], GrowingCache()
    run_pass(model, cache, PassInput(torch.full((1, asked["context"]), 5), 1))
    times: dict[int, list[float]] = {count: [] for count in counts}
    for repeat in range(asked["repeats"] + 1):
        for count in counts:
            ids = torch.arange(5, 5 + count)[None]
            began = time.perf_counter()
            run_pass(model, cache, PassInput(ids, count))
            if repeat:  # the first of each makes kernels
                times[count].append(time.perf_counter() - began)
            cache.crop(-count)
    return {"times": [statistics.median(times[count]) for count in counts]}


def texts(target: Target, asked: dict[str, Any]) -> dict[str, Any]:
    """Returns the speed of plain decoding of several prompts, so many at once, in tokens a second.

    decoding: once the prompts are read. whole: with the reading.
    """
    prompts, size = asked["prompts"], asked["batch"]
    began, count, reading = time.perf_counter(), 0, 0.0
    for first in range(0, len(prompts), size):
        some, start = prompts[first : first + size], time.perf_counter()
        drafters = [NoDraft() for _ in some]
        rounds = decode_together(
            target, drafters, Token(), some, max_new_tokens=asked["max_new_tokens"]
        )
        for place, _ in enumerate(rounds):
            if not place:  # the first pass reads all of them, and gives a token each
                reading += time.perf_counter() - start
            count += 1
    seconds = time.perf_counter() - began
    return {
        "decoding": (count - len(prompts)) / (seconds - reading),
        "whole": count / seconds,
    }


def _bytes(target: Target) -> int:
    """Returns the bytes of weights that a pass reads: every matrix once, rows of the embedding not."""
    model: Any = target.model
    seen = {each.data_ptr(): each for each in model.state_dict().values()}
    words = model.get_input_embeddings().weight.data_ptr()
    head = model.get_output_embeddings().weight.data_ptr()
    total = sum(each.numel() * each.element_size() for each in seen.values())
    extra = seen[words].numel() * seen[words].element_size() if words != head else 0
    return int(total - extra)


if __name__ == "__main__":
    torch.manual_seed(0)
    serve(start)
