"""Checks of a target: each takes a callable that makes one, and raises AssertionError.

A check returns why the target does not offer what is checked; None if it does.
"""

from collections.abc import Callable

from outrider.contract.draft import Draft
from outrider.contract.target import Target
from outrider.contract.verifier import Verdict
from outrider.testing.target_claims import (
    check_offers_work,
    check_scores_are_distributions,
    check_scores_are_the_same_each_time,
    check_what_is_not_offered_is_refused,
)
from outrider.testing.target_texts import (
    NEW,
    accept,
    assert_same,
    next_tokens,
    others,
    plain_rows,
    prompts_for,
    refusal,
    tree,
)

Make = Callable[[], Target]


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
        return refusal(target)
    prompt, tokens = prompts_for(target)[0], next_tokens(target)
    session, text = target.open(prompt), list[int]()
    draft = tree(tokens)
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


CHECKS = (
    check_scores_are_distributions,
    check_scores_are_the_same_each_time,
    check_a_chain_equals_token_by_token,
    check_a_rollback_forgets_what_was_rejected,
    check_rounds_follow_each_other,
    check_a_tree_equals_its_paths,
    check_sessions_are_independent,
    check_offers_work,
    check_what_is_not_offered_is_refused,
)
