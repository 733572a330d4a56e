"""Generation: one call from a prompt to its text, with counts and rounds."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from inspect import signature
from itertools import chain, starmap
from time import perf_counter
from typing import Any, final

from outrider.base.bounds import Seed, check
from outrider.base.errors import ConfigError, nearest, require
from outrider.contract.drafter import Drafter
from outrider.contract.round import Counts, Round, TokenLogprob
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.decoding.calls import encoded
from outrider.decoding.decode import decode, decode_together
from outrider.plugins.parts import make
from outrider.plugins.roles import Named

INTERNAL = ("chance", "chances", "number", "options", "tokens")
"""Parameters that no list of options names: those of the loops alone."""

MARKS = {
    "accepted": ("ins", "color: #1a7f37; text-decoration: underline"),
    "recovered": ("b", "color: #cf222e; text-decoration: underline dashed"),
    "bonus": ("i", "color: #0969da; text-decoration: underline dotted"),
}
"""By who wrote a token (see `outrider.Round`), its tag, and its style, which GitHub leaves out."""


@final
@dataclass(slots=True, repr=False)
class Generation:
    """A text, in progress or finished, with its rounds.

    It grows round by round, so whatever was written is kept if a later round fails.

    seed: what its random decisions follow from; None where they follow from no seed. The same call
        with `seed=` writes it again.
    """

    rounds: list[Round] = field(default_factory=list)
    total_seconds: float = 0.0
    began: float = field(default_factory=perf_counter)
    seed: int | None = None

    def add(self, round: Round) -> None:
        self.rounds.append(round)
        self.total_seconds = perf_counter() - self.began

    @property
    def text(self) -> str:
        """Returns the text after the prompt."""
        return "".join(round.text for round in self.rounds)

    @property
    def tokens(self) -> list[int]:
        """Returns the ids after the prompt."""
        return [token for round in self.rounds for token in round.tokens]

    @property
    def logprobs(self) -> list[TokenLogprob]:
        """Returns the target's log-probability of each token; empty if they were not asked for."""
        return [logprob for round in self.rounds for logprob in round.logprobs]

    @property
    def counts(self) -> Counts:
        """Returns the counts of all rounds."""
        return Counts.of(self.rounds)

    @property
    def seconds(self) -> dict[str, float]:
        """Returns the seconds of each phase (draft, score, verify), and of everything as total."""
        phases = {
            phase: sum(round.seconds[phase] for round in self.rounds)
            for phase in ("draft", "score", "verify")
        }
        return phases | {"total": self.total_seconds}

    @property
    def stop(self) -> str | None:
        """Returns why the text ended; None if it is unfinished."""
        return self.rounds[-1].stop if self.rounds else None

    @property
    def summary(self) -> str:
        """Returns what the drafts have brought, and the seed of a sampled text."""
        seed = "" if self.seed is None else f"; seed={self.seed} writes it again"
        return f"{self.counts.told(self.total_seconds)}{seed}"

    def __repr__(self) -> str:
        return f"Generation({self.text!r}, {self.summary})"

    def _repr_html_(self) -> str:
        pairs = (zip(it.pieces, it.origins, strict=True) for it in self.rounds)
        pieces = "".join(starmap(_marked, chain(*pairs)))
        key = ", ".join(_marked(origin, origin) for origin in MARKS)
        text = f'<div style="white-space: pre-wrap">{pieces}</div>'
        return f"{text}<p>{escape(self.summary)} ({key})</p>"


def _marked(text: str, origin: str) -> str:
    tag, style = MARKS.get(origin, ("span", ""))
    shown = escape(text).replace("\n", "<br>")  # outside of <pre> a page keeps no line's end
    return f'<{tag} style="{style}">{shown}</{tag}>'


