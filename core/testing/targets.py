"""Checks of a target: each takes a callable that makes one, and raises AssertionError.

A check returns why the target does not offer what is checked; None if it does.
"""

from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor

from outrider.base.errors import ConfigError
from outrider.contract.context import Context
from outrider.contract.draft import Draft, Verdict
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Session, Target
from outrider.decoding.decode import decode
from outrider.targets.readings import Reading, Text, chain_rounds, read
from outrider.testing.generators import played_twice
from outrider.testing.target_texts import (
    NEW,
    assert_resumed,
    assert_right,
    next_tokens,
    others,
    plain_rows,
    prompts_for,
    token_by_token,
    tolerance,
    tree,
)
from outrider.testing.tiny_targets import SAMPLED
from outrider.verifiers.token import Token

Make = Callable[[], Target]

CARRIED = {"model", "tokenizer", "source"}
"""What a target has itself; all else that it offers are features of a text."""


def check_scores_are_distributions(make: Make) -> None:
    """Scores have a row for the context and one for each node, and each is a distribution."""
    target = make()
    prompt, tokens = prompts_for(target)[0], next_tokens(target)
    for count in (0, 1, 4):
        scores = target.open(prompt).score(Draft.chain(tokens[:count]))
        wanted = (count + 1, target.vocab_size)
        assert tuple(scores.shape) == wanted, (
            f"scores of shape {tuple(scores.shape)}: expected {wanted} for {count} tokens"
        )
        assert scores.is_floating_point(), f"scores are {scores.dtype}: expected floats"
        assert not scores.isnan().any(), f"NaN in the scores of {count} tokens"
        assert scores.amax(-1).isfinite().all(), "a row has infinity, or rules out every token"
        total = SAMPLED.probs(scores).double().sum(-1)
        assert float((total - 1).abs().max()) <= tolerance(scores.dtype), "a row sums not to one"


def check_scores_are_the_same_each_time(make: Make) -> None:
    """The same text gets the same scores; global generators are neither read nor moved."""
    target = make()
    prompt, draft = prompts_for(target)[0], Draft.chain(next_tokens(target)[:4])
    first, second = played_twice(lambda: target.open(prompt).score(draft))
    assert_right([Reading("the same draft, scored again", second, first)])
    assert target.fingerprint() == target.fingerprint(), "the fingerprint changes"


def check_a_chain_equals_token_by_token(make: Make) -> None:
    """A chain is scored in one pass as its tokens are one by one, wherever the prompt ends."""
    target = make()
    tokens = next_tokens(target)
    for prompt in prompts_for(target)[:2]:
        rows = token_by_token(target, prompt, tokens)
        begun = [4] if target.begin(prompt)[1] is None else []  # else the text is not the prompt's
        for known in (0, *begun):
            start = [*prompt, *tokens[:known]]
            rounds = chain_rounds([*tokens[known:], tokens[0]], (), [(NEW - known, NEW - known)])
            plain = lambda _, after: rows[known + len(after)]  # noqa: B023  at once
            assert_right(read([Text(target.open(start), start)], rounds, plain))


def check_a_rollback_forgets_what_was_rejected(make: Make) -> None:
    """After a rejection the text goes on as if the rejected tokens had never been scored."""
    target = make()
    for accepted in (0, 1, 3):
        rest = NEW - accepted - 1
        _assert_rounds_are_right(target, [(accepted + 4, accepted), (rest, rest - 1)])


def check_rounds_follow_each_other(make: Make) -> None:
    """Round after round, each score is that of the text so far: after a full acceptance, after an
    empty draft, and after rejections.
    """
    _assert_rounds_are_right(make(), [(2, 2), (0, 0), (3, 0), (2, 1), (1, 0)])


def check_a_tree_equals_its_paths(make: Make) -> str | None:
    """Each node of a tree is scored as the end of its own path, also after a tree of which a path
    was accepted; a target without trees says why.
    """
    target = make()
    if not target.trees:
        reason = target.no_trees
        assert reason.strip() and "\n" not in reason, f"no_trees={reason!r}: expected a line"
        return reason
    prompt, tokens = prompts_for(target)[0], next_tokens(target)
    rounds = [{0: (tree(tokens), Verdict(path, tokens[-1]))} for path in ((1, 3), ())]
    assert_right(read([Text(target.open(prompt), prompt)], rounds, plain_rows(target)))
    return None


def check_a_pass_goes_on_behind_layers(make: Make) -> None:
    """Where a session goes on behind the first layer, a draft is scored from what that gives for it
    as by all layers, and so is what comes next.
    """
    target, needs = make(), frozenset({"cache", "hidden_states.1"})
    prompt, draft = prompts_for(target)[0], Draft.chain(next_tokens(target)[:3])
    if needs <= target.offers and type(target.open(prompt)).resume is not Session.resume:
        session = target.open([*prompt, *draft.tokens], needs)
        session.score(Draft())
        features, count = session.features(), len(draft) + 1
        names = ("keys.0", "values.0", "hidden_states.1")
        assert_resumed(target, prompt, draft, {name: features[name][-count:] for name in names})


