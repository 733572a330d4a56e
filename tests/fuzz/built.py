"""The parts of an example, built, and the texts that are written with them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fuzz.example import Example
from fuzz.oracle import Oracle
from fuzz.parts import make_constraint, make_drafter, make_target
from outrider import Chance, Drafter, Round, Target, Verifier
from outrider.decoding.decode import decode, decode_together, prepare
from outrider.plugins.parts import make


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
