"""Checks of the texts that a target scores or writes together: those of `outrider.testing`."""

from collections.abc import Callable, Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance, SampledChance
from outrider.contract.constraint import constrained
from outrider.contract.draft import Draft, Verdict
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.decoding.batches.batch_target import BatchTarget, Turn, batched, without_end
from outrider.targets.readings import Text, read
from outrider.testing.target_texts import (
    WRITTEN,
    assert_near,
    assert_right,
    next_tokens,
    plain_rows,
    prompts_for,
    token_by_token,
    tolerance,
    tree,
)

Make = Callable[[], Target]


def check_a_batch_equals_its_texts(make: Make) -> None:
    """Texts that are scored together are scored as each is alone: with drafts of any length, after
    rejections, and when others have ended, which are left out from then on.
    """
    target = make()
    tokens, serving = next_tokens(target), batched(target)
    texts = _opened(serving, prompts_for(target))
    branching = tree(tokens) if target.trees else Draft.chain(tokens[2:4])
    drafts = [
        {0: Draft.chain(tokens[:3]), 1: Draft.chain(tokens[1:2]), 2: Draft()},
        {0: branching, 1: Draft(), 2: Draft.chain(tokens[:2])},
        {0: Draft.chain(tokens[4:5]), 2: Draft.chain(tokens[:4])},
        {2: branching},
    ]
    rounds = [
        {
            index: (draft, Verdict((0,) if len(draft) > 1 else (), token))
            for index, draft in of_round.items()
        }
        for of_round, token in zip(drafts, tokens, strict=False)
    ]
    assert_right(read(texts, rounds, plain_rows(target), serving.score_together))


def check_texts_that_join_equal_those_alone(make: Make) -> str | None:
    """A text that joins others, in place of one that has ended, is scored as it is alone, and so
    are the others; its prompt may be read ahead in parts. A target that lets no text join says so.
    """
    target = make()
    prompts, tokens = prompts_for(target), next_tokens(target)
    serving, plain = batched(target), plain_rows(target)
    texts = _opened(serving, prompts[1:])
    draft = Draft.chain(tokens[:2])
    for token, parts in zip(tokens, [(), (5, 1, 99), (), (99,), ()], strict=False):
        round = dict.fromkeys(range(len(texts)), (draft, Verdict((0,), token)))
        if parts:  # the first of the texts has ended, and another takes its place
            texts, round = texts[1:], dict.fromkeys(range(len(texts) - 1), round[0])
            session = serving.join([text.session for text in texts], prompts[0])
            if session is None:
                return "texts wait until the others have ended"
            # It is read while the others go on.
            ahead = [serving.read_ahead(session, part) for part in parts]
            assert all(0 <= count <= part for count, part in zip(ahead, parts, strict=True)), (
                f"read_ahead read {ahead} tokens: expected at most {list(parts)}"
            )
            assert_right(read(texts, [round], plain, serving.score_together))
            texts.append(Text(session, prompts[0]))
            round = dict.fromkeys(range(len(texts)), round[0])
        assert_right(read(texts, [round], plain, serving.score_together))
    return None


def _opened(target: BatchTarget, prompts: Sequence[Sequence[int]]) -> list[Text]:
    sessions = target.open_together(prompts)
    assert len(sessions) == len(prompts), f"{len(sessions)} sessions for {len(prompts)} prompts"
    return [Text(session, prompt) for session, prompt in zip(sessions, prompts, strict=True)]


def check_write_equals_plain_decoding(make: Make) -> None:
    """`write` gives each prompt the text of plain decoding: the likeliest token at temperature 0,
    and otherwise tokens drawn from the distributions that sessions give.
    """
    target = make()
    prompts = prompts_for(target)
    for sampling in (Sampling(), Sampling(temperature=0.8)):
        chances = [_WatchedChance(seed) for seed in range(len(prompts))]
        texts = batched(target).write(prompts, sampling, chances, WRITTEN)
        assert len(texts) == len(prompts), f"{len(texts)} texts for {len(prompts)} prompts"
        for prompt, text, chance in zip(prompts, texts, chances, strict=True):
            case = f"a prompt of {len(prompt)} tokens, {sampling}"
            ends = [position for position, token in enumerate(text) if token in target.eos]
            assert ends == [len(text) - 1] or (not ends and len(text) == WRITTEN), (
                f"{len(text)} tokens: expected {WRITTEN}, or the first of eos at the end ({case})"
            )
            rows = _written_rows(target, prompt, text[:-1])
            if sampling.greedy:
                _assert_likeliest(rows, text, case)
                continue
            assert len(chance.drawn) == len(text), (
                f"{len(chance.drawn)} draws for {len(text)} tokens ({case})"
            )
            wanted = sampling.probs(rows).double().cpu()
            assert_near(torch.stack(chance.drawn), wanted, rows.dtype, case)


def check_turns_go_on_where_the_last_ended(make: Make) -> None:
    """`write_turns` gives each turn the text that follows everything before it."""
    target = make()
    chance, after = SampledChance.seeded(0), next_tokens(target)[:2]
    texts = [
        [Turn(prompt, Sampling(), chance, 3), Turn(after, Sampling(), chance, 2)]
        for prompt in prompts_for(target)
    ]
    written = list(batched(target).write_turns(texts))
    assert len(written) == len(texts), f"{len(written)} texts for {len(texts)}"
    for turns, parts in zip(texts, written, strict=True):
        assert len(parts) == len(turns), f"{len(parts)} turns of {len(turns)} were written"
        head: list[int] = []
        for number, (turn, text) in enumerate(zip(turns, parts, strict=True)):
            head = [*without_end(head, turn, target.eos), *turn.ids]
            case = f"turn {number} after {len(head)} tokens"
            assert 0 < len(text) <= turn.max_new_tokens, f"{len(text)} tokens ({case})"
            _assert_likeliest(_written_rows(target, head, text[:-1]), text, case)
            head += text


def _assert_likeliest(rows: Tensor, text: Sequence[int], case: str) -> None:
    """Raises AssertionError if a token is less likely than another by more than rounding."""
    probs = rows.double().softmax(-1).cpu()
    chosen = probs[torch.arange(len(text)), torch.tensor(text)]
    gap, worst = (probs.amax(-1) - chosen).max(0)
    assert gap <= tolerance(rows.dtype), (
        f"token {worst + 1} is {gap:.1e} less likely than the likeliest ({case})"
    )


CHECKS = (
    check_a_batch_equals_its_texts,
    check_texts_that_join_equal_those_alone,
    check_write_equals_plain_decoding,
    check_turns_go_on_where_the_last_ended,
)


def _written_rows(
    target: Target, prompt: Sequence[int], tokens: Sequence[int]
) -> Float[Tensor, "tokens+1 vocab"]:
    """Returns the logits that the target's own texts are drawn from."""
    rows, (ids, source) = token_by_token(target, prompt, tokens), target.begin(prompt)
    own = target.constraint(ids, source)
    return rows if own is None else constrained(own, ids, Draft.chain(tokens), rows)


@final
class _WatchedChance(Chance):
    """Draws as a seeded chance does, and keeps every distribution that it was asked to draw from.

    drawn: these distributions, normalised.
    """

    def __init__(self, seed: int) -> None:
        self._chance = SampledChance.seeded(seed)
        self.drawn: list[Tensor] = []

    def coins(self, probs: Float[Tensor, "n"]) -> list[bool]:
        return self._chance.coins(probs)

    def categorical(self, probs: Float[Tensor, "vocab"]) -> int:
        exact = probs.detach().double().cpu()
        self.drawn.append(exact / exact.sum())
        return self._chance.categorical(probs)
