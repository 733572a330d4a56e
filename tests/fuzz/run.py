"""Runs one example, and checks what it writes against what is promised."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from tiny.drafters import tokens_of

from fuzz.oracle import Oracle, check_possible, check_rounds
from fuzz.parts import (
    Example,
    Outcome,
    make_constraint,
    make_drafter,
    make_target,
    reads_the_clock,
)
from outrider import Chance, Drafter, OutriderError, Round, SampledChance, Target, Verifier
from outrider.decoding.decode import decode, decode_together, prepare
from outrider.plugins.parts import make
from outrider.testing.enumerated import EnumeratedChance

TOLERANCE = 1e-9
MOST_OUTCOMES = 400
"""The most outcomes to enumerate. If there are more, no text may be too likely so far."""


@dataclass(frozen=True)
class BuiltExample:
    """The target and the rule of an example, which hold no state of a text."""

    example: Example
    target: Target
    verifier: Verifier

    @classmethod
    def of(cls, example: Example) -> "BuiltExample":
        verifier = make("verifier", example.verifier)
        make("policy", example.policy)
        return cls(example, make_target(example.target), verifier)

    def drafter(self) -> Drafter:
        """Returns a new drafter that is bound to the target; random weights are the same."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            drafter = make_drafter(self.example.drafter, self.target)
            prepare(self.target, drafter, self.verifier)
        return drafter

    def oracle(self, number: int) -> Oracle:
        return Oracle(self.example, self.target, self.example.prompts[number])

    @property
    def options(self) -> dict[str, Any]:
        """Returns the options that one text and a batch have in common."""
        example = self.example
        return {
            "gamma": example.gamma,
            "budget": example.budget,
            "sampling": self.oracle(0).sampling,
            "max_new_tokens": example.max_new_tokens,
            "stop": list(example.stops),
        }

    def rounds(
        self, number: int, drafter: Drafter | None = None, chance: Chance | None = None
    ) -> Iterator[Round]:
        """Returns the rounds of one text, as an iterator that has not begun."""
        oracle = self.oracle(number)
        return decode(
            self.target,
            drafter or self.drafter(),
            self.verifier,
            oracle.prompt,
            number=number,
            chance=chance,
            policy=make("policy", self.example.policy),
            constraint=make_constraint(self.example, len(oracle.before)),
            **self.options,
        )

    def together(self) -> list[list[Round]]:
        """Returns the rounds of all texts, written in one batch."""
        prompts = self.example.prompts
        befores = [len(self.oracle(number).before) for number in range(len(prompts))]
        constraints = [make_constraint(self.example, before) for before in befores]
        batch: list[list[Round]] = [[] for _ in prompts]
        for number, round in decode_together(
            self.target,
            self.drafter(),
            self.verifier,
            prompts,
            policies=[make("policy", self.example.policy) for _ in prompts],
            constraints=[each for each in constraints if each is not None] or None,
            **self.options,
        ):
            batch[number].append(round)
        return batch


def run_example(example: Example) -> Outcome:
    """Runs a combination, and checks everything that is promised.

    An `OutriderError` before the first token is a refusal; any other exception is a fault, such as
    the `AssertionError` of a broken promise.
    """
    try:
        built = BuiltExample.of(example)
        drafter = built.drafter()
        for number in range(len(example.prompts)):
            built.rounds(number, drafter)
    except OutriderError as error:
        return Outcome(refused=str(error))
    if example.enumerate:
        return Outcome((_check_distribution(built),))
    return _check_texts(built)


def _check_texts(built: BuiltExample) -> Outcome:
    """Writes the texts of an example, alone and together, and checks each."""
    example = built.example
    exact = built.verifier.lossless and (example.greedy or built.verifier.coupled)
    repeatable = exact or not reads_the_clock(example.policy)
    alone = [list(built.rounds(number)) for number in range(len(example.prompts))]
    kinds = [_check_text(built, number, rounds) for number, rounds in enumerate(alone)]
    texts = [tokens_of(rounds) for rounds in alone]
    checked = [kinds[0]]
    if len(texts) > 1:
        together = [tokens_of(rounds) for rounds in built.together()]
        assert not repeatable or together == texts, f"a batch wrote {together}: alone {texts}"
        checked.append("batch")
    return Outcome(tuple(checked))


def _check_text(built: BuiltExample, number: int, rounds: Sequence[Round]) -> str:
    """Checks one text, and returns its kind."""
    oracle, text, verifier = built.oracle(number), tokens_of(rounds), built.verifier
    check_rounds(rounds, oracle)
    check_possible(text, oracle, verifier)
    if not verifier.lossless:
        return "lossy"
    if built.example.greedy:
        expected = oracle.write(SampledChance.seeded(0))
        reason = f"text {number + 1} is {text}: the target's greedy text is {expected}"
        assert text == expected, reason
        return "greedy"
    if verifier.coupled:
        without = replace(built.example, drafter={"drafter": "none"})
        plain = tokens_of(list(replace(built, example=without).rounds(number)))
        assert text == plain, f"text {number + 1} is {text}: without drafts it is {plain}"
        return "coupled"
    return "sampled"


def _check_distribution(built: BuiltExample) -> str:
    """Compares the distribution of the first text with the target's, and returns the kind."""
    oracle, drafter = built.oracle(0), built.drafter()

    def play(chance: Chance) -> list[int]:
        drafter.forget()
        return tokens_of(list(built.rounds(0, drafter, chance)))

    probs, is_complete = _summed(play)
    exact, is_exact = _summed(oracle.write)
    if not is_exact:
        return "partly enumerated"
    lossless = built.verifier.lossless
    for text in probs.keys() | exact.keys():
        excess = probs[text] - exact[text]
        if lossless and (excess > TOLERANCE or (is_complete and excess < -TOLERANCE)):
            raise AssertionError(
                f"text {list(text)} comes out with probability {probs[text]:.10f}: the target's is"
                f" {exact[text]:.10f}"
            )
    if not lossless:
        return "lossy"
    return "enumerated" if is_complete else "partly enumerated"


def _summed(
    play: Callable[[Chance], list[int]],
) -> tuple[defaultdict[tuple[int, ...], float], bool]:
    """Returns the probability of each text, and whether all outcomes were summed."""
    probs: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for count, (p, text) in enumerate(EnumeratedChance.outcomes(play), start=1):
        probs[tuple(text)] += p
        if count == MOST_OUTCOMES:
            return probs, False
    return probs, True
