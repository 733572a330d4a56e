"""An engine that decodes with drafts and can have a fault, written without Outrider's rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import final

import numpy as np

from outrider.contract.sampling import Sampling
from outrider.extras.audit.client import Choice, Client, Request
from outrider.targets.tabular import TabularTarget

FAULTS = (
    "noise reused", "temperature ignored in verification", "greedy for sampled neighbours",
    "residual of the wrong side", "residual left out", "bonus token twice", "q misreported",
    "penalties counted once a round", "seed shared by rows", "top-p ignored in verification",
    "stop string missed inside a draft", "log-probabilities of the drafter", "lenient acceptance",
    "reads a neighbour's last token", "drafts of rows share their noise",
    "repetition penalty left out in verification", "seed ignored beside others",
    "stop string of a rejected draft", "text longer than asked for",
    "a tenth of another distribution in batches", "a tenth of another distribution alone",
    "a fifth of another distribution after token 12", "one seed for two requests",
)  # fmt: skip
UNSEEN = ("a fifth of another distribution in the bonus token", "first token of another request")
"""What `kept` does not exclude, as the verdict's table says."""

GAMMA = 3
LETTERS = "abcdefghijklmnop"
PLAIN = Sampling(temperature=1.0)


def warped(logits: np.ndarray, sampling: Sampling) -> np.ndarray:
    """Temperature, top-k and top-p; at temperature 0 all mass is on the likeliest token."""
    return _warped(logits.tobytes(), sampling)


@cache  # a Markov chain has few distributions
def _warped(row: bytes, sampling: Sampling) -> np.ndarray:
    logits = np.frombuffer(row)
    if sampling.temperature == 0:
        return np.eye(len(logits))[int(logits.argmax())]
    scaled = logits / sampling.temperature
    order = np.argsort(-scaled)
    if sampling.top_k:
        scaled = np.where(np.isin(np.arange(len(scaled)), order[: sampling.top_k]), scaled, -np.inf)
    probs = np.exp(scaled - scaled.max())
    probs /= probs.sum()
    if sampling.top_p < 1:
        keep = np.cumsum(probs[order]) - probs[order] < sampling.top_p
        probs = np.where(np.isin(np.arange(len(probs)), order[keep]), probs, 0.0)
    return np.asarray(probs / probs.sum())


def penalised(
    logits: np.ndarray, penalties: Mapping[str, float], prompt: Sequence[int], tokens: Sequence[int]
) -> np.ndarray:
    changed = logits.copy()
    if divisor := penalties.get("repetition_penalty"):
        seen = list({*prompt, *tokens})
        changed[seen] = np.where(logits[seen] < 0, logits[seen] * divisor, logits[seen] / divisor)
    for token in {*tokens}:
        changed[token] -= penalties.get("frequency_penalty", 0) * tokens.count(token)
        changed[token] -= penalties.get("presence_penalty", 0)
    return changed


def inverse(probs: np.ndarray, uniform: float) -> int:
    return int(min(probs.cumsum().searchsorted(uniform, side="right"), len(probs) - 1))


@final
@dataclass(eq=False)
class FaultyEngine(Client):
    """Serves a Markov chain with drafts of another one; `fault` is one of `FAULTS`, or None."""

    target: TabularTarget
    fault: str | None = None
    drafter: np.ndarray = field(init=False)
    draws: np.random.Generator = field(init=False)
    rows: np.ndarray = field(init=False)
    seed: int = 1
    count: int = 0

    def __post_init__(self) -> None:
        size = self.target.vocab_size
        self.draws = np.random.default_rng(self.seed)
        noise = np.random.default_rng(5).normal(size=(size, size))
        self.rows = self.target.table.numpy()
        mean = self.rows.reshape(-1, size, size).mean(0)
        self.drafter = 0.8 * mean + 0.9 * noise

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        return np.asarray(self.rows[self.target.row(tokens)])

    def ask(self, requests: Sequence[Request]) -> list[list[Choice]]:
        rows = [request for request in requests for _ in range(request.n)]
        shared = int(self.draws.integers(2**60))
        has_greedy = any(row.sampling.greedy for row in rows)
        answers = []
        for index, row in enumerate(rows):
            seed = int(self.draws.integers(2**60)) if row.seed is None else row.seed
            if self.fault == "seed shared by rows" and row.seed is None:
                seed = shared
            self.count += 1
            if self.fault == "one seed for two requests" and row.seed is None:
                seed = (self.seed << 40) + self.count // 2
            if self.fault == "seed ignored beside others" and len(rows) > 1:
                seed = int(self.draws.integers(2**60))
            text = _Text(self, row, np.random.default_rng(seed))
            if self.fault == "drafts of rows share their noise":
                text.draws_of_drafts = np.random.default_rng(shared)
            text.greedy_neighbour = has_greedy
            text.has_neighbours = len(rows) > 1 and index > 0
            text.in_batch, text.is_odd = len(rows) > 1, index == 3
            answers.append(text.write())
        ends = iter(answers)
        return [[next(ends) for _ in range(request.n)] for request in requests]


