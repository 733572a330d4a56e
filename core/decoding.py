"""The loop: propose, score, verify, commit, as a generator of rounds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import final

import torch

from outrider.chance import Chance, SampledChance
from outrider.context import Context, Tokens
from outrider.draft import KINDS, ROOT, Draft
from outrider.drafter import Drafter
from outrider.errors import ConfigError, DrafterError, OutriderError, TargetError, require, whole
from outrider.lookahead import Fixed, Lookahead
from outrider.pen import Pen
from outrider.sampling import Sampling
from outrider.target import Target
from outrider.text import TextStream
from outrider.verifier import Scores, Verdict, Verifier


@final
@dataclass(frozen=True, slots=True)
class Round:
    """What one target call brought.

    tokens: the ids emitted, nothing past a stop.
    origins: who wrote each: "accepted" (the drafter), "recovered" (the target, after a
        rejection) or "bonus" (the target, where the draft ended).
    pieces: the characters that each completes.
    draft: the tokens and parents that were proposed.
    path: the nodes of the draft that were accepted.
    drafted, tested, accepted: counts of draft tokens. A token after the first rejected one is
        not tested, and one past a stop does not count at all.
    seconds: of the phases draft, score and verify.
    stop: why the text ends here ("eos", "stop_string", "max_new_tokens", "max_length"), or None.
    """

    tokens: tuple[int, ...]
    origins: tuple[str, ...]
    pieces: tuple[str, ...]
    draft: tuple[int, ...]
    parents: tuple[int, ...]
    path: tuple[int, ...]
    drafted: int
    tested: int
    accepted: int
    seconds: dict[str, float]
    stop: str | None = None

    @property
    def text(self) -> str:
        """Returns the characters that the round's tokens complete."""
        return "".join(self.pieces)


def prepare(target: Target, drafter: Drafter, verifier: Verifier) -> None:
    """Fits a drafter to its target, before any model runs.

    Raises:
        ConfigError: the drafter needs what the target does not offer, or may branch where
            the rule or the target takes only chains, or does not fit for reasons of its own.
    """
    name = type(drafter).__name__
    if missing := sorted(drafter.needs - target.offers):
        offered = ", ".join(sorted(name for name in target.offers if "." not in name)) or "nothing"
        raise ConfigError(f"drafter {name} needs {', '.join(missing)}: the target offers {offered}")
    if drafter.kind not in verifier.takes:
        raise ConfigError(
            f"drafter {name} writes {drafter.kind!r} drafts ({KINDS[drafter.kind]}): the rule"
            f" {type(verifier).__name__} takes {', '.join(sorted(verifier.takes))};"
            f" rules that fit: {', '.join(rules_for(drafter.kind))}"
        )
    if (drafter.trees or drafter.asks) and not target.trees:
        raise ConfigError(f"drafter {name} writes trees: the target takes only chains")
    drafter.bind(target)


def rules_for(kind: str) -> list[str]:
    """Returns the names of the registered rules that take drafts of a kind."""
    from outrider.plugins import installed

    entries = installed().of("verifier")
    return [name for name, entry in entries.items() if kind in entry.product.takes]


def check_lengths(gamma: int, budget: int | None, max_new_tokens: int) -> None:
    """Raises `ConfigError` for a length that makes no sense."""
    require(whole(gamma) and gamma >= 1, "gamma", gamma, "a whole number of at least 1")
    fits = budget is None or (whole(budget) and budget >= 1)
    require(fits, "budget", budget, "a whole number of at least 1, or none")
    enough = whole(max_new_tokens) and max_new_tokens >= 1
    require(enough, "max_new_tokens", max_new_tokens, "a whole number of at least 1")


def decode(
    target: Target,
    drafter: Drafter,
    verifier: Verifier,
    tokens: Sequence[int],
    *,
    gamma: int = 5,
    budget: int | None = None,
    sampling: Sampling | None = None,
    lookahead: Lookahead | None = None,
    chance: Chance | None = None,
    max_new_tokens: int = 128,
    stops: Sequence[str] = (),
) -> Iterator[Round]:
    """Yields the rounds of speculative decoding (Leviathan et al. 2211.17192, Algorithm 1).

    >>> for round in decode(target, drafter, verifier, tokens, gamma=4):
    ...     print(round.text, end="", flush=True)

    tokens: the prompt's ids.
    gamma: the depth of a draft; vLLM's num_speculative_tokens.
    budget: the nodes of a draft, where the drafter writes trees; gamma unless told.
    lookahead: how long to draft, within gamma; `Fixed` unless told.
    chance: seeded by `sampling.seed` unless told.
    stops: strings that end the text.

    Raises:
        ConfigError: at the call, before any model runs, for what can't work.
        DrafterError, TargetError: while iterating; what was yielded stays good.
    """
    check_lengths(gamma, budget, max_new_tokens)
    sampling = Sampling() if sampling is None else sampling
    text = TextStream(target.tokenizer, stops)
    prompt = target.encode(tokens)
    prepare(target, drafter, verifier)
    return _rounds(
        target,
        drafter,
        verifier,
        prompt,
        gamma,
        gamma if budget is None else budget,
        sampling,
        Fixed() if lookahead is None else lookahead,
        SampledChance.seeded(sampling.seed) if chance is None else chance,
        max_new_tokens,
        text,
    )


