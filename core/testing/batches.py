"""Checks of the texts that a target scores or writes together: those of `outrider.testing`."""

from collections.abc import Callable, Mapping, Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import TargetError
from outrider.contract.chance import Chance, SampledChance
from outrider.contract.constraint import constrained
from outrider.contract.draft import Draft
from outrider.contract.sampling import Sampling
from outrider.contract.target import Session, Target
from outrider.contract.verifier import Verdict
from outrider.decoding.batches.batch_target import BatchTarget
from outrider.decoding.batches.batched import batched
from outrider.decoding.batches.turns import Turn, without_end
from outrider.testing.target_texts import (
    WRITTEN,
    accept,
    assert_near,
    assert_same,
    next_tokens,
    plain_rows,
    prompts_for,
    refusal,
    tolerance,
    tree,
)

Make = Callable[[], Target]


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
    branching = tree(tokens) if target.trees else Draft.chain(tokens[2:4])
    rounds: list[tuple[list[int], list[Draft]]] = [
        ([0, 1, 2], [Draft.chain(tokens[:3]), Draft.chain(tokens[1:2]), Draft()]),
        ([0, 1, 2], [branching, Draft(), Draft.chain(tokens[:2])]),
        ([0, 2], [Draft.chain(tokens[4:5]), Draft.chain(tokens[:4])]),
        ([2], [branching]),
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
        return refusal(target)
    prompt, (one, two, three, *_) = prompts_for(target)[0], next_tokens(target)
    try:
        score = batched(target).path_scorer(prompt)
    except TargetError as error:
        return str(error)
    for paths in ([()], [(one,), (two,)], [(two, one), (one, three), (two, three)], [(one, two)]):
        wanted = [plain_rows(target, prompt, path)[-1] for path in paths]
        assert_same(score(paths), torch.stack(wanted), f"the paths {paths}")
    return None


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
    prompts, sampling = prompts_for(target), Sampling()
    chances = [_WatchedChance(seed) for seed in range(len(prompts))]
    after = next_tokens(target)[:2]
    texts = [
        [Turn(prompt, sampling, chance, 3), Turn(after, sampling, chance, 2)]
        for prompt, chance in zip(prompts, chances, strict=True)
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
    gap = float((probs.amax(-1) - chosen).max())
    worst = int((probs.amax(-1) - chosen).argmax())
    assert gap <= tolerance(rows.dtype), (
        f"token {worst + 1} is {gap:.1e} less likely than the likeliest ({case})"
    )


CHECKS = (
    check_a_batch_equals_its_texts,
    check_texts_that_join_equal_those_alone,
    check_paths_are_scored_as_texts,
    check_write_equals_plain_decoding,
    check_turns_go_on_where_the_last_ended,
)


def _written_rows(
    target: Target, prompt: Sequence[int], tokens: Sequence[int]
) -> Float[Tensor, "tokens+1 vocab"]:
    """Returns the logits that the target's own texts are drawn from, as `plain_rows` does."""
    rows, (ids, source) = plain_rows(target, prompt, tokens), target.begin(prompt)
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
