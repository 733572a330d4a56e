"""Modes: every way of Outrider to write a text, each with what it should have written."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import torch

from outrider import (
    Draft,
    Drafter,
    SampledChance,
    Sampling,
    decode,
    decode_together,
    generate_together,
)
from outrider.decoding.batches.batch_target import batched
from outrider.drafters.eagle import Eagle
from outrider.drafters.lookahead_decoding import LookaheadDecoding
from outrider.drafters.medusa import Medusa
from outrider.drafters.none import NoDraft
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.small_lm import SmallLM
from outrider.extras.serving.transformers import Speculation
from outrider.targets.passes.first_layers import first_layers
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.recursive import Candidates
from outrider.verifiers.token import Token
from tiny.drafters import InTurn, ScriptedChain, ScriptedTree
from tiny.logits import differences
from tiny.models import build
from tiny.settings import LAYERS
from tiny.subject import NEW, Subject, ended, room
from tiny.two_ranks import has_plan, run_spread

GAMMA = 4
SIZES: dict[str, Any] = {"gamma": GAMMA, "budget": 24, "max_new_tokens": NEW}


@dataclass(frozen=True, slots=True)
class Result:
    """What a check has written.

    texts: by the number of the prompt.
    calls: target calls of the first text, where a draft is expected to be the target's own text.
    best: the fewest calls that it can take; None where it says nothing.
    is_shorter: whether a drafter that leaves layers out computes other logits than the target.
    truths: what is right, where it is not the greedy text.
    difference: how far logits are off, relative to their spread.
    most: the number of tokens at which texts end.
    """

    texts: dict[int, list[int]]
    calls: int | None = None
    best: int | None = None
    is_shorter: bool = True
    truths: dict[int, list[int]] | None = None
    difference: float = 0.0
    most: int = NEW


Check = Callable[[], Result]
Mode = Callable[[Subject], Iterator[tuple[str, Check]]]


def alone(
    subject: Subject,
    drafter: Drafter,
    *,
    number: int = 0,
    target: Any = None,
    most: int | None = None,
) -> Result:
    """Returns a text written by `decode`.

    most: how many tokens a call writes when it drafts as the target writes.
    """
    rule = Candidates() if drafter.trees or drafter.asks else Token()
    target = target or TransformersTarget(subject.model)
    rounds = list(decode(target, drafter, rule, subject.prompts[number], **SIZES))
    text = [token for round in rounds for token in round.tokens]
    best = None if most is None else -(-len(text) // most)
    return Result({number: text}, len(rounds), best)


def plain(subject: Subject) -> Iterator[tuple[str, Check]]:
    for number in range(len(subject.prompts)):
        yield f"prompt {number}", lambda number=number: alone(subject, NoDraft(), number=number)


def scripted(subject: Subject, kind: Callable[[list[int]], Drafter]) -> Iterator[tuple[str, Check]]:
    def text(number: int) -> Result:
        return alone(subject, kind(subject.whole(number)), number=number)

    for number in range(len(subject.prompts)):
        yield f"scripted, prompt {number}", partial(text, number)


def chain(subject: Subject) -> Iterator[tuple[str, Check]]:
    yield from scripted(subject, ScriptedChain)
    yield "prompt_lookup", lambda: alone(subject, PromptLookup())


def tree(subject: Subject) -> Iterator[tuple[str, Check]]:
    yield from scripted(subject, ScriptedTree)


def small_lm(
    subject: Subject, tree: str | None = None, most: int = GAMMA + 1
) -> Iterator[tuple[str, Check]]:
    def make(model: Any) -> Drafter:
        return SmallLM(model, tree=tree)

    yield "itself", lambda: alone(subject, make(copy.deepcopy(subject.model)), most=most)
    yield "another", lambda: alone(subject, make(build(subject.entry, seed=101)))


def early_exit(subject: Subject) -> Iterator[tuple[str, Check]]:
    for layers in range(1, LAYERS):
        yield (
            f"layers={layers}",
            lambda layers=layers: shorter(subject, SmallLM(layers=layers), layers),
        )


def shorter(subject: Subject, drafter: Drafter, layers: int) -> Result:
    """Returns the text written with drafts of the target's first layers.

    Few layers may draft the whole text, so it is their logits that must differ.
    """
    result = alone(subject, drafter)
    models = (subject.model, first_layers(subject.model, layers))
    sessions = [TransformersTarget(model).open(subject.prompts[0]) for model in models]
    logits = [session.score(Draft()) for session in sessions]
    return replace(result, is_shorter=not torch.equal(*logits))


def lookahead(subject: Subject) -> Iterator[tuple[str, Check]]:
    for number in range(2):
        yield (
            f"prompt {number}",
            lambda number=number: alone(subject, LookaheadDecoding(), number=number),
        )


def untrained(subject: Subject, kind: Callable[..., Drafter]) -> Iterator[tuple[str, Check]]:
    yield "chain", lambda: alone(subject, kind("untrained"))
    yield "tree", lambda: alone(subject, kind("untrained", tree="top:2x2"))


def together(
    subject: Subject, drafters: Sequence[Drafter], rule: Any, *, target: Any = None
) -> Result:
    """Returns the texts of one batch, written by `decode_together`."""
    texts: dict[int, list[int]] = {number: [] for number in range(len(drafters))}
    target = target or TransformersTarget(subject.model)
    rounds = decode_together(target, InTurn(drafters), rule, subject.prompts, **SIZES)
    for number, round in rounds:
        texts[number] += round.tokens
    return Result(texts)


def batch(subject: Subject) -> Iterator[tuple[str, Check]]:
    wholes = [subject.whole(number) for number in range(len(subject.prompts))]
    yield "scripted", lambda: together(subject, [ScriptedChain(whole) for whole in wholes], Token())

    def generated() -> Result:
        target = TransformersTarget(subject.model)
        texts = generate_together(target, subject.prompts, PromptLookup(), Token(), **SIZES)
        return Result({number: text.tokens for number, text in enumerate(texts)})

    yield "generate_together", generated


def batch_tree(subject: Subject) -> Iterator[tuple[str, Check]]:
    wholes = [subject.whole(number) for number in range(len(subject.prompts))]
    drafters = [ScriptedTree(whole) for whole in wholes]
    yield "scripted", lambda: together(subject, drafters, Candidates())


def write(subject: Subject) -> Iterator[tuple[str, Check]]:
    def texts(numbers: Sequence[int]) -> Result:
        chances = [SampledChance.seeded(number) for number in numbers]
        target = TransformersTarget(subject.model)
        result = batched(target).write(
            [subject.prompts[n] for n in numbers], Sampling(), chances, NEW
        )
        return Result(dict(zip(numbers, result, strict=True)))

    yield "alone", lambda: texts([0])
    yield "together", lambda: texts(range(len(subject.prompts)))


def custom_generate(subject: Subject) -> Iterator[tuple[str, Check]]:
    most = room(subject.model, subject.prompts[0])  # also of the shorter rows of a batch

    def generated(numbers: Sequence[int], drafter: Drafter) -> Result:
        width = max(len(subject.prompts[number]) for number in numbers)
        rows = [[0] * (width - len(subject.prompts[n])) + subject.prompts[n] for n in numbers]
        mask = [
            [int(width - at <= len(subject.prompts[n])) for at in range(width)] for n in numbers
        ]
        out = subject.model.generate(
            torch.tensor(rows),
            attention_mask=torch.tensor(mask),
            do_sample=False,
            max_new_tokens=most,
            custom_generate=Speculation(drafter, gamma=GAMMA),
        )
        end = subject.model.generation_config.eos_token_id
        texts = {number: row[width:].tolist() for number, row in zip(numbers, out, strict=True)}
        return Result({number: ended(text, end) for number, text in texts.items()}, most=most)

    yield "chain", lambda: generated([0], ScriptedChain(subject.whole(0)))
    yield "batch", lambda: generated([0, len(subject.prompts) - 1], PromptLookup())


def packed(subject: Subject) -> Iterator[tuple[str, Check]]:
    def make() -> TransformersTarget:
        return TransformersTarget(copy.deepcopy(subject.model), optimize="packed")

    yield "plain", lambda: alone(subject, NoDraft(), target=make())
    yield "chain", lambda: alone(subject, ScriptedChain(subject.whole(0)), target=make())
    yield "tree", lambda: alone(subject, ScriptedTree(subject.whole(0)), target=make())
    yield "layers=2", lambda: alone(subject, SmallLM(layers=2), target=make())


def two_ranks(subject: Subject) -> Iterator[tuple[str, Check]]:
    if not has_plan(subject.model):
        return
    wholes = [subject.whole(number) for number in range(len(subject.prompts))]
    calls: dict[str, Callable[[Any], Result]] = {
        "plain": lambda target: alone(subject, NoDraft(), target=target),
        "chain": lambda target: alone(subject, ScriptedChain(wholes[0]), target=target),
        "tree": lambda target: alone(subject, ScriptedTree(wholes[0]), target=target),
        "layers=2": lambda target: alone(subject, SmallLM(layers=2), target=target),
        "batch": lambda target: together(
            subject, [ScriptedChain(whole) for whole in wholes], Token(), target=target
        ),
    }
    answers = cache(lambda: run_spread(subject.model, calls))

    def answer(name: str) -> Result:
        result = answers()[name]
        if isinstance(result, Exception):
            raise result
        return result

    yield from ((name, partial(answer, name)) for name in calls)


def logits(subject: Subject) -> Iterator[tuple[str, Check]]:
    target = TransformersTarget(subject.model)
    for name, difference in differences(subject, target):
        if target.trees or "tree" not in name:
            yield name, lambda difference=difference: Result({}, difference=difference())


MODES: dict[str, Mode] = {
    "logits": logits, "plain": plain, "chain": chain, "tree": tree, "small_lm": small_lm,
    "small_lm tree": partial(small_lm, tree="top:2x2", most=3), "early exit": early_exit,
    "lookahead_decoding": lookahead,
    "medusa": partial(untrained, kind=Medusa), "eagle": partial(untrained, kind=Eagle),
    "batch": batch, "batch tree": batch_tree, "write": write,
    "custom_generate": custom_generate, "packed": packed, "two ranks": two_ranks,
}  # fmt: skip
