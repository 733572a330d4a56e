"""The oracle: the text that an example's target writes alone, one token at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from fuzz.example import Example
from fuzz.parts import make_constraint
from outrider import Chance, Constraint, Draft, Sampling, Session, Target, Verdict


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
        session, text = self.target.open(self.prompt), list[int]()
        while self.reason(text) is None:
            text.append(chance.categorical(self.sampling.probs(self._logits(session, text))))
            session.commit(Verdict((), text[-1]))
        return text

    def logits_along(self, text: Sequence[int]) -> list[Float[Tensor, "vocab"]]:
        """Returns the logits, with the constraint, before each token of a text."""
        rows, session = [], self.target.open(self.prompt)
        for known, token in enumerate(text):
            rows.append(self._logits(session, text[:known]))
            session.commit(Verdict((), token))
        return rows

    def reason(self, text: Sequence[int]) -> str | None:
        """Returns why a text ends with its last token; None if it goes on."""
        if not text:
            return None
        ids, longest = [*self.before, *text], self.target.max_length
        reasons = {
            "eos": text[-1] in self.target.eos,
            "stop_string": self._has_stop_string(text),
            "max_new_tokens": len(text) >= self.example.max_new_tokens,
            "max_length": longest is not None and len(ids) >= longest,
            "constraint": self._constraint().ends(ids),
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def _has_stop_string(self, text: Sequence[int]) -> bool:
        if not self.example.stops:
            return False
        assert self.target.tokenizer is not None
        written = str(self.target.tokenizer.decode(list(text), clean_up_tokenization_spaces=False))
        return any(stop in written for stop in self.example.stops)

    def _logits(self, session: Session, text: Sequence[int]) -> Float[Tensor, "vocab"]:
        return self._constraint().logits([*self.before, *text], session.score(Draft())[0])

    def _constraint(self) -> Constraint:
        return make_constraint(self.example, len(self.before)) or Constraint()
