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
    Verifier,
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
from tiny.drafters import InTurn, ScriptedChain, ScriptedTree, tokens_of
from tiny.logits import differences
from tiny.models import build
from tiny.settings import LAYERS
from tiny.subject import NEW, Subject, ended, room
from tiny.two_ranks import has_plan, run_spread

GAMMA = 4
OFF = 1e-2
"""Logits that are further off, relative to their spread, are other logits; rounding makes 1e-5."""
SIZES: dict[str, Any] = {"gamma": GAMMA, "budget": 24, "max_new_tokens": NEW}


@dataclass(frozen=True, slots=True)
class Result:
    """What a check has written, or what is wrong with it.

    texts: by the number of the prompt.
    fault: what is wrong beside them.
    slow: how many target calls a copy of the target has spared too few of, drafting for it.
    most: the number of tokens at which texts end.
    """

    texts: dict[int, list[int]]
    fault: str = ""
    slow: str = ""
    most: int = NEW


Check = Callable[[], Result]
Mode = Callable[[Subject], Iterator[tuple[str, Check]]]


def rule_for(drafter: Drafter) -> Verifier:
    return Candidates() if drafter.trees or drafter.asks else Token()


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
    target = target or TransformersTarget(subject.model)
    rounds = list(decode(target, drafter, rule_for(drafter), subject.prompts[number], **SIZES))
    text = tokens_of(rounds)
    best = len(rounds) if most is None else -(-len(text) // most)
    slow = f"{len(rounds)} target calls, {best} when it drafts as the target writes"
    return Result({number: text}, slow=slow * (len(rounds) > best))


def each(subject: Subject, make: Callable[[list[int]], Drafter]) -> Iterator[tuple[str, Check]]:
    """Yields a check for each prompt. make: of the whole text, its drafter."""

    def text(number: int) -> Result:
        return alone(subject, make(subject.whole(number)), number=number)

    for number in range(len(subject.prompts)):
        yield f"prompt {number}", partial(text, number)


def chain(subject: Subject) -> Iterator[tuple[str, Check]]:
    yield from each(subject, ScriptedChain)
    yield "prompt_lookup", lambda: alone(subject, PromptLookup())


def small_lm(
    subject: Subject, tree: str | None = None, most: int = GAMMA + 1
) -> Iterator[tuple[str, Check]]:
    def make(model: Any) -> Drafter:
        return SmallLM(model, tree=tree)

    yield "itself", lambda: alone(subject, make(copy.deepcopy(subject.model)), most=most)
    yield "another", lambda: alone(subject, make(build(subject.entry, seed=101)))


def early_exit(subject: Subject) -> Iterator[tuple[str, Check]]:
    """Few layers may draft the whole text, so it is their logits that must differ."""

    def text(layers: int) -> Result:
        result = alone(subject, SmallLM(layers=layers))
        models = (subject.model, first_layers(subject.model, layers))
        sessions = [TransformersTarget(model).open(subject.prompts[0]) for model in models]
        same = torch.equal(*(session.score(Draft()) for session in sessions))
        return replace(result, fault="no layer is left out: the logits are the target's" * same)

    for layers in range(1, LAYERS):
        yield f"layers={layers}", partial(text, layers)


def untrained(subject: Subject, kind: Callable[..., Drafter]) -> Iterator[tuple[str, Check]]:
    yield "chain", lambda: alone(subject, kind("untrained"))
    yield "tree", lambda: alone(subject, kind("untrained", tree="top:2x2"))


def together(
    subject: Subject, kind: Callable[[list[int]], Drafter], *, target: Any = None
) -> Result:
    """Returns the texts of one batch, written by `decode_together`."""
    numbers = range(len(subject.prompts))
    drafters, texts = [kind(subject.whole(n)) for n in numbers], {n: list[int]() for n in numbers}
    target, rule = target or TransformersTarget(subject.model), rule_for(drafters[0])
    for n, round in decode_together(target, InTurn(drafters), rule, subject.prompts, **SIZES):
        texts[n] += round.tokens
    return Result(texts)


def batch(subject: Subject) -> Iterator[tuple[str, Check]]:
    yield "scripted", lambda: together(subject, ScriptedChain)

    def generated() -> Result:
        target = TransformersTarget(subject.model)
        texts = generate_together(target, subject.prompts, PromptLookup(), Token(), **SIZES)
        return Result({number: text.tokens for number, text in enumerate(texts)})

    yield "generate_together", generated


def batch_tree(subject: Subject) -> Iterator[tuple[str, Check]]:
    yield "scripted", lambda: together(subject, ScriptedTree)


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


def calls_of(subject: Subject) -> dict[str, Callable[[Any], Result]]:
    """Returns what writes the first text with a target that was made otherwise."""
    kinds: dict[str, Callable[[], Drafter]] = {
        "plain": NoDraft,
        "chain": lambda: ScriptedChain(subject.whole(0)),
        "tree": lambda: ScriptedTree(subject.whole(0)),
        "layers=2": lambda: SmallLM(layers=2),
    }
    return {
        name: lambda target, kind=kind: alone(subject, kind(), target=target)
        for name, kind in kinds.items()
    }


def packed(subject: Subject) -> Iterator[tuple[str, Check]]:
    def made() -> TransformersTarget:
        return TransformersTarget(copy.deepcopy(subject.model), optimize="packed")

    for name, call in calls_of(subject).items():
        yield name, lambda call=call: call(made())


def two_ranks(subject: Subject) -> Iterator[tuple[str, Check]]:
    if not has_plan(subject.model):
        return
    calls = calls_of(subject)
    calls["batch"] = lambda target: together(subject, ScriptedChain, target=target)
    answers = cache(lambda: run_spread(subject.model, calls))

    def answer(name: str) -> Result:
        result = answers()[name]
        if isinstance(result, Exception):
            raise result
        return result

    yield from ((name, partial(answer, name)) for name in calls)


def logits(subject: Subject) -> Iterator[tuple[str, Check]]:
    def compared(difference: Callable[[], float]) -> Result:
        off = difference()
        return Result({}, f"logits are off by {off:.2g} of their spread" * (off > OFF))

    target = TransformersTarget(subject.model)
    for name, difference in differences(subject, target):
        if target.trees or "tree" not in name:
            yield name, partial(compared, difference)


MODES: dict[str, Mode] = {
    "logits": logits, "plain": partial(each, make=lambda _: NoDraft()), "chain": chain,
    "tree": partial(each, make=ScriptedTree), "draft model": small_lm,
    "draft model tree": partial(small_lm, tree="top:2x2", most=3), "early exit": early_exit,
    "lookahead": partial(each, make=lambda _: LookaheadDecoding()),
    "medusa": partial(untrained, kind=Medusa), "eagle": partial(untrained, kind=Eagle),
    "batch": batch, "batch tree": batch_tree, "write": write,
    "custom_generate": custom_generate, "packed": packed, "two ranks": two_ranks,
}  # fmt: skip
