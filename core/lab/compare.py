"""Compare: drafters, rules and policies side by side over the same questions, by either protocol or both."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from outrider.contract.target import Target
from outrider.decoding.decode import prepare
from outrider.errors import ConfigError, require
from outrider.lab.measurement import Measurement
from outrider.lab.overlap import overlap, reference
from outrider.lab.texts import written
from outrider.lab.trial import Entrant, Question, Settings, plain, trial, warm_up
from outrider.prompts import Prompt

PROTOCOLS = {"overlap": ("overlap",), "decode": ("decode",), "both": ("overlap", "decode")}
"""By the config's name, what is done, in that order."""


def questions(
    target: Target,
    prompts: Sequence[Prompt],
    settings: Settings,
    *,
    chat: bool,
    answers: bool,
    folder: Path | None = None,
    on_text: Callable[[], None] = lambda: None,
) -> list[Question]:
    """Returns a question for each turn of each prompt, in the order of the prompts.

    A later turn has the target's own answers in it, so it is the same for every drafter.

    chat: wrap turns with the tokenizer's chat template.
    answers: whether the last turns are to be answered too.
    folder, on_text: see `written`.

    Raises:
        ConfigError: a prompt that the target can't take; the message names it.
    """
    require(len(prompts) > 0, "data", list(prompts), "at least one prompt")
    found: dict[tuple[str, int], Question] = {}
    said: dict[str, list[str]] = {prompt.id: [] for prompt in prompts}
    for turn in range(1, max(len(prompt.turns) for prompt in prompts) + 1):
        here = [prompt for prompt in prompts if len(prompt.turns) >= turn]
        asked = []
        for prompt in here:
            said[prompt.id].append(prompt.turns[turn - 1])
            try:
                asked.append(target.encode_turns(said[prompt.id], chat=chat))
            except ConfigError as error:
                raise ConfigError(f"data: prompt {prompt.id}, turn {turn}: {error}") from error
        needed = [answers or len(prompt.turns) > turn for prompt in here]
        texts = iter(
            written(
                target,
                [tokens for tokens, need in zip(asked, needed, strict=True) if need],
                settings.sampling,
                settings.max_new_tokens,
                batch=settings.batch,
                folder=folder,
                on_text=on_text,
            )
        )
        for prompt, tokens, need in zip(here, asked, needed, strict=True):
            text = next(texts) if need else []
            if len(prompt.turns) > turn:
                assert target.tokenizer is not None, "it has encoded the turn"
                answer = target.tokenizer.decode(text, skip_special_tokens=True)
                said[prompt.id].append(str(answer))
            key = (prompt.id, turn)
            found[key] = Question(prompt.id, turn, prompt.category, tokens, text)
    return [
        found[prompt.id, turn] for prompt in prompts for turn in range(1, len(prompt.turns) + 1)
    ]


def fit(target: Target, entrants: Mapping[str, Entrant]) -> None:
    """Fits every entrant to the target, before any model runs.

    Raises:
        ConfigError: there is none, or one does not fit.
    """
    require(len(entrants) > 0, "drafters", list(entrants), "at least one")
    for entrant in entrants.values():
        prepare(target, entrant.drafter, entrant.verifier)


def measure(
    target: Target,
    entrants: Mapping[str, Entrant],
    questions: Sequence[Question],
    settings: Settings,
    protocol: str = "both",
    done: Collection[tuple[str, str, int]] = (),
) -> Iterator[Measurement]:
    """Yields a measurement for each protocol, question and entrant as it is there.

    done: protocol, prompt and turn of what is left out, since it is there already.
    """
    left = {
        name: [each for each in questions if (name, each.prompt, each.turn) not in done]
        for name in PROTOCOLS[protocol]
    }
    for question in left.get("overlap", ()):
        yield from _overlaps(target, entrants, question, settings)
    asked = left.get("decode", [])
    for first in range(0, len(asked), settings.together):
        group = asked[first : first + settings.together]
        if not first:
            warm_up(target, group[0], settings)
        baselines = plain(target, group, settings)
        for name, entrant in entrants.items():
            found = trial(target, entrant, group, settings, baselines)
            for question, decoding in zip(group, found, strict=True):
                yield Measurement(
                    question.prompt, question.turn, question.category, name, decoding=decoding
                )


def _overlaps(
    target: Target,
    entrants: Mapping[str, Entrant],
    question: Question,
    settings: Settings,
) -> Iterator[Measurement]:
    drafters = [entrant.drafter for entrant in entrants.values()]
    needs = frozenset[str]().union(*(drafter.needs for drafter in drafters))
    text = reference(target, question.tokens, question.text, needs)
    for name, each in entrants.items():
        found = overlap(text, each.drafter, each.verifier, settings.sampling, settings.gamma)
        yield Measurement(question.prompt, question.turn, question.category, name, overlap=found)
