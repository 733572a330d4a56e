"""What decoding works on: a run, the same for every text, and each text in progress."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, final

from outrider.base.bounds import Count, Seconds
from outrider.base.calling import calling, returned
from outrider.base.errors import require
from outrider.base.expectations import AtLeast
from outrider.contract.chance import DRAFTER, TARGET, Chance, SampledChance
from outrider.contract.constraint import AllOf, Constraint
from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Fixed, Policy
from outrider.contract.prompt import check_ids
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session, Target
from outrider.contract.verifier import Verifier
from outrider.decoding.calls import opened, opened_rule
from outrider.decoding.clock import has_timer
from outrider.decoding.kinds import refuse_lossy, require_kind
from outrider.decoding.text_stream import TextStream

Lossy = Literal["allow", "refuse"]
"""Whether parts may change the distribution of the text."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The settings that every round of every text has in common; `outrider.decode` explains and
    judges them.

    Raises `ConfigError` for a part of another class, or a limit that can't be enforced here.
    """

    target: Target
    verifier: Verifier
    sampling: Sampling = field(default_factory=Sampling)
    gamma: Count = 5
    budget: Count | None = None
    max_new_tokens: Count = 128
    stop: str | Sequence[str] = ()
    stop_token_ids: Collection[int] = ()
    draft_timeout: Seconds | None = None
    logprobs: Annotated[int, AtLeast(0)] | None = None
    lossy: Lossy = "allow"

    def __post_init__(self) -> None:
        require_kind("target", self.target, Target)
        require_kind("verifier", self.verifier, Verifier)
        require_kind("sampling", self.sampling, Sampling)
        can_end = self.draft_timeout is None or has_timer()
        expected = "none: it needs the main thread of a Unix process"
        require(can_end, "draft_timeout", self.draft_timeout, expected)
        if self.lossy == "refuse":
            refuse_lossy(target=self.target, verifier=self.verifier)
        is_list = isinstance(self.stop_token_ids, Collection)
        require(is_list, "stop_token_ids", self.stop_token_ids, "a list of ids")
        check_ids("stop_token_ids", self.stop_token_ids, self.target.vocab_size)


@final
@dataclass(frozen=True, slots=True)
class ActiveText:
    """A text in progress, with everything that belongs to it alone.

    verifier: the run's rule, as it was opened for this text.
    drafter_chance, chance: what the drafter's pen draws with, and what the rule decides by. They
        are independent of each other, so a drafter can't know what will be accepted.
    earlier: how many texts the drafter remembered when this one began.
    ids: the prompt and the text so far; the list grows with each round.
    prompt_length: how many of them come before the answer.
    source: the encoder's input, None for a decoder-only target.
    limit: the most ids that the text may have, prompt included.
    limit_reason: what sets that limit, "max_new_tokens" or the target's "max_length".
    stream: turns its tokens into characters and finds stop strings.
    """

    session: Session
    drafter: Drafter
    verifier: Verifier
    policy: Policy
    drafter_chance: Chance
    chance: Chance
    earlier: int
    constraint: Constraint | None
    ids: list[int]
    prompt_length: int
    source: Tokens | None
    limit: int
    limit_reason: str
    stream: TextStream

    @property
    def context(self) -> Context:
        """Returns what the drafter may look at now."""
        with calling("target", self.session):
            features = self.session.features()
        return Context(Tokens(self.ids, len(self.ids)), self.source, features, self.prompt_length)

    def unknown(self, chance: Chance) -> Chance:
        """Returns a chance, or one of this round alone if later texts of it are in memory."""
        with calling("drafter", self.drafter):
            count = self.drafter.remembered
        return chance if count == self.earlier else chance.named(f"after/{count}/{len(self.ids)}")


def begin_text(  # noqa: PLR0913  all that belongs to one text
    run: Run,
    prompt: Sequence[int],
    session: Session,
    drafter: Drafter,
    *,
    policy: Policy | None,
    chance: Chance | None,
    number: int = 0,
    constraint: Constraint | None,
) -> ActiveText:
    """Returns a text that has only its prompt.

    policy: None for `Fixed`.
    chance: None for that of text `number` under the run's `sampling.seed`, or 0.
    """
    policy = Fixed() if policy is None else policy
    chance = SampledChance.seeded(run.sampling.seed or 0, number) if chance is None else chance
    require_kind("policy", policy, Policy)
    require_kind("chance", chance, Chance)
    if run.lossy == "refuse":
        refuse_lossy(policy=policy)
    with calling("verifier", run.verifier):
        is_coupled = run.verifier.coupled
    with calling("drafter", drafter):
        earlier = drafter.remembered
    with calling("chance", chance):
        if not is_coupled:
            chance = _independent(chance, earlier, policy)
        drafter_chance, chance = chance.named(DRAFTER), chance.named(TARGET)
    with calling("target", run.target):
        ids, source = run.target.begin(prompt)
        limit, reason = len(ids) + run.max_new_tokens, "max_new_tokens"
        if run.target.max_length is not None and run.target.max_length < limit:
            limit, reason = run.target.max_length, "max_length"
        own = run.target.constraint(ids, source, limit)
        stream = TextStream(run.target.tokenizer, run.stop, ids)
    asked = None
    if constraint is not None:
        require_kind("constraint", constraint, Constraint)
        with calling("constraint", constraint):
            asked = returned(constraint.begin(run.target, ids), Constraint)
    return ActiveText(
        session=session,
        drafter=opened(drafter),
        verifier=opened_rule(run.verifier),
        policy=policy,
        drafter_chance=drafter_chance,
        chance=chance,
        earlier=earlier,
        constraint=own if asked is None else asked if own is None else AllOf(own, asked),
        ids=ids,
        prompt_length=len(ids),
        source=source,
        limit=limit,
        limit_reason=reason,
        stream=stream,
    )


def _independent(chance: Chance, remembered: int, policy: Policy) -> Chance:
    """Returns a chance of whose decisions neither drafter nor policy can know anything.

    An earlier text may have been written with the same chance. A drafter that has it in memory, or
    a policy that has seen its rounds, could tell what will be accepted.
    """
    if remembered:
        chance = chance.named(f"after/{remembered}")
    if isinstance(policy, Fixed):
        return chance
    if policy.texts_before:
        chance = chance.named(f"policy/{policy.texts_before}")
    if chance.label is None:
        return chance
    before = policy.texts.get(chance.label, 0)
    policy.texts[chance.label] = before + 1
    return chance.named(f"again/{before}") if before else chance
