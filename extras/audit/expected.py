"""The distribution that each token of a served text should have been drawn from."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float

from outrider.base.errors import OutriderError
from outrider.constraints.penalties import Penalties
from outrider.contract.draft import Draft
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.extras.audit.client import Choice, Request, Token
from outrider.extras.audit.martingale import Place, Written
from outrider.extras.audit.rounding import LEAST, Rounding, gaps, kept

ROUNDING = 1e-3
"""What tokens that no rounding brings into top-k and top-p have, relative to their probability
without either. A bet against it is never too high."""

LARGEST = 0.3
"""Above this standard deviation of logits an engine has other weights, or another dtype."""

BFLOAT16 = 2.0**-8
"""The standard deviation of passes that round to bfloat16, in units of the largest logit."""

OTHERS = 1e-6
"""The least probability of all tokens that a server does not list."""

PLAIN = Sampling(temperature=1.0)

SAME = 1e-3
"""By how much two log-probabilities of one token differ in one answer."""

BROKEN = "\ufffd"
"""What stands for bytes that are no character by themselves."""

Row = tuple[Float[np.ndarray, "cells"], Sequence[Token | None]]
"""A distribution: the `probs` and `names` of a `Place`."""


class Expected(ABC):
    """Says what a text's tokens should have been drawn from.

    eos: the ids that end a text, as far as they are known.
    sd: the standard deviation of what rounding adds to the engine's logits.
    """

    eos: Collection[int] = ()
    sd: float = 0.0

    @abstractmethod
    def see(self, request: Request, choice: Choice, alone: bool) -> None:
        """Measures rounding by a text, as far as it can be; `sd` is then that of such texts.

        alone: whether no other request was in the engine, since batches round in other ways.

        Raises `OutriderError` if the server does not tell what its texts are judged by.
        """

    @abstractmethod
    def rows(self, request: Request, choice: Choice) -> Iterator[Row | None]:
        """Yields the distribution of each token; None if rounding decides on it.

        There are none for requests of which they are not known.
        """

    def written(
        self, request: Request, choice: Choice, beside: Sequence[Token]
    ) -> Iterator[Written]:
        """Yields the tokens of a text, each with its distribution; none on which rounding decides.

        beside: another text of the same batch, whose requests are of the same kind.
        """
        noise = self.sd / (request.sampling.temperature or 1.0)
        rows = zip(self.rows(request, choice), choice.tokens, strict=False)
        for at, (row, token) in enumerate(rows):
            if row is not None:
                other = beside[at] if at < len(beside) else None
                yield Place(*row, choice.tokens[:at], other, noise), token

    def greedy(self, request: Request, choice: Choice) -> tuple[int, float] | None:
        """Returns where a greedy text first differs from the likeliest tokens, and by how much.

        The gap is that of the log-probabilities of the likeliest token and of the one written.
        """
        return None

    def listed_gap(self, request: Request, choice: Choice) -> float:
        """Returns how far the log-probabilities that a text came with are from the expected."""
        return 0.0


@final
class FromTarget(Expected):
    """The exact distribution, from the target's weights. Texts must come with their ids.

    Chat messages are written into the target's chat template.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.eos: frozenset[int] = target.eos
        self._rounding = {alone: Rounding() for alone in (True, False)}
        self._text: tuple[list[int], list[int]] = [], []
        self._own = torch.empty(0)

    def see(self, request: Request, choice: Choice, alone: bool) -> None:
        """Compares the logits that are listed at temperature 1 and without penalties.

        Without any, rounding is taken to be that of bfloat16.
        """
        ids = [token for token in choice.tokens if isinstance(token, int)]
        if len(ids) < max(len(choice.tokens), 1):
            raise OutriderError("the server tells no ids of tokens: expected `token_ids`")
        if (most := max(ids)) >= self._target.vocab_size:
            expected = f"expected one of the {self._target.vocab_size} that the target has"
            raise OutriderError(f"the server wrote token {most}: {expected}")
        _check_end(request, choice, ids[-1] in self._target.eos)
        logits = self._logits(request, choice, penalised=False)
        if request.sampling == PLAIN and not request.penalties:
            own: list[dict[Token, float]] = [
                {name: float(row[name]) for name in listed if isinstance(name, int)}
                for listed, row in zip(choice.likeliest, logits, strict=False)
            ]
            self._rounding[alone].see(gaps(choice.likeliest, own))
        sd = self._rounding[alone].sd or self._rounding[not alone].sd
        self.sd: float = BFLOAT16 * float(logits.abs().max()) if sd is None else sd
        if sd is not None and sd > LARGEST:
            cause = f"its logits are {sd:.2f} (standard deviation) from the target's"
            hint = "expected the same weights, and target.dtype as the server has it"
            raise OutriderError(f"the server can't be judged: {cause}; {hint}")

    def rows(self, request: Request, choice: Choice) -> Iterator[Row | None]:
        logits, sampling = self._logits(request, choice, penalised=True), request.sampling
        whole = Sampling(temperature=sampling.temperature or 1.0)
        names, probs = range(self._target.vocab_size), whole.probs(logits).numpy()
        if sampling == whole:
            yield from ((row, names) for row in probs)
            return
        rows = zip(choice.tokens, probs, *kept(logits, sampling, self.sd), strict=True)
        for token, row, sure, maybe in rows:
            # What is kept in any case has the same proportions.
            base = np.where(sure, row / row[sure].sum(), ROUNDING * row)
            yield None if maybe[token] and not sure[token] else (base, names)

    def greedy(self, request: Request, choice: Choice) -> tuple[int, float] | None:
        logits = self._logits(request, choice, penalised=True)
        gaps = (logits.amax(-1) - _of_tokens(logits, choice)).tolist()
        return next(((at, gap) for at, gap in enumerate(gaps) if gap > 0), None)

    def listed_gap(self, request: Request, choice: Choice) -> float:
        """By the nearer of the two conventions of vLLM: before and after what changes logits."""
        raw = self._logits(request, choice, penalised=False).log_softmax(-1)
        processed = request.sampling.probs(self._logits(request, choice, penalised=True)).log()
        apart = []
        for table in (raw, processed):
            pairs = zip(choice.logprobs or (), _of_tokens(table, choice).tolist(), strict=False)
            apart.append(max((abs(own - it) for own, it in pairs if it > LEAST), default=0.0))
        return min(apart)

    def _logits(self, request: Request, choice: Choice, *, penalised: bool) -> torch.Tensor:
        """Returns the target's logits along a text; its own ones of the last text are kept."""
        messages = [it[1] for it in request.prompt if isinstance(it, tuple)]
        prompt = [token for token in request.prompt if isinstance(token, int)]
        if messages:
            prompt = self._target.encode_turns(messages, chat=True)
        ids = [int(token) for token in choice.tokens]
        if self._text != (prompt, ids):
            logits = self._target.open(prompt).score(Draft.chain(ids))[: len(ids)]
            self._text, self._own = (prompt, ids), logits.detach().double()
        if not penalised or not request.penalties:
            return self._own
        settings: dict[str, Any] = {**request.penalties}
        text = Penalties(**settings).begin(self._target, prompt)
        rows = [text.logits([*prompt, *ids[:at]], row) for at, row in enumerate(self._own)]
        return torch.stack(rows)


