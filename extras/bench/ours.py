"""Outrider as an entrant of the bench: `python -m outrider.extras.bench.ours`."""

import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from omegaconf import OmegaConf

from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.target import Target
from outrider.decoding.decode import decode, decode_together
from outrider.decoding.generation import Generation
from outrider.extras.bench.peer import Answer, serve
from outrider.plugins.config import build
from outrider.targets.passes.cached_model import refuse_encoder
from outrider.verifiers.token import Token


def start(settings: dict[str, Any]) -> Answer:
    """Builds the parts that a config names, and returns the function that answers questions.

    Raises `ConfigError` if the target is an encoder-decoder.
    """
    config: Any = OmegaConf.create(settings)
    options = {"gamma": config.gamma, "budget": config.budget, "sampling": build(config.sampling)}
    target, drafter, verifier = build(config.target), build(config.drafter), build(config.verifier)
    refuse_encoder(target)

    def write(question: dict[str, Any]) -> dict[str, Any]:
        drafter.forget()  # the same question may come again
        generation, ends = Generation(), [time.perf_counter()]
        rounds = decode(
            target,
            drafter,
            verifier,
            question["ids"],
            **options,
            policy=build(config.policy),
            max_new_tokens=question["max_new_tokens"],
            draft_timeout=config.draft_timeout,
        )
        for round in rounds:
            generation.add(round)
            ends.append(time.perf_counter())
        phases = {name: value for name, value in generation.seconds.items() if name != "total"}
        return {
            "tokens": generation.tokens,
            "seconds": generation.total_seconds,
            "phases": phases,
            "calls": len(generation.rounds),
            "drafts": [round.seconds["draft"] for round in generation.rounds],
            "rounds": [end - began for began, end in pairwise(ends)],
            # The first round reads the prompt.
            "decoding": [
                sum(len(round.tokens) for round in generation.rounds[1:]),
                ends[-1] - ends[1],
            ],
        }

    answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        "write": write,
        "encode": lambda question: {
            "ids": target.encode_turns(question["turns"], chat=config.chat)
        },
        "gap": partial(logit_gap, target),
        "texts": partial(batch_speed, target, drafter, options),
        "is_target": lambda question: {"is_target": drafter.is_target},
    }
    return lambda question: answers[question["ask"]](question)


def logit_gap(target: Target, question: dict[str, Any]) -> dict[str, Any]:
    """Returns how far apart the logits of two tokens are after a text.

    question: `ids` of the text, and the tokens `one` and `other`.
    """
    logits = target.open(question["ids"]).score(Draft())[0]
    return {"gap": abs(float(logits[question["one"]] - logits[question["other"]]))}


def batch_speed(
    target: Target, drafter: Drafter, options: dict[str, Any], question: dict[str, Any]
) -> dict[str, Any]:
    """Returns the tokens per second with several texts in progress.

    The answer has `whole`, the speed over everything, and `decoding`, the speed without each text's
    first round, in which its prompt is read.

    options: those of `decode_together`.
    question: `prompts`, `batch`, how many texts are in progress at once, and `max_new_tokens`.
    """
    prompts = question["prompts"]
    begun, tokens, first_tokens, reading = set[int](), 0, 0, 0.0
    began = time.perf_counter()
    rounds = decode_together(
        target,
        drafter,
        Token(),
        prompts,
        batch_size=question["batch"],
        max_new_tokens=question["max_new_tokens"],
        **options,
    )
    for index, round in rounds:
        if index not in begun:
            begun.add(index)
            reading += sum(round.seconds.values())
            first_tokens += len(round.tokens)
        tokens += len(round.tokens)
    seconds = time.perf_counter() - began
    return {"decoding": (tokens - first_tokens) / (seconds - reading), "whole": tokens / seconds}


if __name__ == "__main__":
    torch.manual_seed(0)
    serve(start)
