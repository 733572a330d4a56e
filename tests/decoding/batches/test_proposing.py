"""A network that drafts for several texts writes for each what it writes for it alone."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tiny.drafters import bound
from tiny.pens import new_pen
from transformers import LlamaForCausalLM

from outrider import Context, Draft, Drafter, Sampling, decode, decode_together
from outrider.contract.chance import SampledChance
from outrider.drafters.eagle import Eagle, EagleNetwork
from outrider.drafters.eagle3.drafter import Eagle3, Eagle3Network
from outrider.drafters.mtp.drafter import Mtp, MtpNetwork
from outrider.drafters.small_lm import SmallLM
from outrider.targets.passes.engine import use_engine
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import context_after
from outrider.verifiers.token import Token

FAMILIES: dict[str, Callable[[Any], Drafter]] = {
    "eagle": lambda _: Eagle("untrained"),
    "eagle3": lambda _: Eagle3("untrained"),
    "mtp": lambda _: Mtp("untrained"),
    "small_lm": lambda llama: SmallLM(llama(1, max_position_embeddings=24)),
    "small_lm packed": lambda llama: SmallLM(packed(llama(1, max_position_embeddings=24))),
    "first layers": lambda _: SmallLM(layers=1),
}
NETWORKS: dict[str, type[Any]] = {
    "eagle": EagleNetwork,
    "eagle3": Eagle3Network,
    "mtp": MtpNetwork,
    "small_lm": LlamaForCausalLM,
}
"""By name of a drafter, the class that runs its passes."""

SAMPLED = Sampling(temperature=1.0)
LONG = [3, 4, 5] * 7
ROUNDS: list[list[tuple[list[int], int]]] = [
    [([3, 4, 5], 3), (LONG, 3), ([7, 8], 3)],
    [([3, 4, 5, 6, 7], 3), ([*LONG, 9], 2), ([7, 8, 9, 9, 3], 0)],  # some draft less, or nothing
    [([*LONG, 9, 4, 5], 3), ([3, 4, 5, 6, 7, 8], 1), ([7, 8, 9, 9, 3, 4], 3)],  # in another order
    [([9, 9, 9, 3], 3), ([3, 4, 5, 6, 7, 8, 3], 3)],  # some have ended, another has joined
    [([3, 4, 5, 6, 7, 8, 3, 3], 3)],
    [([3, 4, 5, 6, 9], 3), ([3, 4, 5, 6, 7, 8, 3, 3], 2), ([3, 4, 5], 2)],  # taken back
    [([9], 2), ([3, 4, 5, 6, 7, 8, 3, 3, 4], 2), ([3, 4, 5, 6], 2)],  # the first is not read yet
]
"""By round, the texts in progress, and the most tokens of their drafts."""


def packed(model: Any) -> Any:
    use_engine(model, "packed")
    return model


@pytest.fixture(scope="module")
def target(llama: Any) -> TransformersTarget:
    return TransformersTarget(llama(max_position_embeddings=400))


def drafts(
    drafter: Drafter, contexts: list[Context], gammas: list[int], sampling: Sampling, first: int = 0
) -> list[Draft]:
    pens = [
        new_pen(SampledChance.seeded(number), sampling=sampling, vocab_size=31, gamma=gamma)
        for number, gamma in enumerate(gammas, first)
    ]
    drafter.propose_batch(list(zip(contexts, pens, strict=True)))
    return [pen.sheet.finish() for pen in pens]


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", list(FAMILIES))
def test_several_texts_get_the_drafts_that_each_gets_alone(
    name: str, sampling: Sampling, target: TransformersTarget, llama: Any
) -> None:
    drafter = bound(FAMILIES[name](llama), target)
    together = drafter.open_together()
    assert together is not None
    for texts in ROUNDS:
        contexts = [context_after(drafter, target, text) for text, _ in texts]
        gammas = [gamma for _, gamma in texts]
        found = drafts(together, contexts, gammas, sampling)
        for number, (context, gamma) in enumerate(zip(contexts, gammas, strict=True)):
            (right,) = drafts(drafter.open(), [context], [gamma], sampling, number)
            assert found[number].tokens == right.tokens
            torch.testing.assert_close(found[number].logits, right.logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", list(NETWORKS))
def test_a_batch_takes_the_passes_of_its_longest_text(
    name: str,
    sampling: Sampling,
    target: TransformersTarget,
    llama: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prompts = [[3, 4, 5, 3, 4], [7, 8] * 9, [12, 3, 4], [5, 6, 7, 8]]
    options: dict[str, Any] = {"gamma": 3, "max_new_tokens": 12, "sampling": sampling}
    drafter, passes, network = FAMILIES[name](llama), list[int](), NETWORKS[name]
    forward = network.forward

    def counted(self: Any, *inputs: Any, **named: Any) -> Any:
        if self is not target.model:
            passes.append(len(inputs[0] if inputs else named["input_ids"]))
        return forward(self, *inputs, **named)

    monkeypatch.setattr(network, "forward", counted)
    monkeypatch.setattr(target, "eos", frozenset())
    alone = [
        [
            (round.tokens, round.draft)
            for round in decode(target, drafter, Token(), prompt, number=number, **options)
        ]
        for number, prompt in enumerate(prompts)
    ]
    one_by_one, passes[:] = len(passes), []
    texts: list[list[Any]] = [[] for _ in prompts]
    for number, round in decode_together(target, drafter, Token(), prompts, **options):
        texts[number].append((round.tokens, round.draft))
    assert texts == alone
    most = max(len(rounds) for rounds in texts)
    assert one_by_one > 2.5 * len(passes)
    assert len(passes) <= 3 * most + 1  # one for the long prompt
    assert max(passes) == len(prompts)


@pytest.mark.parametrize("make", [partial(Eagle, "untrained"), partial(SmallLM, layers=1)])
def test_trees_are_drafted_text_by_text(make: Any, target: TransformersTarget) -> None:
    drafter = bound(make(tree="top:2x2"), target)
    assert drafter.open_together() is None
