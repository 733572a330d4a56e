"""Checks of what a target says of itself: its distributions, its own texts, and its offers."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from outrider.base.errors import ConfigError
from outrider.contract.context import Context
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.decoding.batch_target import batched
from outrider.decoding.decode import decode
from outrider.decoding.turns import Turn, without_end
from outrider.testing.generators import global_generators
from outrider.testing.target_texts import (
    PLAIN,
    WRITTEN,
    WatchedChance,
    accept,
    assert_near,
    assert_same,
    next_tokens,
    others,
    prompts_for,
    tolerance,
    written_rows,
)
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
        total = PLAIN.probs(scores).double().sum(-1)
        assert float((total - 1).abs().max()) <= tolerance(scores.dtype), "a row sums not to one"


def check_scores_are_the_same_each_time(make: Make) -> None:
    """The same text gets the same scores; global generators are neither read nor moved."""
    target = make()
    prompt, draft = prompts_for(target)[0], Draft.chain(next_tokens(target)[:4])
    scores = []
    for noise in (1, 2):
        with global_generators(noise):
            scores.append(target.open(prompt).score(draft))
    assert_same(scores[1], scores[0], "the same draft, scored again")
    assert target.fingerprint() == target.fingerprint(), "the fingerprint changes"


def check_write_equals_plain_decoding(make: Make) -> None:
    """`write` gives each prompt the text of plain decoding: the likeliest token at temperature 0,
    and otherwise tokens drawn from the distributions that sessions give.
    """
    target = make()
    prompts = prompts_for(target)
    for sampling in (Sampling(), Sampling(temperature=0.8)):
        chances = [WatchedChance(seed) for seed in range(len(prompts))]
        texts = batched(target).write(prompts, sampling, chances, WRITTEN)
        assert len(texts) == len(prompts), f"{len(texts)} texts for {len(prompts)} prompts"
        for prompt, text, chance in zip(prompts, texts, chances, strict=True):
            case = f"a prompt of {len(prompt)} tokens, {sampling}"
            ends = [position for position, token in enumerate(text) if token in target.eos]
            assert ends == [len(text) - 1] or (not ends and len(text) == WRITTEN), (
                f"{len(text)} tokens: expected {WRITTEN}, or the first of eos at the end ({case})"
            )
            rows = written_rows(target, prompt, text[:-1])
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
    chances = [WatchedChance(seed) for seed in range(len(prompts))]
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
            _assert_likeliest(written_rows(target, head, text[:-1]), text, case)
            head += text


def check_offers_work(make: Make) -> None:
    """Whatever is offered is there, and features are those of the accepted text alone."""
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
    for session in (straight, crooked):
        accept(session, 2, tokens[2])
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
    accept(session, 0, prompt[0])
    assert not session.features(), f"shows {', '.join(session.features())}, opened without needs"
    _assert_refused(lambda: list(decode(target, _Needy(), Token(), prompt)), "a need not offered")
    for ids in ([], [target.vocab_size], [-1]):
        _assert_refused(partial(target.encode, ids), f"the prompt {ids}")
    if target.max_length is not None:
        ids = prompt[:1] * (target.max_length + 1)
        _assert_refused(partial(target.encode, ids), f"a prompt of {len(ids)} tokens")
    if target.tokenizer is None:
        _assert_refused(partial(target.encode, "text"), "text, without a tokenizer")


class _Needy(Drafter):
    """Needs what no target has."""

    needs = frozenset({"outrider.testing: not offered"})

    def propose(self, context: Context, pen: Pen) -> None:
        raise AssertionError("asked to draft without what it needs")


def _assert_likeliest(rows: Tensor, text: Sequence[int], case: str) -> None:
    """Raises AssertionError if a token is less likely than another by more than rounding."""
    probs = rows.double().softmax(-1).cpu()
    chosen = probs[torch.arange(len(text)), torch.tensor(text)]
    gap = float((probs.amax(-1) - chosen).max())
    worst = int((probs.amax(-1) - chosen).argmax())
    assert gap <= tolerance(rows.dtype), (
        f"token {worst + 1} is {gap:.1e} less likely than the likeliest ({case})"
    )


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
