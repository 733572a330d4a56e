"""Checks of a target: each takes a callable that makes one, and raises AssertionError.

A check returns why the target does not offer what is checked; None if it does.
"""

from collections.abc import Callable, Mapping, Sequence

import torch

from outrider.base.errors import TargetError
from outrider.contract.draft import ROOT, Draft
from outrider.contract.target import Session, Target
from outrider.contract.verifier import Verdict
from outrider.decoding.batch_target import BatchTarget, batched
from outrider.testing.target_claims import (
    check_offers_work,
    check_scores_are_distributions,
    check_scores_are_the_same_each_time,
    check_turns_go_on_where_the_last_ended,
    check_what_is_not_offered_is_refused,
    check_write_equals_plain_decoding,
)
from outrider.testing.target_texts import (
    NEW,
    accept,
    assert_same,
    next_tokens,
    others,
    plain_rows,
    prompts_for,
)

Make = Callable[[], Target]

TREE = (ROOT, ROOT, 0, 1, 1, 3)
"""The parents of a tree's nodes. The nodes 1, 3 and 5 are a path, and not the first of the tree."""


def check_a_chain_equals_token_by_token(make: Make) -> None:
    """A chain is scored in one pass as its tokens are one by one, wherever the prompt ends."""
    target = make()
    tokens = next_tokens(target)
    for prompt in prompts_for(target)[:2]:
        wanted = plain_rows(target, prompt, tokens)
        case = f"a chain of {NEW} tokens after {len(prompt)}"
        assert_same(target.open(prompt).score(Draft.chain(tokens)), wanted, case)
        if target.begin(prompt)[1] is not None:  # the prompt is an encoder's, not the text's
            continue
        whole = target.open([*prompt, *tokens[:4]]).score(Draft.chain(tokens[4:]))
        assert_same(whole, wanted[4:], "four tokens of the text in the prompt")


def check_a_rollback_forgets_what_was_rejected(make: Make) -> None:
    """After a rejection the text goes on as if the rejected tokens had never been scored."""
    target = make()
    prompt, tokens = prompts_for(target)[0], next_tokens(target)
    wanted = plain_rows(target, prompt, tokens)
    for accepted in (0, 1, 3):
        session = target.open(prompt)
        rejected = others(target, tokens[accepted : accepted + 4])
        session.score(Draft.chain([*tokens[:accepted], *rejected]))
        accept(session, accepted, tokens[accepted])
        rows = session.score(Draft.chain(tokens[accepted + 1 :]))
        case = f"{accepted} tokens accepted, {len(rejected)} rejected"
        assert_same(rows, wanted[accepted + 1 :], case)


def check_rounds_follow_each_other(make: Make) -> None:
    """Round after round, each score is that of the text so far: after a full acceptance, after an
    empty draft, and after rejections.
    """
    target = make()
    prompt, tokens = prompts_for(target)[0], next_tokens(target)
    wanted = plain_rows(target, prompt, tokens)
    session, known = target.open(prompt), 0
    for number, (drafted, accepted) in enumerate([(2, 2), (0, 0), (3, 0), (2, 1), (1, 0)]):
        right = tokens[known : known + accepted]
        wrong = others(target, tokens[known + accepted : known + drafted])
        rows = session.score(Draft.chain([*right, *wrong]))
        case = f"round {number + 1}, {drafted} tokens drafted"
        assert_same(rows[: accepted + 1], wanted[known : known + accepted + 1], case)
        known += accepted + 1
        accept(session, accepted, tokens[known - 1])


def check_a_tree_equals_its_paths(make: Make) -> str | None:
    """Each node of a tree is scored as the end of its own path, also after a tree of which a path
    was accepted; a target without trees says why.
    """
    target = make()
    if not target.trees:
        return _refusal(target)
    prompt, tokens = prompts_for(target)[0], next_tokens(target)
    session, text = target.open(prompt), list[int]()
    draft = _tree(tokens)
    for number, path in enumerate([(1, 3), ()]):
        rows = session.score(draft)
        for leaf in (2, 4, 5):
            nodes = draft.path(leaf)
            end = [draft.tokens[node] for node in nodes]
            wanted = plain_rows(target, prompt, [*text, *end])[len(text) :]
            read = rows[[0, *(node + 1 for node in nodes)]]
            assert_same(read, wanted, f"tree {number + 1}, the path to node {leaf}")
        session.commit(Verdict(path, tokens[-1]))
        text += [*(draft.tokens[node] for node in path), tokens[-1]]
    return None


def check_sessions_are_independent(make: Make) -> None:
    """Two texts that take turns are scored as each is alone."""
    target = make()
    prompts, tokens = prompts_for(target)[:2], next_tokens(target)
    sessions = [target.open(prompt) for prompt in prompts]
    wanted = [plain_rows(target, prompt, tokens) for prompt in prompts]
    for known in (0, 3, 6):
        for number, session in enumerate(sessions):
            rows = session.score(Draft.chain(tokens[known : known + 2]))
            case = f"text {number + 1} of two that take turns"
            assert_same(rows, wanted[number][known : known + 3], case)
        for session in sessions:
            accept(session, 2, tokens[known + 2])


