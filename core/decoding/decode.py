"""The loop of speculative decoding, over one text or over several in step."""

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated

from outrider.base.bounds import Count, Seconds, checked
from outrider.base.calling import calling, returned
from outrider.base.errors import ConfigError, require
from outrider.base.expectations import AtLeast
from outrider.contract.chance import Chance
from outrider.contract.constraint import Constraint
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session, Target
from outrider.contract.verifier import Verifier
from outrider.decoding.batches.continuous_batch import Batch
from outrider.decoding.calls import computing, encoded
from outrider.decoding.clock import Lap
from outrider.decoding.kinds import check_takes, require_kind
from outrider.decoding.rounds import finish, propose, remember, score
from outrider.decoding.run import ActiveText, Lossy, Run, begin_text
from outrider.plugins.parts import make
from outrider.plugins.roles import Named


@checked()
def decode(  # noqa: PLR0913  the options of a run, by name
    target: Target | Named,
    drafter: Drafter | Named,
    verifier: Verifier | Named,
    tokens: str | Sequence[int],
    *,
    gamma: Count = 5,
    budget: Count | None = None,
    sampling: Sampling | Named | None = None,
    policy: Policy | Named | None = None,
    chance: Chance | None = None,
    number: Annotated[int, AtLeast(0)] = 0,
    max_new_tokens: Count = 128,
    stop: str | Sequence[str] = (),
    stop_token_ids: Collection[int] = (),
    constraint: Constraint | Named | None = None,
    draft_timeout: Seconds | None = None,
    logprobs: Annotated[int, AtLeast(0)] | None = None,
    lossy: Lossy = "allow",
) -> Iterator[Round]:
    """Yields the rounds of speculative decoding (Leviathan et al. 2211.17192, Algorithm 1).

    >>> for round in decode(target, drafter, verifier, tokens, gamma=4):
    ...     print(round.text, end="", flush=True)

    target, drafter, verifier, sampling, policy, constraint: instances, or names as in the Hydra
        groups, or mappings with settings, such as {"drafter": "bigram", "order": 3}.
    tokens: the ids of the prompt, or its text.
    gamma: the depth of a draft; vLLM's num_speculative_tokens.
    budget: the most nodes of a draft, if it is a tree. Defaults to `gamma`.
    sampling: Defaults to `Sampling()`, which is greedy.
    policy: decides how long each draft is, up to gamma. Defaults to `Fixed()`.
    chance: the source of all random decisions, in place of the seed and the number.
    number: the index of the text among those of one seed, which are independent of each other.
        `decode_together` counts its texts from 0. A text that goes on in a second call takes a
        number of its own: under the first one it would meet the same chance again.
    max_new_tokens: the most tokens to write after the prompt.
    stop: strings that end the text, or one. They may hold special tokens, as in transformers.
    stop_token_ids: ids that end the text, besides those of the target.
    constraint: changes the target's logits, and may end the text.
    draft_timeout: the most seconds that a draft may take, in case the drafter hangs. Defaults to no
        limit. It needs the main thread of a Unix process.
    logprobs: keep the target's log-probability of each token, and this many of the likeliest tokens
        in its place; see `Round.logprobs`. Defaults to none.
    lossy: "refuse" allows no rule, target or policy that changes the distribution of the text.

    Raises:
        ConfigError: at the call, before any model runs: a setting is invalid, or the parts don't
            fit together.
        DrafterError, TargetError: while iterating; the rounds already yielded stay valid.
    """
    run = Run(
        target=make("target", target),
        verifier=make("verifier", verifier),
        sampling=Sampling() if sampling is None else make("sampling", sampling),
        gamma=gamma,
        budget=budget,
        max_new_tokens=max_new_tokens,
        stop=stop,
        stop_token_ids=stop_token_ids,
        draft_timeout=draft_timeout,
        logprobs=logprobs,
        lossy=lossy,
    )
    writer: Drafter = make("drafter", drafter)
    prompt = encoded(run.target, tokens)
    prepare(run.target, writer, run.verifier)
    with calling("target", run.target):
        needs = writer.needs | run.verifier.needs
        session = returned(run.target.open(prompt, needs), Session)
    text = begin_text(
        run,
        prompt,
        session,
        writer,
        policy=None if policy is None else make("policy", policy),
        chance=chance,
        number=number,
        constraint=None if constraint is None else make("constraint", constraint),
    )
    return _rounds(run, text)


