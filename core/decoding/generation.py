"""Generation: one call from a prompt to its text, with counts and rounds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, final

from outrider.base.bounds import check
from outrider.contract.drafter import Drafter
from outrider.contract.round import Counts, Round, TokenLogprob
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.decoding.calls import encoded
from outrider.decoding.decode import decode, decode_together
from outrider.plugins.registry import make


@final
@dataclass(slots=True)
class Generation:
    """A text, in progress or finished, with its rounds.

    It grows round by round, so whatever was written is kept if a later round fails.
    """

    rounds: list[Round] = field(default_factory=list)
    total_seconds: float = 0.0
    began: float = field(default_factory=perf_counter)

    def add(self, round: Round) -> None:
        """Appends the next round."""
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


def generate(
    target: Target | str,
    prompt: str | Sequence[Any],
    drafter: Drafter | str = "prompt_lookup",
    verifier: Verifier | str = "token",
    *,
    chat: bool = False,
    **options: Any,
) -> Generation:
    """Returns the text that `target` writes after `prompt`, with `drafter` to speed it up.

    >>> outrider.generate("smollm2", "Repeat: one, two, three, four, five.", gamma=4).text

    prompt: text, ids, or the messages of a chat, each with its role and content.
    target, drafter, verifier: instances, or names as in the Hydra groups, and so is the option
        `policy`. A target can also be a hub id or the folder of a transformers model.
    chat: wrap the prompt as a user's turn.
    options: the options of `outrider.decode` (gamma, sampling, max_new_tokens, stops, ...).

    Raises:
        OutriderError: as `outrider.decode` does. The attribute `generation` of the error holds the
            rounds that were finished.
    """
    check({"chat": bool}, {"chat": chat})
    model: Target = make("target", target)
    tokens = encoded(model, prompt, chat=chat)
    if options.get("policy") is not None:
        options["policy"] = make("policy", options["policy"])
    rounds = decode(model, make("drafter", drafter), make("verifier", verifier), tokens, **options)
    generation = Generation()
    try:
        for round in rounds:
            generation.add(round)
    except Exception as error:
        error.generation = generation  # type: ignore[attr-defined]
        raise
    return generation


def generate_together(
    target: Target | str,
    prompts: Sequence[str | Sequence[int]],
    drafter: Drafter | str = "prompt_lookup",
    verifier: Verifier | str = "token",
    *,
    chat: bool = False,
    **options: Any,
) -> list[Generation]:
    """Returns the text after each prompt, written in one batch.

    >>> texts = outrider.generate_together("smollm2", ["Name three rivers.", "And three lakes?"])

    Each text ends on its own. It is the one that `generate` writes with the prompt's index as
    `number`. A prompt that is listed several times gets independent texts above temperature 0.

    drafter: a name or an instance.
    options: the options of `outrider.decode_together`.

    Raises:
        OutriderError: as `generate` does. The attribute `generations` of the error holds what was
            written of each text.
    """
    check({"chat": bool, "prompts": Sequence[Any]}, {"chat": chat, "prompts": prompts})
    model: Target = make("target", target)
    ids = [encoded(model, prompt, chat=chat) for prompt in prompts]
    rule, proposer = make("verifier", verifier), make("drafter", drafter)
    rounds = decode_together(model, proposer, rule, ids, **options)
    generations = [Generation() for _ in prompts]
    try:
        for number, round in rounds:
            generations[number].add(round)
    except Exception as error:
        error.generations = generations  # type: ignore[attr-defined]
        raise
    return generations
