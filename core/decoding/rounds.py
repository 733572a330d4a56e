"""One round of one text: propose a draft, have it scored, verify it, commit the result."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

from outrider.base.calling import calling
from outrider.base.errors import DrafterError
from outrider.contract.chance import Noise
from outrider.contract.constraint import Guide, constrained
from outrider.contract.context import Context, Features
from outrider.contract.draft import ROOT, Draft, Logits, Verdict, origins_of
from outrider.contract.pen import Pen
from outrider.contract.policy import Policy
from outrider.contract.round import Round, TokenLogprob
from outrider.contract.sheet import Sheet
from outrider.contract.verifier import Scores
from outrider.decoding.calls import (
    call_drafter,
    checked_scores,
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


def propose(run: Run, text: ActiveText, texts: int = 1) -> Proposal:
    """Has the drafter write a draft after the text so far.

    texts: how many texts are to be scored together.

    Raises `DrafterError` if the drafter failed, or wrote a draft of another kind than it declares.
    """
    began, context, sheet = now(), text.context, blank_sheet(run, text, texts)
    call_drafter(text.drafter, [(context, Pen(sheet))], run.draft_timeout)
    return proposal(text, context, sheet, now() - began)


def blank_sheet(run: Run, text: ActiveText, texts: int) -> Sheet:
    """Returns what the next draft of a text is written on; `propose` says what `texts` is."""
    with calling("policy", text.policy):
        text.policy.notice(len(text.ids), texts)
    # The target adds a token to whatever is accepted, so the draft leaves room for one.
    depth = min(depth_of(text.policy, run.gamma), text.limit - len(text.ids) - 1)
    more = None if type(text.policy).more is Policy.more else partial(goes_on, text.policy)
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
        budget=run.nodes,
        more=_asked_after_layers(more) if more and text.drafter.kind == "paths" else more,
        noise=Noise(text.ids, run.verifier.window) if run.verifier.coupled else None,
        guide=None if steering is None else Guide(steering, text.ids),
    )


def proposal(text: ActiveText, context: Context, sheet: Sheet, seconds: float) -> Proposal:
    """Returns what a drafter has written on a sheet; raises `DrafterError` as `propose` does."""
    with calling("drafter", text.drafter):
        draft, probes = sheet.finish(), sheet.probes()
        if reason := violation(draft, text.drafter.kind):
            raise DrafterError(f"says kind={text.drafter.kind!r}, but {reason}")
        if probes and not text.drafter.asks:
            raise DrafterError("asks the target, expected it to override answer()")
    return Proposal(context, draft, probes, seconds)


def _asked_after_layers(more: Callable[[Draft], bool]) -> Callable[[Draft], bool]:
    """Returns a policy's `more`, asked only when all paths are equally long.

    Rules for paths take no others, so a draft may stop only there.
    """
    return lambda draft: len(draft) % len(draft.children(ROOT)) > 0 or more(draft)


def finish(run: Run, text: ActiveText, proposal: Proposal, logits: Logits, lap: Lap) -> Round:
    """Verifies a scored draft, commits what was accepted, and returns the round.

    logits: the target's, for `proposal.to_score`: row 0 scores what follows the text.
    lap: the time that they took; in a batch, this text's share of it.

    Raises:
        PluginError: the rule failed, or returned no verdict on the draft.
        TargetError: the logits hold NaN or infinity, or a constraint forbids every token.
        DrafterError: the drafter failed in `answer` or `observe`.
    """
    shape = (len(proposal.to_score) + 1, run.target.vocab_size)
    check = checked_scores(text.session, logits, shape)
    draft, probes = proposal.draft, proposal.probes
    own_logits, answers = logits[: len(draft) + 1], logits[len(draft) + 1 :]
    states = _states(text, draft, shape[0])
    try:
        verdict = _verdict(run, text, draft, own_logits, states)
    finally:
        check()  # only now, since a rule has to wait for the device anyway
    if text.drafter.observes_states:
        with calling("drafter", text.drafter):
            text.drafter.observe_states(proposal.context, draft, states)
    with calling("target", text.session):
        text.session.commit(verdict)
    tokens, pieces, stop = _emit(run, text, draft, verdict)
    origins = origins_of(draft, verdict.accepted)[: len(tokens)]
    logprobs = _logprobs(run, own_logits, verdict, tokens)
    text.ids.extend(tokens)
    with calling("drafter", text.drafter):  # it may change what it is shown: nothing reads it again
        if probes:
            text.drafter.answer(probes, answers)
        if text.drafter.observes:
            text.drafter.observe(proposal.context, draft, own_logits, verdict)
    drafted, tested, accepted = _counts(draft, verdict, origins)
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


def _emit(
    run: Run, text: ActiveText, draft: Draft, verdict: Verdict
) -> tuple[tuple[int, ...], tuple[str, ...], str | None]:
    """Returns the tokens that a verdict adds to the text, their characters, and why it ends."""
    tokens = (*(draft.tokens[node] for node in verdict.accepted), verdict.next_token)
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
    return tokens[: len(pieces)], tuple(pieces), stop


def _logprobs(
    run: Run, logits: Logits, verdict: Verdict, tokens: Sequence[int]
) -> tuple[TokenLogprob, ...]:
    """Returns the log-probabilities of the tokens of a round, if the run wants them.

    logits: the target's own, without the constraint. The row of a token is that of its parent.
    """
    if run.logprobs is None:
        return ()
    rows = [0, *(node + 1 for node in verdict.accepted)][: len(tokens)]
    return token_logprobs(logits[rows], tokens, run.logprobs)


def _counts(draft: Draft, verdict: Verdict, origins: Sequence[str]) -> tuple[int, int, int]:
    """Returns how many draft tokens count as drafted, tested and accepted.

    If the text ends within the accepted tokens, the rest of the draft counts for nothing.
    """
    accepted = min(len(verdict.accepted), len(origins))
    if len(origins) <= len(verdict.accepted):
        return accepted, accepted, accepted
    return len(draft), accepted + (origins[-1] == "recovered"), accepted
