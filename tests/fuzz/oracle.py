"""The oracle: the text that an example's target writes alone, and what holds for every text."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from tiny.drafters import tokens_of
from torch import Tensor

from fuzz.parts import Example, make_constraint
from outrider import (
    Chance,
    Constraint,
    Context,
    Draft,
    Round,
    Sampling,
    Scores,
    Session,
    Target,
    Tokens,
    Verdict,
    Verifier,
)
from outrider.contract.draft import ROOT
from outrider.contract.round import Counts


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


def check_rounds(rounds: Sequence[Round], oracle: Oracle) -> None:
    """Checks that counts add up, drafts keep to gamma and budget, and the text ends in time."""
    example = oracle.example
    nodes = example.gamma if example.budget is None else example.budget
    for number, round in enumerate(rounds):
        _check_round(round, f"round {number + 1}")
        depths = {ROOT: 0}
        for node, parent in enumerate(round.parents):
            depths[node] = depths[parent] + 1
        assert max(depths.values()) <= example.gamma, f"a draft deeper than gamma: {round}"
        assert len(round.draft) <= nodes, f"a draft of more than {nodes} nodes: {round}"
    counts, text = Counts.of(rounds), tokens_of(rounds)
    cut = len(rounds[-1].tokens) == rounds[-1].accepted  # the text ended inside a draft
    assert counts.emitted == counts.accepted + counts.rounds - cut, f"counts: {counts}"
    efficiency = counts.block_efficiency
    assert efficiency is not None and 1 <= efficiency <= example.gamma + 1, f"counts: {counts}"
    early = [known for known in range(len(text)) if oracle.reason(text[:known]) is not None]
    assert not early, f"the text {text} goes on after its end at {early[0]} tokens"
    reason = oracle.reason(text)
    assert rounds[-1].stop == reason, f"{text} stopped by {rounds[-1].stop}: expected {reason}"


def _check_round(round: Round, name: str) -> None:
    """Checks that the counts of a round fit its tokens, and that its path is in its draft."""
    count = len(round.tokens)
    assert count >= 1, f"{name} adds no token"
    assert len(round.origins) == len(round.pieces) == count, f"{name}: {round}"
    assert round.accepted <= round.tested <= round.accepted + 1, f"{name}: tested {round}"
    assert round.tested <= round.drafted <= len(round.draft), f"{name}: drafted {round}"
    assert len(round.path) == round.accepted, f"{name}: accepted {round}"
    assert round.origins.count("accepted") == round.accepted, f"{name}: origins {round}"
    last = ROOT
    for node, token in zip(round.path, round.tokens, strict=False):
        assert round.parents[node] == last and round.draft[node] == token, f"{name}: path {round}"
        last = node
    assert all(seconds >= 0 for seconds in round.seconds.values()), f"{name}: seconds {round}"


def check_possible(text: Sequence[int], oracle: Oracle, verifier: Verifier) -> None:
    """Checks that the rule allows every token: for a lossless rule, that the target does."""
    for number, (token, row) in enumerate(zip(text, oracle.logits_along(text), strict=True)):
        context = Context(Tokens([*oracle.before, *text[:number]]))
        shown = None if verifier.lossless else context
        allowed = verifier.ceiling(Scores(row[None], oracle.sampling, shown=shown))[0]
        assert allowed[token] > 0, f"token {number + 1} of {list(text)} has probability zero"