def _of_tokens(table: torch.Tensor, choice: Choice) -> torch.Tensor:
    """Returns the number of each token of a text."""
    return table.gather(-1, torch.tensor([*map(int, choice.tokens)])[:, None])[:, 0]


@final
class FromLogprobs(Expected):
    """What the server's own log-probabilities say, at temperature 1 and with nothing else set.

    It finds drawing that is wrong, and no passes that are wrong: both come from the same ones.

    count: how many of the likeliest tokens the server was asked for.
    """

    def __init__(self, count: int = 5) -> None:
        self._count = count
        self._shared: set[Token] = set()

    def see(self, request: Request, choice: Choice, alone: bool) -> None:
        if not choice.logprobs:
            raise OutriderError(
                "the server lists no log-probabilities: expected them, a baseline or a target"
            )
        rows = enumerate([*choice.likeliest, {}])
        place = next(place for place, top in rows if not top)
        if place < len(choice.tokens):  # such as a token of an accepted draft
            raise OutriderError(
                f"the server lists no likeliest tokens (top_logprobs) for token {place} of a text,"
                " so that its texts can't be judged by them: expected a baseline or a target"
            )
        last = choice.tokens[-1]
        is_in_text = isinstance(last, str) and bool(last) and choice.text.endswith(last)
        _check_end(request, choice, not is_in_text)

    def rows(self, request: Request, choice: Choice) -> Iterator[Row | None]:
        """Yields distributions over the likeliest tokens, and all others as one cell.

        A name that stands for several tokens, or for one that is not listed, is one of the others.
        The least likely name never has a cell, since a dictionary may hold one for two tokens.
        """
        if request.sampling != PLAIN or request.penalties:
            return
        self._shared |= choice.shared
        logprobs = choice.logprobs or ()
        for token, own, likeliest in zip(choice.tokens, logprobs, choice.likeliest, strict=False):
            # A server lists the token that it wrote as well, if it is none of the likeliest; what
            # is bet on must not depend on that.
            self._count = min(self._count, len(likeliest))
            names = sorted(likeliest, key=likeliest.__getitem__, reverse=True)[: self._count]
            by_id = all(isinstance(name, int) for name in names)
            names = names if by_id else names[:-1]
            is_told = by_id or abs(likeliest.get(token, own) - own) <= SAME
            names = [it for it in names if it not in self._shared and likeliest[it] > LEAST]
            # Several tokens may be shown by the sign of broken characters.
            names = [name for name in names if isinstance(name, int) or BROKEN not in name]
            listed = [math.exp(likeliest[name]) for name in names]
            if not is_told:
                self._shared.add(token)
            told = [name if is_told or name != token else None for name in names]
            yield np.array([*listed, max(1 - sum(listed), OTHERS)]), told


def _check_end(request: Request, choice: Choice, is_listed: bool) -> None:
    """Raises `OutriderError` if the token that ended a text is not listed."""
    if choice.ended and not request.stop and not is_listed:
        raise OutriderError(
            "the server does not tell the token that ends a text: expected a baseline, or fewer"
            " tokens than texts have (max_new_tokens)"
        )