def check_a_batch_equals_its_texts(make: Make) -> None:
    """Texts that are scored together are scored as each is alone: with drafts of any length, after
    rejections, and when others have ended, which are left out from then on.
    """
    target = make()
    prompts, tokens = prompts_for(target), next_tokens(target)
    serving = batched(target)
    together = serving.open_together(prompts)
    alone = [target.open(prompt) for prompt in prompts]
    assert len(together) == len(prompts), f"{len(together)} sessions for {len(prompts)} prompts"
    tree = _tree(tokens) if target.trees else Draft.chain(tokens[2:4])
    rounds: list[tuple[list[int], list[Draft]]] = [
        ([0, 1, 2], [Draft.chain(tokens[:3]), Draft.chain(tokens[1:2]), Draft()]),
        ([0, 1, 2], [tree, Draft(), Draft.chain(tokens[:2])]),
        ([0, 2], [Draft.chain(tokens[4:5]), Draft.chain(tokens[:4])]),
        ([2], [tree]),
    ]
    for turn, (numbers, drafts) in enumerate(rounds):
        scores = serving.score_together([together[number] for number in numbers], drafts)
        for rows, number, draft in zip(scores, numbers, drafts, strict=True):
            case = f"text {number + 1} of a batch, round {turn + 1}"
            assert_same(rows, alone[number].score(draft), case)
            verdict = Verdict((0,) if len(draft) > 1 else (), tokens[turn])
            together[number].commit(verdict)
            alone[number].commit(verdict)


def check_texts_that_join_equal_those_alone(make: Make) -> str | None:
    """A text that joins others, in place of one that has ended, is scored as it is alone, and so
    are the others; its prompt may be read ahead in parts. A target that lets no text join says so.
    """
    target = make()
    prompts, tokens = prompts_for(target), next_tokens(target)
    serving = batched(target)
    together = dict(enumerate(serving.open_together(prompts[1:])))
    alone = dict(enumerate(target.open(prompt) for prompt in prompts[1:]))
    for turn, parts in enumerate([(), (5, 1, 99), (), (99,), ()]):
        if parts:  # the first of the texts has ended, and another takes its place
            ended = next(iter(together))
            del together[ended], alone[ended]
            session = serving.join(list(together.values()), prompts[0])
            if session is None:
                return "texts wait until the others have ended"
            # It is read while the others go on.
            read = [serving.read_ahead(session, part) for part in parts]
            assert all(0 <= count <= part for count, part in zip(read, parts, strict=True)), (
                f"read_ahead read {read} tokens: expected at most {list(parts)}"
            )
            _assert_round(serving, together, alone, tokens[turn], f"as one joins, {turn}")
            together[turn + 2], alone[turn + 2] = session, target.open(prompts[0])
        _assert_round(serving, together, alone, tokens[turn], f"after one joined, {turn}")
    return None


def _assert_round(
    target: BatchTarget,
    together: Mapping[int, Session],
    alone: Mapping[int, Session],
    token: int,
    case: str,
) -> None:
    """Scores texts together and alone, and commits the draft's first token and another."""
    draft = Draft.chain(next_tokens(target)[:2])
    scores = target.score_together(list(together.values()), [draft] * len(together))
    for number, rows in zip(together, scores, strict=True):
        assert_same(rows, alone[number].score(draft), f"text {number + 1}, {case}")
        accept(together[number], 1, token)
        accept(alone[number], 1, token)


def check_paths_are_scored_as_texts(make: Make) -> str | None:
    """The path scorer, which beams use, gives each continuation the scores of its own text; a
    target without one raises `TargetError`.
    """
    target = make()
    if not target.trees:
        return _refusal(target)
    prompt, (one, two, three, *_) = prompts_for(target)[0], next_tokens(target)
    try:
        score = batched(target).path_scorer(prompt)
    except TargetError as error:
        return str(error)
    for paths in ([()], [(one,), (two,)], [(two, one), (one, three), (two, three)], [(one, two)]):
        wanted = [plain_rows(target, prompt, path)[-1] for path in paths]
        assert_same(score(paths), torch.stack(wanted), f"the paths {paths}")
    return None


def _refusal(target: Target) -> str:
    """Returns why a target has no trees; raises AssertionError unless it is said in a line."""
    reason = target.no_trees
    assert reason.strip() and "\n" not in reason, f"no_trees={reason!r}: expected a line"
    return reason


def _tree(tokens: Sequence[int]) -> Draft:
    return Draft(tuple(tokens[: len(TREE)]), TREE, (None,) * len(TREE))


CHECKS = (
    check_scores_are_distributions,
    check_scores_are_the_same_each_time,
    check_a_chain_equals_token_by_token,
    check_a_rollback_forgets_what_was_rejected,
    check_rounds_follow_each_other,
    check_a_tree_equals_its_paths,
    check_sessions_are_independent,
    check_a_batch_equals_its_texts,
    check_texts_that_join_equal_those_alone,
    check_paths_are_scored_as_texts,
    check_write_equals_plain_decoding,
    check_turns_go_on_where_the_last_ended,
    check_offers_work,
    check_what_is_not_offered_is_refused,
)