@final
class _Text:
    def __init__(self, engine: FaultyEngine, row: Request, draws: np.random.Generator) -> None:
        self.engine, self.row, self.draws = engine, row, draws
        self.prompt = [int(token) for token in row.prompt]  # type: ignore[arg-type]
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.tops: list[dict[int | str, float]] = []
        self.drafted: list[int] = []
        self.draws_of_drafts = draws
        self.greedy_neighbour = self.has_neighbours = self.in_draft = False
        self.in_batch = self.is_odd = False

    def has(self, fault: str) -> bool:
        return self.engine.fault == fault

    def p_logits(self, tokens: Sequence[int], counted: Sequence[int]) -> np.ndarray:
        logits, penalties = self.engine.logits([*self.prompt, *tokens]), {**self.row.penalties}
        if self.in_draft and self.has("repetition penalty left out in verification"):
            penalties.pop("repetition_penalty", None)
        return penalised(logits, penalties, self.prompt, counted)

    def p(self, drafted: Sequence[int], *, is_draft: bool) -> np.ndarray:
        tokens = [*self.tokens, *drafted]
        counted = self.tokens if self.has("penalties counted once a round") else tokens
        sampling = self.row.sampling
        if is_draft and not sampling.greedy:
            if self.has("temperature ignored in verification"):
                sampling = Sampling(temperature=1.0, top_k=sampling.top_k, top_p=sampling.top_p)
            if self.has("top-p ignored in verification"):
                sampling = Sampling(temperature=sampling.temperature, top_k=sampling.top_k)
            if self.has("greedy for sampled neighbours") and self.greedy_neighbour:
                sampling = Sampling()
        if self.has("reads a neighbour's last token") and self.has_neighbours and not drafted:
            tokens = [*tokens, 0]
        if self.has("first token of another request") and self.is_odd and not tokens:
            tokens = [0, 0]
        self.in_draft = is_draft
        probs = warped(self.p_logits(tokens, counted), sampling)
        is_wrong = sampling.temperature and self.is_wrong(is_draft)
        share = self.wrong_share(len(tokens)) if is_wrong else 0.0
        last = np.eye(len(probs))[tokens[-1] if tokens else 0]
        return np.asarray((1 - share) * probs + share * last)

    def is_wrong(self, is_draft: bool) -> bool:
        alone = not self.has("a tenth of another distribution in batches") or self.in_batch
        in_batch = not self.has("a tenth of another distribution alone") or not self.in_batch
        return alone and in_batch and not (is_draft and self.has(UNSEEN[0]))

    def wrong_share(self, place: int) -> float:
        """Returns how much of a distribution is that of one token, the last one."""
        fault = self.engine.fault or ""
        if not fault.startswith(("a tenth", "a fifth")) or (fault[-2:] == "12" and place < 12):
            return 0.0
        return 0.1 if fault.startswith("a tenth") else 0.2

    def q(self, drafted: Sequence[int]) -> np.ndarray:
        last = [*self.prompt, *self.tokens, *drafted][-1]
        return warped(self.engine.drafter[last], self.row.sampling)

    def write(self) -> Choice:
        while len(self.tokens) < self.row.max_tokens:
            new = self.round()
            stops = [LETTERS.index(stop) for stop in self.row.stop]
            found = [at for at, token in enumerate(new) if token in stops]
            if self.has("stop string missed inside a draft"):
                found = [at for at in found if at == len(new) - 1]
            if self.has("stop string of a rejected draft") and {*stops} & {*self.drafted}:
                found = found or [len(new) - 1]
            kept = new[: found[0]] if found else new
            self.note(kept, len(new))
            self.tokens += kept
            if found:
                break
        is_long = self.has("text longer than asked for")
        tokens = self.tokens if is_long else self.tokens[: self.row.max_tokens]
        text, count = "".join(LETTERS[token] for token in tokens), len(tokens)
        return Choice(text, tuple(tokens), tuple(self.logprobs[:count]), tuple(self.tops[:count]))

    def round(self) -> list[int]:
        drafted: list[int] = []
        self.drafted = drafted
        qs: list[np.ndarray] = []
        for _ in range(GAMMA):
            qs.append(self.q(drafted))
            drafted.append(inverse(qs[-1], self.draws_of_drafts.random()))
        for at, token in enumerate(drafted):
            p, q = self.p(drafted[:at], is_draft=True), qs[at]
            reported = q
            if self.has("q misreported"):
                reported = q**2 / (q**2).sum()  # as at half the temperature
            uniform = self.draws.random()
            bound = p[token] / reported[token]
            if self.has("lenient acceptance"):
                bound *= 1.5
            if uniform < bound:
                continue
            rest = np.maximum(p - reported, 0)
            if self.has("residual of the wrong side"):
                rest = np.maximum(reported - p, 0)
            if self.has("residual left out"):
                rest = p
            rest = rest / rest.sum() if rest.sum() > 0 else p
            again = uniform if self.has("noise reused") else self.draws.random()
            return [*drafted[:at], inverse(rest, again)]
        bonus = inverse(self.p(drafted, is_draft=False), self.draws.random())
        twice = [bonus] if self.has("bonus token twice") else []
        return [*drafted, bonus, *twice]

    def note(self, kept: Sequence[int], written: int) -> None:
        """Lists log-probabilities as vLLM does: before penalties, temperature and so on."""
        for at, token in enumerate(kept):
            before = [*self.tokens, *kept[:at]]
            logits = self.engine.logits([*self.prompt, *before])
            if self.has("log-probabilities of the drafter") and at < written - 1:
                logits = self.engine.drafter[[*self.prompt, *before][-1]]
            row, best = _listed(logits.tobytes())
            self.logprobs.append(row[token])
            self.tops.append({i: row[i] for i in {*best, token}})


@cache
def _listed(logits: bytes) -> tuple[list[float], list[int]]:
    row = np.log(_warped(logits, PLAIN))
    return row.tolist(), np.argsort(-row)[:5].tolist()
