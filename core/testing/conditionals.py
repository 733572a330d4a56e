"""The target's distribution after each text, as a rule is given it."""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Noise
from outrider.contract.context import Context, Features, Tokens
from outrider.contract.draft import ROOT, Draft
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.verifier import Scores, Verifier

Text = tuple[int, ...]
Distribution = dict[Text, float]
"""The probability of each text."""


@final
class Conditionals:
    """The target's logits after each text behind a prompt; each text is scored only once."""

    def __init__(self, target: Target, prompt: Sequence[int]) -> None:
        self._target, self._prompt = target, list(prompt)
        self._rows: dict[Text, Float[Tensor, vocab]] = {}

    def after(self, text: Text) -> Float[Tensor, "vocab"]:
        """Returns the logits of the token after the prompt and `text`."""
        if text not in self._rows:
            rows = self._target.open(self._prompt).score(Draft.chain(text))
            self._rows |= {text[:length]: row for length, row in enumerate(rows)}
        return self._rows[text]

    def allowed(self, text: Text, sampling: Sampling, rule: Verifier) -> list[float]:
        """Returns the highest probabilities that a rule allows the token after `text`."""
        logits = self.after(text)
        if rule.lossless:  # whatever it states
            probs = sampling.probs(logits)
        else:
            states = {
                name: rows[-1:] for name, rows in self._states(Draft.chain(text), rule).items()
            }
            scores = Scores(logits[None], sampling, shown=self.shown(text, rule), features=states)
            probs = rule.ceiling(scores)[0]
        row: list[float] = probs.tolist()
        return row

    def distribution(self, length: int, sampling: Sampling, rule: Verifier) -> Distribution:
        """Returns what `target_distribution` does."""
        products: Distribution = {(): 1.0}
        for _ in range(length):
            products = {
                (*text, token): weight * p
                for text, weight in products.items()
                for token, p in enumerate(self.allowed(text, sampling, rule))
            }
        return products

    def shown(self, text: Text, verifier: Verifier) -> Context | None:
        """Returns the context after the prompt and `text`, if it is shown to a rule."""
        if verifier.lossless:
            return None
        before, source = self._target.begin(self._prompt)
        return Context(Tokens([*before, *text]), source, prompt_length=len(before))

    def scores(self, draft: Draft, sampling: Sampling, verifier: Verifier) -> Scores:
        """Returns what a rule is given of the target's scores of a draft."""
        paths = [draft.path(node) for node in range(ROOT, len(draft))]
        texts = [tuple(draft.tokens[node] for node in path) for path in paths]
        # From the last on: its text is the longest, and its pass has the rows of its prefixes.
        rows = [self.after(text) for text in reversed(texts)]
        return Scores(
            torch.stack(rows[::-1]),
            sampling,
            Noise((), verifier.window),
            self.shown((), verifier),
            features=self._states(draft, verifier),
        )

    def _states(self, draft: Draft, rule: Verifier) -> Features:
        """Returns the features that a rule needs, of the newest token and each node of a draft."""
        if not rule.needs:
            return {}
        session = self._target.open(self._prompt, rule.needs)
        session.score(draft)
        return {name: rows[-len(draft) - 1 :] for name, rows in session.features().items()}
