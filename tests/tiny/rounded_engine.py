"""An engine without drafts and without a fault that rounds as real ones do."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import torch

from outrider.contract.draft import Draft, Logits
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session, Target
from outrider.contract.verifier import Verdict
from outrider.extras.audit.client import Choice, Client, Request
from tiny.faulty_engine import penalised

OFFSET = 20.0
"""Where logits stand: bfloat16 has steps of an eighth there."""

FIRST_LETTER = 0x100


@final
class Chain(Target):
    """A Markov chain in float32: its logits are products of a token's state and weights."""

    eos: frozenset[int] = frozenset()
    offers: frozenset[str] = frozenset()

    def __init__(self, vocab_size: int, spread: float, seed: int = 0) -> None:
        draws = np.random.default_rng(seed)
        self.vocab_size, width = vocab_size, 16
        self.states = draws.normal(size=(vocab_size, width)).astype(np.float32) / 4
        self.weights = (spread * draws.normal(size=(width, vocab_size))).astype(np.float32)

    def logits(self, token: int) -> np.ndarray:
        return np.asarray(self.states[token] @ self.weights + OFFSET)

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        return _Read(self, tokens[-1])


@final
class _Read(Session):
    def __init__(self, chain: Chain, last: int) -> None:
        self.chain, self.last = chain, last

    def score(self, draft: Draft) -> Logits:
        return torch.tensor(np.stack([*map(self.chain.logits, (self.last, *draft.tokens))]))

    def commit(self, verdict: Verdict) -> None:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


@final
@dataclass(eq=False)
class RoundedEngine(Client):
    """Serves a chain in a dtype.

    noise: the standard deviation of what a batch adds to logits; each pass a tenth, if `always`.
    race: draws by a race of exponentials, as vLLM does, or by the inverse of cumulative sums.
    top: how many tokens it lists; names: lists them by their characters, which the last two tokens
        have in common.
    """

    chain: Chain
    dtype: str = "float32"
    noise: float = 0.0
    always: bool = False
    race: bool = True
    seed: int = 0
    names: bool = False
    top: int = 5
    draws: np.random.Generator = field(init=False)
    weights: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.draws, self.weights = np.random.default_rng(self.seed), self.chain.weights
        if self.dtype == "int8":
            steps = np.abs(self.weights).max(0) / 127
            self.weights = np.round(self.weights / steps) * steps

    def logits(self, token: int, in_batch: bool) -> np.ndarray:
        logits = self.chain.states[token] @ self.weights + OFFSET
        noise = self.noise * (1 if in_batch else 0.1 if self.always else 0)
        logits = logits + noise * self.draws.normal(size=len(logits)) if noise else logits
        if self.dtype == "bfloat16":
            return torch.tensor(logits).bfloat16().double().numpy()
        return np.asarray(logits, np.float64)

    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        is_batch = sum(request.n for request in requests) > 1
        return [[self.write(it, is_batch) for _ in range(it.n)] for it in requests]

    def write(self, request: Request, in_batch: bool) -> Choice:
        draws = self.draws if request.seed is None else np.random.default_rng(request.seed)
        prompt = [int(token) for token in request.prompt]  # type: ignore[arg-type]
        tokens: list[int] = []
        listed: list[dict[int | str, float]] = []
        own: list[float] = []
        letters = ""
        while len(tokens) < request.max_tokens:
            raw = self.logits([*prompt, *tokens][-1], in_batch)
            logits = penalised(raw, request.penalties, prompt, tokens)
            token = self.draw(logits, request.sampling, draws)
            logprobs = raw - np.logaddexp.reduce(raw)
            letter = self.letter(token)
            if letter in request.stop:
                break
            tokens.append(token)
            letters += letter
            count = min(self.top, len(raw) - 1)
            best = np.argpartition(-raw, count)[: self.top]
            named = {it: float(logprobs[it]) for it in {*map(int, best), token}}
            name = self.letter if self.names else int
            listed.append({name(it): logprob for it, logprob in named.items()})
            own.append(float(logprobs[token]))
        shown = tuple(letters) if self.names else tuple(tokens)
        return Choice(letters, shown, tuple(own), tuple(listed))

    def letter(self, token: int) -> str:
        return chr(FIRST_LETTER + min(token, self.chain.vocab_size - 1 - self.names))

    def draw(self, logits: np.ndarray, sampling: Sampling, draws: np.random.Generator) -> int:
        if sampling.greedy:
            return int(logits.argmax())
        probs = sampling.probs(torch.tensor(logits)).numpy()
        if self.race:
            exponentials = draws.exponential(size=len(probs))
            return int((probs / exponentials).argmax())
        return int(min(probs.cumsum().searchsorted(draws.random(), side="right"), len(probs) - 1))