def generate(
    target: Target | Named,
    prompt: str | Sequence[Any],
    drafter: Drafter | Named = "prompt_lookup",
    verifier: Verifier | Named = "token",
    *,
    chat: bool = False,
    seed: int | None = None,
    **options: Any,
) -> Generation:
    """Returns the text that `target` writes after `prompt`, with `drafter` to speed it up.

    >>> outrider.generate("smollm2", "Repeat: one, two, three, four, five.", chat=True).text
    'One, two, three, four, five.'

    prompt: text, ids, or the messages of a chat, each with its role and content.
    target, drafter, verifier: parts as `outrider.decode` takes them. A target can also be a hub id
        or the folder of a transformers model.
    chat: wrap the prompt as a user's turn.
    seed: repeats a text: that of its `Generation`. Defaults to the sampling's seed, or a new one.
    options: the options of `outrider.decode` (gamma, sampling, max_new_tokens, stop, ...).

    Raises `OutriderError` as `outrider.decode` does. The attribute `generation` of the error
    holds the rounds that were finished.
    """
    check({"chat": bool}, {"chat": chat})
    options = _seeded(generate, decode, options, seed)
    one = "one prompt; outrider.generate_together takes several"
    require(not _are_several(prompt), "prompt", prompt, one)
    model: Target = make("target", target)
    rounds = decode(model, drafter, verifier, encoded(model, prompt, chat=chat), **options)
    generation = Generation(seed=options["sampling"].seed)
    try:
        for round in rounds:
            generation.add(round)
    except Exception as error:
        error.generation = generation  # type: ignore[attr-defined]
        raise
    return generation


def generate_together(
    target: Target | Named,
    prompts: Sequence[str | Sequence[int]],
    drafter: Drafter | Named = "prompt_lookup",
    verifier: Verifier | Named = "token",
    *,
    chat: bool = False,
    seed: int | None = None,
    **options: Any,
) -> list[Generation]:
    """Returns the text after each prompt, written in one batch.

    >>> outrider.generate_together("smollm2", ["Name a river.", "Name a lake."], chat=True)

    Each text ends on its own. It is the one that `generate` writes with the prompt's index as
    `number`. A prompt that is listed several times gets independent texts above temperature 0.

    seed: as for `generate`. options: the options of `outrider.decode_together`.

    Raises `OutriderError` as `generate` does. The attribute `generations` of the error holds
    what was written of each text.
    """
    check({"chat": bool, "prompts": Sequence[Any]}, {"chat": chat, "prompts": prompts})
    options = _seeded(generate_together, decode_together, options, seed)
    model: Target = make("target", target)
    ids = [encoded(model, prompt, chat=chat) for prompt in prompts]
    rounds = decode_together(model, drafter, verifier, ids, **options)
    generations = [Generation(seed=options["sampling"].seed) for _ in prompts]
    try:
        for number, round in rounds:
            generations[number].add(round)
    except Exception as error:
        error.generations = generations  # type: ignore[attr-defined]
        raise
    return generations


def _seeded(
    call: Callable[..., Any], loop: Callable[..., Any], options: dict[str, Any], seed: int | None
) -> dict[str, Any]:
    """Returns the options of a call for its loop, with a sampling that has a seed if it draws.

    Raises `ConfigError` for an option that neither takes.
    """
    known = {**signature(loop).parameters, **signature(call).parameters}
    for name in options:
        if name not in known:
            users = (each for each in known if each not in INTERNAL)
            raise ConfigError(f"{name}: {nearest(name, users)}")
    check({"seed": Seed | None}, {"seed": seed})
    given = options.get("sampling")
    sampling: Sampling = Sampling() if given is None else make("sampling", given)
    return options | {"sampling": with_seed(sampling, seed)}


def with_seed(sampling: Sampling, seed: int | None = None) -> Sampling:
    """Returns the sampling with a seed: the given one, its own, or a new one if it draws."""
    if seed is None and sampling.seed is None and not sampling.greedy:
        seed = secrets.randbelow(2**32)
    return sampling if seed is None else replace(sampling, seed=seed)


def _are_several(prompt: Any) -> bool:
    """Returns whether a prompt is a list of prompts: of texts, or of more than one list of ids."""
    if not isinstance(prompt, list | tuple) or not prompt:
        return False
    return all(isinstance(each, str) for each in prompt) or (
        len(prompt) > 1 and all(isinstance(each, list | tuple) for each in prompt)
    )