def _rounds(run: Run, text: ActiveText) -> Iterator[Round]:
    with calling("policy", text.policy):
        text.policy.reset()
    stop = None
    while stop is None:
        with computing(run.target):
            (proposal,) = propose(run, [text], text.drafter)
            lap = Lap()
            logits, verdict = score(run, text, proposal)
            round = finish(run, text, proposal, logits, lap.end(), decided=verdict)
        stop = round.stop
        if stop is not None:
            remember([text])
        yield round


@checked()
def decode_together(  # noqa: PLR0913  the options of a run, by name
    target: Target | Named,
    drafter: Drafter | Named,
    verifier: Verifier | Named,
    prompts: Sequence[str | Sequence[int]],
    *,
    batch_size: Count = 64,
    gamma: Count = 5,
    budget: Count | None = None,
    sampling: Sampling | Named | None = None,
    policies: Sequence[Policy | Named] | None = None,
    chances: Sequence[Chance] | None = None,
    max_new_tokens: Count = 128,
    stop: str | Sequence[str] = (),
    stop_token_ids: Collection[int] = (),
    constraints: Sequence[Constraint | Named] | None = None,
    draft_timeout: Seconds | None = None,
    logprobs: Annotated[int, AtLeast(0)] | None = None,
    lossy: Lossy = "allow",
) -> Iterator[tuple[int, Round]]:
    """Yields the rounds of several texts, each with the index of its prompt.

    All drafts of a round are scored in one pass, whose time is divided in proportion to the tokens.
    Each text ends on its own, and the next prompt takes its place. It is the text that `decode`
    writes for the same prompt, with the prompt's index as `number`: the other texts change its
    logits by rounding alone. So above temperature 0, equal prompts get different texts.

    drafter: opened once for each text; see `Drafter.open`.
    policies, chances, constraints: one for each prompt, since each holds the state of one text. The
        defaults are those of `decode`.
    batch_size: the most texts in progress at once. Defaults to 64.

    Raises:
        ConfigError, DrafterError, TargetError: as `decode` does.
    """
    run = Run(
        target=make("target", target),
        verifier=make("verifier", verifier),
        sampling=Sampling() if sampling is None else make("sampling", sampling),
        gamma=gamma,
        budget=budget,
        max_new_tokens=max_new_tokens,
        stop=stop,
        stop_token_ids=stop_token_ids,
        draft_timeout=draft_timeout,
        logprobs=logprobs,
        lossy=lossy,
    )
    for name, parts in (("policies", policies), ("chances", chances), ("constraints", constraints)):
        fits = parts is None or len(parts) == len(prompts)
        require(fits, name, len(parts or ()), f"one for each prompt, {len(prompts)} of them")
    writer: Drafter = make("drafter", drafter)
    ids = [encoded(run.target, prompt) for prompt in prompts]
    prepare(run.target, writer, run.verifier)

    def begin(index: int, session: Session) -> ActiveText:
        return begin_text(
            run,
            ids[index],
            session,
            writer,
            policy=make("policy", policies[index]) if policies else None,
            chance=chances[index] if chances else None,
            number=index,
            constraint=make("constraint", constraints[index]) if constraints else None,
        )

    needs = writer.needs | run.verifier.needs
    return Batch(run, ids, needs, batch_size, begin).rounds()


def prepare(target: Target, drafter: Drafter, verifier: Verifier) -> None:
    """Checks that drafter, rule and target fit each other, and binds both to the target.

    Raises `ConfigError` if the drafter is of another class, one of them needs what the target does
    not offer or refuses the target, or the drafter may branch where the rule or the target takes
    only chains.
    """
    require_kind("drafter", drafter, Drafter)
    name = type(drafter).__name__
    with calling("target", target):
        offers = frozenset(target.offers)
    with calling("drafter", drafter):
        branches = drafter.trees or drafter.asks
    for role, part in (("drafter", drafter), ("verifier", verifier)):
        with calling(role, part):
            missing = sorted(part.needs - offers)
        if missing:
            offered = ", ".join(sorted(name for name in offers if "." not in name)) or "nothing"
            line = f"{role} {type(part).__name__} needs {', '.join(missing)}"
            raise ConfigError(f"{line}: the target offers {offered}")
    check_takes(verifier, drafter)
    if branches and not target.trees:
        raise ConfigError(f"drafter {name} writes trees: {target.no_trees}")
    for role, part in (("drafter", drafter), ("verifier", verifier)):
        with calling(role, part):
            part.bind(target)
