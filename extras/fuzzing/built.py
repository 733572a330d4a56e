"""The parts of an example, built, and the texts that are written with them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import torch

from outrider.contract.chance import Chance
from outrider.contract.drafter import Drafter
from outrider.contract.round import Round
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.decoding.decode import decode, decode_together, prepare
from outrider.extras.fuzzing.example import Example
from outrider.extras.fuzzing.oracle import Oracle
from outrider.extras.fuzzing.parts import constraint_of, make_drafter, make_policy, make_verifier
from outrider.extras.fuzzing.targets import make_target


@final
@dataclass(frozen=True)
class BuiltExample:
    """The target and the rule of an example, which hold no state of a text."""

    example: Example
    target: Target
    verifier: Verifier

    @classmethod
    def of(cls, example: Example) -> "BuiltExample":
        verifier = make_verifier(example.verifier)
        make_policy(example.policy)
        return cls(example, make_target(example.target), verifier)

    def drafter(self) -> Drafter:
        """Returns a new drafter that is bound to the target."""
        before = torch.get_rng_state()
        torch.default_generator.manual_seed(0)  # for random weights
        try:
            drafter = make_drafter(self.example.drafter, self.target)
            prepare(self.target, drafter, self.verifier)
        finally:
            torch.set_rng_state(before)
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
            "stops": list(example.stops),
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
            policy=make_policy(self.example.policy),
            constraint=constraint_of(self.example, len(oracle.before))(),
            **self.options,
        )

    def together(self) -> list[list[Round]]:
        """Returns the rounds of all texts, written in one batch."""
        prompts = self.example.prompts
        befores = [len(self.oracle(number).before) for number in range(len(prompts))]
        made = [constraint_of(self.example, before)() for before in befores]
        constraints = [constraint for constraint in made if constraint is not None]
        batch: list[list[Round]] = [[] for _ in prompts]
        for number, round in decode_together(
            self.target,
            self.drafter(),
            self.verifier,
            prompts,
            policies=[make_policy(self.example.policy) for _ in prompts],
            constraints=constraints or None,
            **self.options,
        ):
            batch[number].append(round)
        return batch
