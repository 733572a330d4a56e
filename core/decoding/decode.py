"""Decoding: rounds of one text, or of several in step."""

from collections.abc import Iterator, Sequence
from time import perf_counter

from outrider.contract.chance import Chance, SampledChance
from outrider.contract.constraint import Constraint
from outrider.contract.draft import KINDS, Draft
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Fixed, Policy
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session, Target
from outrider.contract.verifier import Verifier
from outrider.decoding.rounds import Round, Steps, steps
from outrider.decoding.text_stream import TextStream
from outrider.errors import ConfigError, is_int, require
from outrider.plugins.registry import installed


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
        raise ConfigError(f"drafter {name} writes trees: {target.no_trees}")
    drafter.bind(target)


def rules_for(kind: str) -> list[str]:
    """Returns the names of the registered rules that take drafts of a kind."""
    entries = installed().of("verifier")
    return [name for name, entry in entries.items() if kind in entry.product.takes]


def check_lengths(gamma: int, budget: int | None, max_new_tokens: int) -> None:
    """Raises `ConfigError` for a length that makes no sense."""
    require(is_int(gamma) and gamma >= 1, "gamma", gamma, "a whole number of at least 1")
    fits = budget is None or (is_int(budget) and budget >= 1)
    require(fits, "budget", budget, "a whole number of at least 1, or none")
    enough = is_int(max_new_tokens) and max_new_tokens >= 1
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
    policy: Policy | None = None,
    chance: Chance | None = None,
    max_new_tokens: int = 128,
    stops: Sequence[str] = (),
    constraint: Constraint | None = None,
) -> Iterator[Round]:
    """Yields the rounds of speculative decoding (Leviathan et al. 2211.17192, Algorithm 1).

    >>> for round in decode(target, drafter, verifier, tokens, gamma=4):
    ...     print(round.text, end="", flush=True)

    tokens: the prompt's ids.
    gamma: the depth of a draft; vLLM's num_speculative_tokens.
    budget: the nodes of a draft, where the drafter writes trees; gamma unless told.
    policy: how long to draft, within gamma; `Fixed` unless told.
    chance: seeded by `sampling.seed` unless told.
    stops: strings that end the text.
    constraint: a further say in its logits and its end.

    Raises:
        ConfigError: at the call, before any model runs, for what can't work.
        DrafterError, TargetError: while iterating; what was yielded stays good.
    """
    check_lengths(gamma, budget, max_new_tokens)
    sampling = Sampling() if sampling is None else sampling
    text = TextStream(target.tokenizer, stops)
    prompt = target.encode(tokens)
    prepare(target, drafter, verifier)
    session = target.open(prompt, drafter.needs)
    work = steps(
        target,
        session,
        drafter,
        verifier,
        prompt,
        gamma,
        gamma if budget is None else budget,
        sampling,
        Fixed() if policy is None else policy,
        SampledChance.seeded(sampling.seed) if chance is None else chance,
        max_new_tokens,
        text,
        constraint,
    )
    return _alone(work, session)


def decode_together(
    target: Target,
    drafters: Sequence[Drafter],
    verifier: Verifier,
    prompts: Sequence[Sequence[int]],
    *,
    gamma: int = 5,
    budget: int | None = None,
    sampling: Sampling | None = None,
    policies: Sequence[Policy] | None = None,
    chances: Sequence[Chance] | None = None,
    max_new_tokens: int = 128,
    stops: Sequence[str] = (),
    constraints: Sequence[Constraint] | None = None,
) -> Iterator[tuple[int, Round]]:
    """Yields the rounds of several texts, each with the number of its prompt, as `decode` does.

    All drafts are scored in one pass. Each text is as long as it comes out, and is the one that
    `decode` would write, whoever its neighbours are: they change its logits by rounding alone.
    A round's seconds are the text's share of what all of them took.

    drafters, policies, chances, constraints: one a prompt; each keeps the state of its own text,
        see `Drafter.fork`.

    Raises:
        ConfigError, DrafterError, TargetError: as `decode` does.
    """
    check_lengths(gamma, budget, max_new_tokens)
    require(len(drafters) == len(prompts), "drafters", len(drafters), "one a prompt")
    sampling = Sampling() if sampling is None else sampling
    encoded = [target.encode(prompt) for prompt in prompts]
    for drafter in drafters:
        prepare(target, drafter, verifier)
    needs = frozenset[str]().union(*(drafter.needs for drafter in drafters))
    sessions = target.open_together(encoded, needs)
    texts = {
        number: steps(
            target,
            session,
            drafters[number],
            verifier,
            encoded[number],
            gamma,
            gamma if budget is None else budget,
            sampling,
            policies[number] if policies else Fixed(),
            chances[number] if chances else SampledChance.seeded(sampling.seed),
            max_new_tokens,
            TextStream(target.tokenizer, stops),
            constraints[number] if constraints else None,
        )
        for number, session in enumerate(sessions)
    }
    return _side_by_side(target, texts, sessions)


def _alone(work: Steps, session: Session) -> Iterator[Round]:
    for each in work:
        assert isinstance(each, Draft)
        began = perf_counter()
        logits = session.score(each)
        round = work.send((logits, perf_counter() - began))
        assert isinstance(round, Round)
        yield round


def _side_by_side(
    target: Target, texts: dict[int, Steps], sessions: Sequence[Session]
) -> Iterator[tuple[int, Round]]:
    while True:
        drafts = {number: next(work, None) for number, work in texts.items()}
        going = {number: each for number, each in drafts.items() if isinstance(each, Draft)}
        if not going:
            return
        began = perf_counter()
        scores = target.score_together([sessions[number] for number in going], [*going.values()])
        share = (perf_counter() - began) / len(going)
        for number, logits in zip(going, scores, strict=True):
            round = texts[number].send((logits, share))
            assert isinstance(round, Round)
            yield number, round
