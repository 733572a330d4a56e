"""Rounds: propose, score, verify, commit, for one text, whoever does the scoring."""

from collections.abc import Generator, Sequence
from time import perf_counter

from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.constraint import Constraint, constrained
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import KINDS, ROOT, Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session, Target, check_finite
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.decoding.text_stream import TextStream
from outrider.errors import DrafterError, OutriderError

Scored = tuple[Float[Tensor, "nodes+1 vocab"], float]
"""The logits of a draft, and the seconds that they took: of a batch's pass, one text's share."""

Steps = Generator[Draft | Round, Scored | None, None]
"""One text under way: it gives a draft to be sent what it is scored, and a round when one is done."""


def steps(
    target: Target,
    session: Session,
    drafter: Drafter,
    verifier: Verifier,
    prompt: list[int],
    gamma: int,
    budget: int,
    sampling: Sampling,
    policy: Policy,
    chance: Chance,
    max_new_tokens: int,
    text: TextStream,
    constraint: Constraint | None,
) -> Steps:
    ids, source = target.begin(prompt)
    policy.reset()
    limit, reason = len(ids) + max_new_tokens, "max_new_tokens"
    if target.max_length is not None and target.max_length < limit:
        limit, reason = target.max_length, "max_length"
    stop: str | None = None
    while stop is None:
        began = perf_counter()
        # The target adds a token to whatever is accepted, so a draft may fill all but one.
        depth = min(policy.depth(gamma), limit - len(ids) - 1)
        pen = Pen(
            sampling=sampling,
            chance=chance,
            vocab_size=target.vocab_size,
            gamma=depth,
            budget=budget,
            more=policy.more,
        )
        context = Context(Tokens(ids, len(ids)), source, session.features())
        propose(drafter, [(context, pen)])
        draft = _finished(drafter, pen)
        questions = pen.questions()
        drafted = perf_counter()
        answer = yield (draft.joined(questions) if questions else draft)
        assert answer is not None
        logits, scoring = answer
        scored = perf_counter()
        check_finite(logits)
        logits, answers = logits[: len(draft) + 1], logits[len(draft) + 1 :]
        if constraint is not None:
            logits = constrained(constraint, ids, draft, logits)
        verdict = verifier.verify(draft, Scores(logits, sampling), chance)
        session.commit(verdict)
        if questions:
            drafter.answer(questions, answers)
        tokens, origins = _emission(draft, verdict)
        pieces = []
        for count, token in enumerate(tokens, start=1):
            piece, found = text.push(token)
            pieces.append(piece)
            ended = constraint is not None and constraint.ends([*ids, *tokens[:count]])
            if token in target.eos:
                stop = "eos"
            elif found:
                stop = "stop_string"
            elif len(ids) + count == limit:
                stop = reason
            elif ended:
                stop = "constraint"
            if stop is not None:
                break
        ids += tokens[:count]
        seconds = {
            "draft": drafted - began,
            "score": scoring,
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
        policy.observe(round)
        yield round


def propose(drafter: Drafter, pairs: Sequence[tuple[Context, Pen]]) -> None:
    """Has a drafter write its drafts; what it raises is an error that names it.

    Raises:
        DrafterError: the drafter failed.
    """
    name = type(drafter).__name__
    try:
        drafter.propose_batch(pairs)
    except DrafterError as error:
        raise DrafterError(f"drafter {name} {error}") from error
    except OutriderError:
        raise
    except Exception as error:
        raise DrafterError(f"drafter {name} raised {type(error).__name__}: {error}") from error


def _finished(drafter: Drafter, pen: Pen) -> Draft:
    draft = pen.finish()
    if not draft.is_of(drafter.kind):
        name, kind = type(drafter).__name__, drafter.kind
        raise DrafterError(f"drafter {name} wrote what is no {kind!r}: {KINDS[kind]}")
    return draft


def _emission(draft: Draft, verdict: Verdict) -> tuple[list[int], tuple[str, ...]]:
    """Returns the tokens that a verdict adds to the text, and who wrote each."""
    leaf = verdict.accepted[-1] if verdict.accepted else ROOT
    added = "recovered" if draft.children(leaf) else "bonus"
    tokens = [draft.tokens[node] for node in verdict.accepted]
    return [*tokens, verdict.next_token], (*("accepted",) * len(tokens), added)
