"""The loop: what is emitted, counted and refused, at every kind of ending."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tiny.drafters import tokens_of

from outrider import (
    Chance,
    ConfigError,
    Context,
    Draft,
    Drafter,
    Pen,
    Round,
    Sampling,
    Scores,
    Session,
    Target,
    TargetError,
    Verdict,
    Verifier,
    decode,
    decode_together,
    generate_together,
)
from outrider.contract.policy import Fixed
from outrider.drafters.none import NoDraft
from outrider.drafters.random import Random
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget
from outrider.testing.enumerated import Seed, SeededChance
from outrider.testing.exact import assert_equal, distribution_of, target_distribution
from outrider.testing.table_drafters import TreeDrafter
from outrider.testing.tiny_targets import SAMPLED
from outrider.verifiers.gumbel import Gumbel
from outrider.verifiers.multi_path_block import MultiPathBlock
from outrider.verifiers.token import Token

TARGET = TabularTarget(6, seed=1)
PROMPT = [0, 1]


def run(drafter: Drafter, target: Target = TARGET, **options: Any) -> list[Round]:
    return list(decode(target, drafter, Token(), PROMPT, **({"max_new_tokens": 12} | options)))


GREEDY = tokens_of(run(NoDraft()))


def test_the_last_draft_leaves_room_for_the_targets_token(scripted: Any) -> None:
    rounds = run(scripted([*PROMPT, *GREEDY]), gamma=4)
    assert [len(round.tokens) for round in rounds] == [5, 5, 2]
    assert rounds[-1].drafted == rounds[-1].accepted == 1
    assert rounds[-1].stop == "max_new_tokens"


def test_a_token_past_eos_is_never_emitted(scripted: Any, monkeypatch: Any) -> None:
    end = next(position for position in range(1, 12) if GREEDY[position] not in GREEDY[:position])
    monkeypatch.setattr(TARGET, "eos", frozenset({GREEDY[end]}))
    for gamma in (1, 2, 3, 11):
        rounds = run(scripted([*PROMPT, *GREEDY]), gamma=gamma)
        assert tokens_of(rounds) == GREEDY[: end + 1]
        assert rounds[-1].stop == "eos"


def test_a_stop_string_inside_an_accepted_block(llama: Any, words: Any, scripted: Any) -> None:
    target = TransformersTarget(llama(seed=1, eos_token_id=None), words)
    text = tokens_of(run(NoDraft(), target, max_new_tokens=20))
    stop = " ".join(words.decode(text, skip_special_tokens=True).split()[3:5])
    for gamma in (1, 4, 15):
        rounds = run(
            scripted([*PROMPT, *text]), target, gamma=gamma, max_new_tokens=20, stop=[stop]
        )
        shown = "".join(round.text for round in rounds)
        assert shown.endswith(stop)
        assert shown.count(stop) == 1
        assert tokens_of(rounds) == text[: len(tokens_of(rounds))]
        assert rounds[-1].stop == "stop_string"


def test_the_context_window_ends_the_text(scripted: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(TARGET, "max_length", 8)
    rounds = run(scripted([*PROMPT, *GREEDY]), gamma=4)
    assert tokens_of(rounds) == GREEDY[:6]
    assert rounds[-1].stop == "max_length"


def test_a_policy_is_told_of_each_round_and_each_text(scripted: Any) -> None:
    class Watches(Fixed):  # type: ignore[misc]
        def __init__(self) -> None:
            self.seen: list[Round] = []
            self.resets = 0

        def more(self, draft: Draft) -> bool:
            return len(draft) < 2

        def observe(self, round: Round) -> None:
            self.seen.append(round)

        def reset(self) -> None:
            self.resets += 1

    policy = Watches()
    rounds = run(scripted([*PROMPT, *GREEDY]), gamma=5, policy=policy)
    assert policy.seen == rounds
    assert policy.resets == 1
    assert max(round.drafted for round in rounds) == 2
    policies = [Watches(), Watches()]
    list(decode_together(TARGET, Random(), Token(), [PROMPT] * 2, policies=policies,
                         max_new_tokens=4))  # fmt: skip
    assert [policy.resets for policy in policies] == [1, 1]


@pytest.mark.parametrize("field", ["target", "drafter", "verifier", "policy", "constraint"])
def test_a_part_of_another_class_is_refused_at_the_call(field: str) -> None:
    parts: dict[str, Any] = {"target": TARGET, "drafter": NoDraft(), "verifier": Token()}
    parts |= {field: 3}
    line = (
        "target.model=3: expected a name, a loaded model"
        if field == "target"
        else f"^{field}=3: expected a name, or a mapping"
    )
    with pytest.raises(ConfigError, match=line):
        decode(**parts, tokens=PROMPT)
    plurals = {"policy": "policies", "constraint": "constraints"}
    lists = {plurals[name]: [parts.pop(name)] for name in plurals if name in parts}
    with pytest.raises(ConfigError, match=line):
        decode_together(**parts, **lists, prompts=[PROMPT])


def test_a_prompt_that_makes_no_sense_is_refused_at_the_call(monkeypatch: Any) -> None:
    with pytest.raises(ConfigError, match="expected at least one token"):
        decode(TARGET, NoDraft(), Token(), [])
    with pytest.raises(ConfigError, match="prompt=6: expected ids below 6"):
        decode(TARGET, NoDraft(), Token(), [0, 6])
    monkeypatch.setattr(TARGET, "max_length", 4)
    with pytest.raises(ConfigError, match="prompt of 4 tokens: expected fewer than the context"):
        decode(TARGET, NoDraft(), Token(), [0] * 4)


def test_a_need_that_the_target_can_not_meet_is_refused_at_the_call() -> None:
    needs = {"needs": frozenset({"model"})}
    needy, rule = type("Needy", (NoDraft,), needs)(), type("NeedyRule", (Token,), needs)()
    line = "needs model: the target offers hidden_states"
    with pytest.raises(ConfigError, match=f"drafter Needy {line}"):
        decode(TARGET, needy, Token(), PROMPT)
    with pytest.raises(ConfigError, match=f"verifier NeedyRule {line}"):
        decode(TARGET, NoDraft(), rule, PROMPT)


def test_a_tree_is_refused_where_the_rule_takes_chains() -> None:
    with pytest.raises(
        ConfigError,
        match=r"TreeDrafter writes 'iid' drafts \(siblings drawn.* takes chain;"
        r" rules that fit: k_seq, multi_step",
    ):
        decode(TARGET, TreeDrafter(TARGET, "iid"), Token(), PROMPT)


def test_a_policy_stops_paths_where_all_are_as_long() -> None:
    class Three(Fixed):  # type: ignore[misc]
        def more(self, draft: Draft) -> bool:
            return len(draft) < 3

    paths, rule = TreeDrafter(TARGET, "paths"), MultiPathBlock()
    rounds = decode(TARGET, paths, rule, PROMPT, policy=Three(), gamma=3, budget=6)
    assert next(rounds).drafted == 4


def test_a_target_that_scores_nothing_is_named(monkeypatch: Any) -> None:
    class Broken(Session):
        def score(self, draft: Draft) -> torch.Tensor:
            return torch.full((1, 6), float("nan"))

        def commit(self, verdict: Any) -> None: ...

    monkeypatch.setattr(TabularTarget, "open", lambda *_: Broken())
    with pytest.raises(TargetError, match="the target gave logits with NaN"):
        list(decode(TabularTarget(6), NoDraft(), Token(), PROMPT))


class Parrot(Drafter):
    """Writes the token that came first in the latest text in memory."""

    def __init__(self) -> None:
        self.texts: list[int] = []

    def propose(self, context: Context, pen: Pen) -> None:
        if self.texts and pen.open:
            pen.write(self.texts[-1])

    def remember(self, context: Context) -> None:
        self.texts.append(context.tokens[1])

    @property
    def remembered(self) -> int:
        return len(self.texts)


class Echo(Parrot):
    """Writes the token that the latest text in memory has at this position."""

    def remember(self, context: Context) -> None:
        self.texts[:] = context.tokens[:]

    def propose(self, context: Context, pen: Pen) -> None:
        if pen.open and len(self.texts) > len(context.tokens):
            pen.write(self.texts[len(context.tokens)])


def test_a_text_that_another_one_overtakes_learns_nothing_of_its_coins() -> None:
    """Both have one seed, and the second is remembered while the first is being written."""
    target = TabularTarget(2)

    def play(chance: Chance) -> tuple[int, ...]:
        drafter, seed = Echo(), Seed(chance)

        def begun() -> Iterator[Round]:
            own = SeededChance(seed, "text")
            return decode(target, drafter, Token(), [0, 1], gamma=1, sampling=SAMPLED,
                          chance=own, max_new_tokens=3)  # fmt: skip

        overtaken = begun()
        first = next(overtaken)
        list(begun())
        return (*first.tokens, *tokens_of(overtaken))

    exact = target_distribution(target, [0, 1], 3, SAMPLED, Token())
    assert_equal(distribution_of(play), exact)


def test_the_texts_of_a_batch_are_remembered_in_order_when_all_have_ended() -> None:
    """However early each of them ends."""

    class Listens(Parrot):
        def remember(self, context: Context) -> None:
            remembered.append(context.tokens[:])

        def propose(self, context: Context, pen: Pen) -> None:
            assert not remembered

    remembered: list[list[int]] = []
    target, prompts = TabularTarget(5), [[0, 1], [2], [3, 4, 0]]
    target.max_length = 12  # the longer prompts end first
    generations = generate_together(target, prompts, Listens(), Token(), max_new_tokens=11)
    assert remembered == [
        [*prompt, *generation.tokens]
        for prompt, generation in zip(prompts, generations, strict=True)
    ]


def test_a_text_that_is_broken_off_is_not_remembered() -> None:
    drafter = Parrot()
    next(decode(TabularTarget(5), drafter, Token(), [0, 1], max_new_tokens=9))
    assert drafter.remembered == 0


def test_a_draft_shares_the_noise_of_a_coupled_rule() -> None:
    """So that whoever drafts from the target's own distribution is always right."""

    class Own(Drafter):
        autoregressive = True

        def propose(self, context: Context, pen: Pen) -> None:
            path: list[int] = []
            while pen.open:
                path.append(pen.draw(TARGET.logits([*context.tokens, *path])))

    options: dict[str, Any] = {"gamma": 3, "max_new_tokens": 40}
    rounds = list(decode(TARGET, Own(), Gumbel(), PROMPT, sampling=Sampling(1.0), **options))
    assert len(rounds) == 10
    assert all(round.accepted == round.drafted == 3 for round in rounds)


def test_a_lossy_rule_sees_the_text_before_each_draft() -> None:
    seen: list[list[int]] = []

    class Sees(Verifier):
        lossless = False

        def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
            seen.append(list(scores.context.tokens))
            return Verdict((), int(scores.logits[0].argmax()))

    rounds = list(decode(TARGET, NoDraft(), Sees(), PROMPT, max_new_tokens=3))
    text = [*PROMPT, *tokens_of(rounds)]
    assert seen == [text[:2], text[:3], text[:4]]
