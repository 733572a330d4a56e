"""The oracle: the text that an example's target writes alone, one token at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from fuzz.example import Example
from fuzz.parts import make_constraint
from outrider import Chance, Constraint, Draft, Sampling, Target, Verdict


@dataclass(frozen=True)
class Oracle:
    """The target's own text after one prompt of an example, without drafts.

    It implements the rules for the end of a text separately, by docs/commands.md and the docstring
    of `outrider.decode`.
    """

    example: Example
    target: Target
    prompt: Sequence[int]

    @property
    def before(self) -> list[int]:
        """Returns the ids before the text."""
        return list(self.target.begin(self.prompt)[0])

    @property
    def sampling(self) -> Sampling:
        """Returns the sampling of the example."""
        return Sampling(**self.example.sampling)

    def write(self, chance: Chance) -> list[int]:
        """Returns a text that is drawn token by token."""
        session, constraint = self.target.open(self.prompt), self._constraint()
        before, text = self.before, list[int]()
        while self.reason(text) is None:
            logits = session.score(Draft())[0]
            if constraint is not None:
                logits = constraint.logits([*before, *text], logits)
            text.append(chance.categorical(self.sampling.probs(logits)))
            session.commit(Verdict((), text[-1]))
        return text

    def logits_along(self, text: Sequence[int]) -> list[Float[Tensor, "vocab"]]:
        """Returns the logits, with the constraint, before each token of a text."""
        rows, constraint, before = [], self._constraint(), self.before
        session = self.target.open(self.prompt)
        for known, token in enumerate(text):
            row = session.score(Draft())[0]
            rows.append(
                row if constraint is None else constraint.logits([*before, *text[:known]], row)
            )
            session.commit(Verdict((), token))
        return rows

    def reason(self, text: Sequence[int]) -> str | None:
        """Returns why a text ends with its last token; None if it goes on."""
        if not text:
            return None
        length, constraint = len(self.before) + len(text), self._constraint()
        if text[-1] in self.target.eos:
            return "eos"
        if self._has_stop_string(text):
            return "stop_string"
        longest = self.target.max_length
        by_number = len(text) >= self.example.max_new_tokens
        if longest is not None and length >= longest:
            # Where both limits are reached at once, the number of new tokens is the reason.
            return "max_new_tokens" if by_number else "max_length"
        if by_number:
            return "max_new_tokens"
        if constraint is not None and constraint.ends([*self.before, *text]):
            return "constraint"
        return None

    def _has_stop_string(self, text: Sequence[int]) -> bool:
        if not self.example.stops:
            return False
        assert self.target.tokenizer is not None
        written = str(self.target.tokenizer.decode(list(text), clean_up_tokenization_spaces=False))
        return any(stop in written for stop in self.example.stops)

    def _constraint(self) -> Constraint | None:
        return make_constraint(self.example, len(self.before))
