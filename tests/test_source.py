"""The source of a target with an encoder reaches drafters by every road."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from tiny.drafters import bound

from outrider import Context, Drafter, Pen, Sampling, Tokens, decode, generate
from outrider.drafters.hierarchy import Hierarchy
from outrider.drafters.small_lm import SmallLM
from outrider.lab.measuring.overlap import overlap
from outrider.lab.measuring.reference import reference
from outrider.lab.measuring.texts import written
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import write_draft, write_drafts
from outrider.verifiers.token import Token

TARGET = TabularTarget(6, encoder=True)
SAMPLED = Sampling(temperature=1.0, seed=0)


class Witness(Drafter):
    """Notes what it is shown, and draws from one distribution throughout."""

    def __init__(self) -> None:
        self.contexts: list[tuple[list[int], list[int]]] = []

    def propose(self, context: Context, pen: Pen) -> None:
        assert isinstance(context.source, Tokens)
        self.contexts.append((context.tokens[:], context.source[:]))
        while pen.open:
            pen.draw(torch.arange(float(pen.vocab_size)))


def consistent(witness: Witness, source: Sequence[int], text: Sequence[int]) -> bool:
    """Whether each context was the source, and the decoder's start with so much of the text."""
    whole = [0, *text]
    return bool(witness.contexts) and all(
        read == list(source) and tokens == whole[: len(tokens)] and tokens
        for tokens, read in witness.contexts
    )


def test_decoding_shows_the_source() -> None:
    witness = Witness()
    result = generate(TARGET, [3, 1, 4], witness, sampling=SAMPLED, max_new_tokens=12)
    assert len(result.tokens) == 12
    assert consistent(witness, [3, 1, 4], result.tokens)


def test_the_lab_shows_the_source_and_takes_alpha_along_the_decoders_text() -> None:
    """Against sums by hand: p of the tabular target, q of a drafter of one distribution."""
    source = [3, 1, 4]
    text = written(TARGET, [source], SAMPLED, 10, batch=4, folder=None)[0]
    along = reference(TARGET, source, text)
    assert (along.ids, along.start, along.source) == ([0, *text], 1, source)
    witness = Witness()
    result = overlap(along, witness, Token(), SAMPLED, gamma=2)
    assert consistent(witness, source, text)
    q = torch.arange(6.0).softmax(-1)
    p = [TARGET.logits([0, *text[:position]], source).softmax(-1) for position in range(len(text))]
    assert result.beta[0] == pytest.approx(sum(float(row.minimum(q).sum()) for row in p), abs=1e-6)
    assert result.prefixes == (10.0, 9.0)


def test_a_small_t5_drafts_with_an_encoder_of_its_own(t5: Any) -> None:
    """Its draft is its own greedy text of the same source; its encoder reads each source once."""
    target, small = TransformersTarget(t5()), t5(seed=4, eos_token_id=None)
    calls: list[int] = []
    small.encoder.register_forward_hook(lambda *_: calls.append(1))
    drafter = bound(SmallLM(small), target)
    for source in ([5, 6, 7, 1], [9, 8, 1], [5, 6, 7, 1]):
        ids = torch.tensor([source])
        own = small.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=6
        )[0].tolist()
        calls.clear()
        for length in (1, 3, 2):  # on, and back
            context = Context(Tokens(own[:length]), Tokens(source))
            draft = write_draft(drafter, target, context, gamma=3, sampling=Sampling())
            assert list(draft.tokens) == own[length : length + 3]
        assert calls == [1]


def test_a_t5_that_drafts_for_itself_is_always_right(t5: Any) -> None:
    target = TransformersTarget(t5(eos_token_id=None))
    for drafter in (SmallLM(t5()), Hierarchy(model=t5(), faster="bigram")):
        rounds = decode(target, drafter, Token(), [5, 6, 7, 1], gamma=4, max_new_tokens=30)
        assert all(round.accepted == round.drafted for round in rounds)


@pytest.mark.parametrize("tree", ["2x2", "top:2x2", "dynamic:2"])
def test_a_small_t5_drafts_trees_whose_distributions_are_those_of_their_paths(
    t5: Any, tree: str
) -> None:
    target, small = TransformersTarget(t5()), t5(seed=3).double()
    drafter = bound(SmallLM(small, tree=tree), target)
    source, text = [5, 6, 7, 1], [0, 4, 9]
    for seed in range(4):
        context = Context(Tokens(text), Tokens(source))
        draft = write_draft(drafter, target, context, gamma=3, sampling=SAMPLED, seed=seed)
        assert len(draft) > 3
        for node, parent in enumerate(draft.parents):
            path = [draft.tokens[step] for step in draft.path(parent)]
            with torch.no_grad():
                exact = small(
                    input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([text + path])
                ).logits[0, -1]
            probs, first = draft.probs[node], draft.children(parent)[0] == node
            if probs is None:
                assert exact.argsort(descending=True).tolist().index(draft.tokens[node]) < 2
            elif first or drafter.kind != "distinct":
                torch.testing.assert_close(probs, exact.softmax(-1), rtol=1e-5, atol=1e-6)
        text = [*text, draft.tokens[0], 7]


def test_drafts_at_many_places_take_a_pass_and_another_source_another(t5: Any) -> None:
    target = TransformersTarget(t5().double())
    ids = [0, 4, 9, 3, 8]
    play = partial(write_drafts, target=target, gamma=1, sampling=SAMPLED)
    for sources in ([[5, 6, 1]] * 3, [[5, 6, 1], [7, 1], [5, 6, 1]]):
        drafter = bound(SmallLM(t5(seed=3).double()), target)
        contexts = [Context(Tokens(ids, 3 + i), Tokens(source)) for i, source in enumerate(sources)]
        for draft, context in zip(play(drafter, contexts=contexts), contexts, strict=True):
            fresh = bound(SmallLM(t5(seed=3).double()), target)
            alone = write_draft(fresh, target, context, gamma=1, sampling=SAMPLED)
            torch.testing.assert_close(draft.probs[0], alone.probs[0], rtol=1e-5, atol=1e-6)