def check_sessions_are_independent(make: Make) -> None:
    """Two texts that take turns are scored as each is alone."""
    target = make()
    tokens = next_tokens(target)
    texts = [Text(target.open(prompt), prompt) for prompt in prompts_for(target)[:2]]
    rounds = chain_rounds(tokens, others(target, tokens), [(2, 2)] * 3)
    both = [{0: round[0], 1: round[0]} for round in rounds]
    assert_right(read(texts, both, plain_rows(target)))


def check_offers_work(make: Make) -> None:
    """Whatever is offered is there; features are those of the text and the draft that was scored,
    and after the verdict those of the accepted text alone.
    """
    target = make()
    prompt, tokens = prompts_for(target)[0], next_tokens(target)
    there = {
        "model": target.model is not None,
        "tokenizer": target.tokenizer is not None,
        "source": target.begin(prompt)[1] is not None,
    }
    for name in target.offers & CARRIED:
        assert there[name], f"offers {name}, and has none"
    names = target.offers - CARRIED
    straight, crooked = target.open(prompt, names), target.open(prompt, names)
    straight.score(Draft.chain(tokens[:2]))
    crooked.score(Draft.chain([*tokens[:2], *others(target, tokens[2:5])]))
    longer = crooked.features()
    for name, tensor in straight.features().items():  # while the draft waits for its verdict
        assert len(longer[name]) == len(tensor) + 3, f"features {name} lack a row for each node"
        _assert_same_features(longer[name][:-3], tensor, name)
    for session in (straight, crooked):
        session.commit(Verdict((0, 1), tokens[2]))
    features, wanted = crooked.features(), straight.features()
    for name in names:
        shown = "keys.0" if name == "cache" else name
        assert shown in features, f"offers {name}, and sessions have no features {shown}"
    for name, tensor in wanted.items():
        _assert_same_features(features[name], tensor, name)


def check_what_is_not_offered_is_refused(make: Make) -> None:
    """What a target does not offer is refused with a `ConfigError`: needs, ids, texts that are too
    long, and text without a tokenizer. Sessions show no features that they were not opened with.
    """
    target = make()
    prompt = prompts_for(target)[0]
    session = target.open(prompt)
    session.score(Draft())
    session.commit(Verdict((), prompt[0]))
    assert not session.features(), f"shows {', '.join(session.features())}, opened without needs"
    _assert_refused(lambda: list(decode(target, _Needy(), Token(), prompt)), "a need not offered")
    for ids in ([], [target.vocab_size], [-1]):
        _assert_refused(partial(target.encode, ids), f"the prompt {ids}")
    if target.max_length is not None:
        ids = prompt[:1] * (target.max_length + 1)
        _assert_refused(partial(target.encode, ids), f"a prompt of {len(ids)} tokens")
    if target.tokenizer is None:
        _assert_refused(partial(target.encode, "text"), "text, without a tokenizer")


def _assert_rounds_are_right(target: Target, plan: Sequence[tuple[int, int]]) -> None:
    """Raises AssertionError unless rounds of chains are scored as each path is alone.

    plan: as for `chain_rounds`.
    """
    prompt, tokens = prompts_for(target)[0], next_tokens(target)
    rounds = chain_rounds(tokens, others(target, tokens), plan)
    assert_right(read([Text(target.open(prompt), prompt)], rounds, plain_rows(target)))


class _Needy(Drafter):
    """Needs what no target has."""

    needs = frozenset({"outrider.testing: not offered"})

    def propose(self, context: Context, pen: Pen) -> None:
        raise AssertionError("asked to draft without what it needs")


def _assert_same_features(features: Tensor, wanted: Tensor, name: str) -> None:
    assert features.shape == wanted.shape, (
        f"features {name} of shape {tuple(features.shape)} after a rejection: expected"
        f" {tuple(wanted.shape)}, as without it"
    )
    gap = (features - wanted).double().square().mean().sqrt()
    off = float(gap / wanted.double().square().mean().sqrt().clamp(min=1e-9))
    assert off <= tolerance(wanted.dtype), f"features {name} are off by {off:.1e} after a rejection"


def _assert_refused(ask: Callable[[], object], what: str) -> None:
    try:
        ask()
    except ConfigError:
        return
    except Exception as error:
        name = type(error).__name__
        raise AssertionError(f"{what}: expected a ConfigError, not {name}: {error}") from error
    raise AssertionError(f"takes {what}: expected a ConfigError")


CHECKS = (
    check_scores_are_distributions,
    check_scores_are_the_same_each_time,
    check_a_chain_equals_token_by_token,
    check_a_rollback_forgets_what_was_rejected,
    check_rounds_follow_each_other,
    check_a_tree_equals_its_paths,
    check_a_pass_goes_on_behind_layers,
    check_sessions_are_independent,
    check_offers_work,
    check_what_is_not_offered_is_refused,
)