def _rounds(
    target: Target,
    drafter: Drafter,
    verifier: Verifier,
    prompt: list[int],
    gamma: int,
    budget: int,
    sampling: Sampling,
    lookahead: Lookahead,
    chance: Chance,
    max_new_tokens: int,
    text: TextStream,
) -> Iterator[Round]:
    ids = list(prompt)
    session = target.open(prompt, drafter.needs)
    lookahead.reset()
    limit, reason = len(prompt) + max_new_tokens, "max_new_tokens"
    if target.max_length is not None and target.max_length < limit:
        limit, reason = target.max_length, "max_length"
    stop: str | None = None
    while stop is None:
        began = perf_counter()
        # The target adds a token to whatever is accepted, so a draft may fill all but one.
        depth = min(lookahead.depth(gamma), limit - len(ids) - 1)
        pen = Pen(
            sampling=sampling,
            chance=chance,
            vocab_size=target.vocab_size,
            gamma=depth,
            budget=budget,
            more=lookahead.more,
        )
        draft = _propose(drafter, Context(Tokens(ids, len(ids)), None, session.features()), pen)
        questions = pen.questions()
        drafted = perf_counter()
        logits = session.score(draft.joined(questions) if questions else draft)
        if not torch.isfinite(logits.amax(-1)).all():
            raise TargetError("the target gave logits with NaN, infinity or no finite entry")
        scored = perf_counter()
        logits, answers = logits[: len(draft) + 1], logits[len(draft) + 1 :]
        verdict = verifier.verify(draft, Scores(logits, sampling), chance)
        session.commit(verdict)
        if questions:
            drafter.answer(questions, answers)
        tokens, origins = _emission(draft, verdict)
        pieces = []
        for count, token in enumerate(tokens, start=1):
            piece, found = text.push(token)
            pieces.append(piece)
            stop = "eos" if token in target.eos else "stop_string" if found else None
            if stop is None and len(ids) + count == limit:
                stop = reason
            if stop is not None:
                break
        ids += tokens[:count]
        seconds = {
            "draft": drafted - began,
            "score": scored - drafted,
            "verify": perf_counter() - scored,
        }
        accepted = min(len(verdict.accepted), count)
        cut = count <= len(verdict.accepted)  # the draft past the stop was never in question
        round = Round(
            tokens=tuple(tokens[:count]),
            origins=origins[:count],
            pieces=tuple(pieces),
            draft=draft.tokens,
            parents=draft.parents,
            path=verdict.accepted[:accepted],
            drafted=accepted if cut else len(draft),
            tested=accepted + (not cut and origins[-1] == "recovered"),
            accepted=accepted,
            seconds=seconds,
            stop=stop,
        )
        lookahead.observe(round)
        yield round


def _propose(drafter: Drafter, context: Context, pen: Pen) -> Draft:
    """Returns the drafter's draft; what it raises is an error that names it."""
    name = type(drafter).__name__
    try:
        drafter.propose_batch([(context, pen)])
    except DrafterError as error:
        raise DrafterError(f"drafter {name} {error}") from error
    except OutriderError:
        raise
    except Exception as error:
        raise DrafterError(f"drafter {name} raised {type(error).__name__}: {error}") from error
    draft = pen.finish()
    if not draft.is_of(drafter.kind):
        kind = drafter.kind
        raise DrafterError(f"drafter {name} wrote what is no {kind!r}: {KINDS[kind]}")
    return draft


def _emission(draft: Draft, verdict: Verdict) -> tuple[list[int], tuple[str, ...]]:
    """Returns the tokens that a verdict adds to the text, and who wrote each."""
    leaf = verdict.accepted[-1] if verdict.accepted else ROOT
    added = "recovered" if draft.children(leaf) else "bonus"
    tokens = [draft.tokens[node] for node in verdict.accepted]
    return [*tokens, verdict.next_token], (*("accepted",) * len(tokens), added)
