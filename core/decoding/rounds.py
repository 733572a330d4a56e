"""One round of one text: propose a draft, have it scored, verify it, commit the result."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import final

from outrider.base.calling import calling
from outrider.base.errors import DrafterError
from outrider.contract.chance import Noise
from outrider.contract.constraint import Guide, constrained
from outrider.contract.context import Context, Features
from outrider.contract.draft import ROOT, Draft, Logits, Verdict, origins_of
from outrider.contract.drafter import Drafter
from outrider.contract.judge import Judge
from outrider.contract.pen import Pen
from outrider.contract.policy import Policy
from outrider.contract.round import Round, TokenLogprob
from outrider.contract.sheet import Sheet
from outrider.contract.target import Scored
from outrider.contract.verifier import Scores
from outrider.decoding.calls import (
    call_drafter,
    checked_scores,
    computed_by,
    depth_of,
    ends,
    goes_on,
    verdict_of,
)
from outrider.decoding.clock import Lap, now
from outrider.decoding.kinds import violation
from outrider.decoding.run import ActiveText, Run
from outrider.decoding.token_logprobs import token_logprobs


@final
@dataclass(frozen=True, slots=True)
class Proposal:
    """A draft that waits for its scores.

    context: what it continues.
    probes: tokens that the drafter wants scored in the same pass, apart from the draft.
    seconds: the time that drafting took.
    """

    context: Context
    draft: Draft
    probes: Draft
    seconds: float

    @property
    def to_score(self) -> Draft:
        """Returns the tree for the target's pass: the draft, then the probes."""
        return self.draft.joined(self.probes) if self.probes else self.draft


def propose(
    run: Run, texts: Sequence[ActiveText], drafter: Drafter, together: int = 1
) -> list[Proposal]:
    """Has a drafter write a draft after each text so far; the time is divided.

    together: how many texts are to be scored together.

    Raises `DrafterError` if the drafter failed, or wrote a draft of another kind than it declares.
    """
    began, count = now(), len(texts)
    contexts = [text.context for text in texts]
    sheets = [_blank_sheet(run, text, together) for text in texts]
    limit = None if run.draft_timeout is None else count * run.draft_timeout
    call_drafter(drafter, [*zip(contexts, map(Pen, sheets), strict=True)], limit)
    seconds = (now() - began) / count
    parts = zip(texts, contexts, sheets, strict=True)
    return [_proposal(*each, seconds) for each in parts]


def _blank_sheet(run: Run, text: ActiveText, together: int) -> Sheet:
    """Returns what the next draft of a text is written on; `propose` says what `together` is."""
    with calling("policy", text.policy):
        text.policy.notice(len(text.ids), together)
    # The target adds a token to whatever is accepted, so the draft leaves room for one.
    depth = min(depth_of(text.policy, run.gamma), text.limit - len(text.ids) - 1)

    def more(draft: Draft) -> bool:
        # Rules for paths take only equally long ones, so a draft of them may stop only there.
        is_within = text.drafter.kind == "paths" and len(draft) % len(draft.children(ROOT)) > 0
        return is_within or goes_on(text.policy, draft)

    steering = None
    if text.constraint is not None:
        with calling("constraint", text.constraint):
            steering = text.constraint.steering()
    return Sheet(
        sampling=run.sampling,
        # A coupled rule and the pen draw with the same noise. The text follows from that noise and
        # the target alone, so a drafter that knew it could not change the text.
        chance=text.chance if run.verifier.coupled else text.unknown(text.drafter_chance),
        vocab_size=run.target.vocab_size,
        gamma=depth,
        budget=run.gamma if run.budget is None else run.budget,
        more=None if type(text.policy).more is Policy.more else more,
        noise=Noise(text.ids, run.verifier.window) if run.verifier.coupled else None,
        guide=None if steering is None else Guide(steering, text.ids),
    )


def _proposal(text: ActiveText, context: Context, sheet: Sheet, seconds: float) -> Proposal:
    """Returns what a drafter has written on a sheet; raises `DrafterError` as `propose` does."""
    with calling("drafter", text.drafter):
        draft, probes = sheet.finish(), sheet.probes()
        if reason := violation(draft, text.drafter.kind):
            raise DrafterError(f"says kind={text.drafter.kind!r}, but {reason}")
        if probes and not text.drafter.asks:
            raise DrafterError("asks the target, expected it to override answer()")
    return Proposal(context, draft, probes, seconds)


def judge_of(run: Run, text: ActiveText, proposal: Proposal) -> Judge | None:
    """Returns what decides on a draft where it is scored; None if something has to look before."""
    if text.constraint is not None or proposal.probes:
        return None
    with calling("verifier", run.verifier):
        return Judge.of(text.verifier, proposal.draft, run.sampling, text.unknown(text.chance))


def score(run: Run, text: ActiveText, proposal: Proposal) -> Scored:
    """Returns the target's logits for a proposal, and what reads the verdict if that is decided."""
    draft, computed = proposal.draft, None
    if draft and not proposal.probes:
        computed = computed_by(text.drafter, proposal.context, draft)
    judge = None if computed else judge_of(run, text, proposal)
    with calling("target", text.session):
        if computed:
            return text.session.resume(draft, computed), None
        return text.session.score_and_judge(proposal.to_score, judge)


def finish(
    run: Run,
    text: ActiveText,
    proposal: Proposal,
    logits: Logits,
    lap: Lap,
    *,
    decided: Callable[[], Verdict] | None = None,
) -> Round:
    """Verifies a scored draft, commits what was accepted, and returns the round.

    logits: the target's, for `proposal.to_score`: row 0 scores what follows the text.
    lap: the time that they took; in a batch, this text's share of it.
    decided: reads the verdict, if it was decided with them.

    Raises:
        PluginError: the rule failed, or returned no verdict on the draft.
        TargetError: the logits hold NaN or infinity, or a constraint forbids every token.
        DrafterError: the drafter failed in `answer` or `observe`.
    """
    shape = (len(proposal.to_score) + 1, run.target.vocab_size)
    check = checked_scores(text.session, logits, shape) if decided is None else None
    draft, probes = proposal.draft, proposal.probes
    own_logits, answers = logits[: len(draft) + 1], logits[len(draft) + 1 :]
    states = _states(text, draft, shape[0])
    try:
        if decided is None:
            verdict = _verdict(run, text, draft, own_logits, states)
        else:
            with calling("verifier", run.verifier):
                verdict = decided()
    finally:
        if check:
            check()  # only now, since a rule has to wait for the device anyway
    if text.drafter.observes_states:
        with calling("drafter", text.drafter):
            text.drafter.observe_states(proposal.context, draft, states)
    with calling("target", text.session):
        text.session.commit(verdict)
    added = (*(draft.tokens[node] for node in verdict.accepted), verdict.next_token)
    pieces, stop = _emit(run, text, added)
    count = len(pieces)
    tokens, origins = added[:count], origins_of(draft, verdict.accepted)[:count]
    logprobs: tuple[TokenLogprob, ...] = ()
    if run.logprobs is not None:  # the row of a token is that of its parent
        rows = [0, *(node + 1 for node in verdict.accepted)][:count]
        logprobs = token_logprobs(own_logits[rows], tokens, run.logprobs)
    text.ids.extend(tokens)
    with calling("drafter", text.drafter):  # it may change what it is shown: nothing reads it again
        if probes:
            text.drafter.answer(probes, answers)
        if text.drafter.observes:
            text.drafter.observe(proposal.context, draft, own_logits, verdict)
    drafted = tested = accepted = min(len(verdict.accepted), count)
    if count > accepted:  # else it ended within them, and the rest of the draft counts for nothing
        drafted, tested = len(draft), accepted + (origins[-1] == "recovered")
    both = now() - lap.began
    seconds = {"draft": proposal.seconds, "score": lap.seconds, "verify": both - lap.seconds}
    round = Round(
        tokens=tokens,
        origins=origins,
        pieces=pieces,
        draft=draft.tokens,
        parents=draft.parents,
        path=verdict.accepted[:accepted],
        drafted=drafted,
        tested=tested,
        accepted=accepted,
        seconds=seconds,
        stop=stop,
        logprobs=logprobs,
    )
    with calling("policy", text.policy):
        text.policy.observe(round)
    return round


def _states(text: ActiveText, draft: Draft, scored: int) -> Features:
    """Returns the features of the newest token and of each node, if anyone reads them.

    scored: the number of rows that were scored last: these, and those of the probes.
    """
    needs = text.verifier.needs | (text.drafter.needs if text.drafter.observes_states else set())
    if not needs:
        return {}
    with calling("target", text.session):
        features = text.session.features()
    return {name: rows[-scored:][: len(draft) + 1] for name, rows in features.items()}


def _verdict(
    run: Run, text: ActiveText, draft: Draft, logits: Logits, features: Features
) -> Verdict:
    """Returns the rule's verdict on a draft.

    logits: the target's own, without the constraint.
    features: as for `Scores`.
    """
    if text.constraint is not None:
        logits = constrained(text.constraint, text.ids, draft, logits)
    with calling("verifier", run.verifier):
        shown = None if run.verifier.lossless else text.context
    scores = Scores(logits, run.sampling, Noise(text.ids, run.verifier.window), shown, features)
    chance = text.chance if run.verifier.coupled else text.unknown(text.chance)
    return verdict_of(text.verifier, draft, scores, chance)


def remember(texts: Iterable[ActiveText]) -> None:
    """Hands texts that have ended to the drafters that remember them."""
    for text in texts:
        with calling("drafter", text.drafter):
            if text.drafter.remembers:
                text.drafter.remember(text.context)


def _emit(run: Run, text: ActiveText, tokens: Sequence[int]) -> tuple[tuple[str, ...], str | None]:
    """Returns the pieces of a round's tokens, up to the first that ends the text, and why it does.

    The pieces and the reason are those of `Round`.
    """
    pieces: list[str] = []
    stop: str | None = None
    while stop is None and len(pieces) < len(tokens):
        token = tokens[len(pieces)]
        piece, has_stop_string = text.stream.push(token)
        pieces.append(piece)
        ids = [*text.ids, *tokens[: len(pieces)]]
        # Asked of every token: a constraint may keep a record of them.
        ended_by_constraint = text.constraint is not None and ends(text.constraint, ids)
        if token in run.target.eos:
            stop = "eos"
        elif token in run.stop_token_ids:
            stop = "stop_token"
        elif has_stop_string:
            stop = "stop_string"
        elif len(ids) == text.limit:
            stop = text.limit_reason
        elif ended_by_constraint:
            stop = "constraint"
    if stop is not None:
        pieces[-1] += text.stream.finish()
    return tuple(pieces), stop
