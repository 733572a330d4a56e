"""DFlash's training: each block predicts what a draft from its anchor would."""

import itertools
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.drafters import bound
from tiny.learners import make_learner

from outrider import ConfigError, Context, Sampling, Tokens
from outrider.drafters.dflash.corrector import CORRECTORS, Block
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training import dflash_objective
from outrider.extras.training.loop import train_network
from outrider.extras.training.losses import (
    cross_entropy,
    expected_lengths,
    forward_kl,
    total_variation,
)
from outrider.extras.training.progress import Schedule
from outrider.plugins.parts import make
from outrider.targets.passes.cached_model import HIDDEN
from outrider.testing.tiny_targets import write_draft

OPTIONS: dict[str, Any] = {"block": 4, "decoders": 2, "layers": [1, 4], "anchors": 3, "decay": 0.5}


@pytest.fixture
def anchored(examples: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Six texts, and three anchors in each, which every loss takes."""
    batch = next(examples.batches(6, 0)).to(torch.device("cpu"), torch.float32)
    anchors = dflash_objective.sample_anchors(batch.own, 3)
    monkeypatch.setattr(dflash_objective, "sample_anchors", lambda own, count: anchors)
    return batch, anchors


def counted(batch: Any, anchors: Any, known: Vocabulary) -> Iterator[tuple[int, int, int, int]]:
    """Yields the text, anchor, step and place of each token that has a part in the loss."""
    for row, number, step in itertools.product(range(6), range(3), range(3)):
        place = int(anchors[0][row, number]) + 1 + step
        if not anchors[1][row, number] or place >= batch.ids.shape[1] or not batch.own[row, place]:
            continue
        if known.knows(batch.best[row, place - 1]) and known.knows(batch.ids[row, place]):
            yield row, number, step, place


def test_anchors_stand_before_tokens_of_the_target() -> None:
    own = torch.zeros(3, 12, dtype=torch.bool)
    own[0, 4:12], own[1, 6:8] = True, True
    seen: set[int] = set()
    for _ in range(30):
        starts, counted = dflash_objective.sample_anchors(own, 4)
        assert starts.shape == (3, 4)
        assert all(len(set(row)) == 4 for row in starts.tolist())
        assert counted.sum(1).tolist() == [4, 2, 0]
        assert set(starts[1][counted[1]].tolist()) == {5, 6}
        seen |= set(starts[0].tolist())
    assert seen == set(range(3, 11))
    assert dflash_objective.sample_anchors(own, 99)[0].shape == (3, 8)


@pytest.mark.parametrize(
    "more",
    [
        *({"soft": False}, {}, {"causal": True}, {"convolved": True}, {"verified": 0.7}),
        *({"smoothing": 0.3}, {"smoothing": 0.0, "soft": False}),
    ],
)
def test_the_loss_is_that_of_drafts(
    more: dict[str, Any], target: Any, anchored: Any, tmp_path: Path
) -> None:
    soft, smoothing = more.get("soft", True), more.get("smoothing", 0.0)
    known = Vocabulary(31, torch.arange(0, 31, 2) if soft else None)
    learned = make_learner("dflash", target, known, 0, OPTIONS | more)
    for name, weight in learned.network.named_parameters():
        if "conv" in name:
            torch.nn.init.normal_(weight, std=0.3)
    assert set(learned.reads) == {HIDDEN, "hidden_states.1", "hidden_states.4"}
    learned.save_checkpoint(tmp_path)
    batch, anchors = anchored
    drafter = bound(make("drafter", "dflash", path=str(tmp_path)), target)
    head = known.rows(target.model.get_output_embeddings().weight.detach())

    @cache
    def draft(row: int, start: int) -> Any:
        features = {name: batch.states[name][row] for name in drafter.needs if name != "model"}
        context = Context(Tokens(batch.ids[row, : start + 1].tolist()), None, features)
        return write_draft(drafter, target, context, gamma=3, sampling=Sampling(temperature=1.0))

    terms, kept = torch.zeros(2, 6, 3, 3, dtype=torch.float64)
    ratios: dict[tuple[int, int], list[Any]] = {}
    for row, number, step, place in counted(batch, anchors, known):
        probs = draft(row, int(anchors[0][row, number])).probs[step]
        own = known.rows(probs.log()[:, None]).T
        right = (batch.states[HIDDEN][row, place - 1] @ head.T)[None].double()
        written = batch.ids[row, place][None]
        term = forward_kl(own, right) if soft else cross_entropy(own, written)
        accepted = 1 - total_variation(own, right) if soft else (-term).exp()
        terms[row, number, step] = term[0]
        of_block = ratios.setdefault((row, number), [])
        if len(of_block) == step:  # a place that is not learned ends the block
            token = known.numbers(written)
            of_block.append((own.softmax(-1)[0, token] / right.softmax(-1)[0, token]).item())
        kept[row, number, step] = torch.lerp(accepted[0], accepted.new_tensor(1), smoothing)
    weights = expected_lengths(kept) if "smoothing" in more else 0.5 ** torch.arange(3)
    weights = weights * (kept > 0)
    assert weights.count_nonzero() > 3
    loss = learned.loss(batch)
    expected = float((weights * terms).sum() / weights.sum())
    of_blocks = [min(1.0, *accumulate(row[: i + 1], mul)) for row in ratios.values()
                 for i in range(len(row))]  # fmt: skip
    expected -= more.get("verified", 0.0) * sum(of_blocks) / len(ratios)
    assert loss.item() == pytest.approx(expected, rel=0.01)
    loss.backward()
    assert all(tensor.grad.abs().sum() > 0 for tensor in learned.network.parameters())


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("kind", CORRECTORS)
def test_a_corrector_is_shown_the_tokens_of_the_text(
    kind: str, soft: bool, target: Any, anchored: Any
) -> None:
    known = Vocabulary(31, torch.arange(0, 31, 2))
    options = OPTIONS | {"soft": soft, "corrector": kind, "rank": 8, "candidates": 6}
    learned = make_learner("dflash", target, known, 0, options)
    network: Any = learned.network
    batch, anchors = anchored
    given: list[Any] = []
    network.corrector.register_forward_pre_hook(lambda _, block: given.append(*block))
    loss = learned.loss(batch)
    (block,), total, weight = given, 0.0, 0.0
    head = known.rows(target.model.get_output_embeddings().weight.detach())
    for row, number, step, place in counted(batch, anchors, known):
        start, which = int(anchors[0][row, number]), 3 * row + number
        one = Block(*(getattr(block, part.name)[which : which + 1] for part in fields(Block)))
        assert one.earlier.tolist() == [[batch.ids[row, max(start - 1, 0)]]]
        if start:
            before = slice(start - 1, start)
            states = [batch.states[name][row : row + 1, before] for name in network.reads]
            torch.testing.assert_close(one.text[0], network.fused(states)[0, 0])
        tokens = batch.ids[row, start : start + 3]
        corrected = network.corrector(one)(tokens[None], 0)[0, step].detach()
        right = batch.states[HIDDEN][row, place - 1] @ head.T
        at = known.numbers(batch.ids[row, place])
        for scale, q in ((1.0, corrected), (network.corrector.base, one.logits[0, step].detach())):
            kept = ~q.isneginf()
            p, log_q = right[kept].log_softmax(-1), q[kept].log_softmax(-1)
            hard = -q.log_softmax(-1)[at] if kept[at] else 0.0
            term = float((p.exp() * (p - log_q)).sum() if soft else hard)
            total += scale * 0.5**step * term
        weight += 0.5**step
    assert weight > 3
    assert loss.item() == pytest.approx(total / weight, rel=1e-4)


@pytest.mark.parametrize("kind", CORRECTORS)
def test_a_network_with_a_corrector_learns_and_drafts_from_its_checkpoint(
    kind: str, target: Any, examples: Any, tmp_path: Path
) -> None:
    options = OPTIONS | {"corrector": kind, "rank": 8, "candidates": 6}
    learned = make_learner("dflash", target, Vocabulary(31), 0, options)
    schedule = Schedule(epochs=4, batch=12, rate=0.01, warmup=2, evaluate=8, whitened=True)
    batch = next(examples.batches(24, 0)).to(torch.device("cpu"), torch.float32)
    torch.manual_seed(0)
    before = learned.loss(batch).item()
    train_network(learned, examples, examples, schedule, folder=tmp_path)
    torch.manual_seed(0)
    assert learned.loss(batch).item() < before
    learned.save_checkpoint(tmp_path / "made")
    drafter = bound(make("drafter", "dflash", path=str(tmp_path / "made")), target)
    features = {name: batch.states[name][0] for name in drafter.needs if name != "model"}
    context = Context(Tokens(batch.ids[0, :7].tolist()), None, features)
    draft = write_draft(drafter, target, context, gamma=3, sampling=Sampling(temperature=1.0))
    starts = torch.full((24, 1), 6)
    rows, text = dflash_objective.block_states(learned.network, batch, starts)
    block = learned.network.block(rows[:, 0], text, batch.ids[:, 5])
    tokens = torch.tensor([[int(batch.ids[0, 6]), *draft.tokens[:-1]]]).expand(24, -1)
    probs = learned.network.corrector(block)(tokens, 0)[0].softmax(-1)
    torch.testing.assert_close(torch.stack(draft.probs), probs.double(), rtol=0.03, atol=3e-3)


@pytest.mark.parametrize("corrector", [None, "selector"])
def test_a_confidence_head_learns_the_acceptance(
    corrector: str | None, target: Any, anchored: Any, tmp_path: Path
) -> None:
    options = OPTIONS | {"corrector": corrector, "rank": 8, "candidates": 6}
    batch, anchors = anchored
    plain, learned = (
        make_learner("dflash", target, Vocabulary(31), 0, options | {"confident": confident})
        for confident in (False, True)
    )
    network: Any = learned.network
    plain.network.load_state_dict(network.state_dict(), strict=False)
    head = target.model.get_output_embeddings().weight.detach()
    rows, text = dflash_objective.block_states(network, batch, anchors[0])
    states = rows[:, :, 1:]
    places = anchors[0][..., None] + torch.arange(3)
    total = weight = 0.0
    for row, number, step, token in counted(batch, anchors, Vocabulary(31)):
        own = states[row, number][None]
        logits = network.logits(own)
        if corrector is not None:
            before = batch.ids[row, places[row, number].clamp(max=batch.ids.shape[1] - 1)][None]
            given = text[3 * row + number][None]
            block = network.block(rows[row, number][None], given, batch.ids[row, :1])
            logits = network.corrector(block)(before, 0)
        p = (batch.states[HIDDEN][row, token - 1] @ head.T).softmax(-1)
        accepted = float(torch.minimum(p, logits[0, step].softmax(-1)).sum().detach())
        foreseen = network.foreseen(own[0, step], batch.ids[row, token - 1]).sigmoid()
        term = accepted * foreseen.log() + (1 - accepted) * (1 - foreseen).log()
        total, weight = total - 0.5**step * float(term.detach()), weight + 0.5**step
    more = learned.loss(batch).item() - plain.loss(batch).item()
    assert more == pytest.approx(total / weight, rel=1e-3)
    learned.save_checkpoint(tmp_path)
    make("drafter", "dflash", path=str(tmp_path), confidence=0.1).bind(target)


def test_a_network_begins_with_a_trained_backbone(target: Any, tmp_path: Path) -> None:
    trained = make_learner("dflash", target, Vocabulary(31), 0, OPTIONS)
    trained.save_checkpoint(tmp_path)
    options = OPTIONS | {"corrector": "markov", "convolved": True}
    plain = make_learner("dflash", target, Vocabulary(31), 1, options)
    begun = make_learner("dflash", target, Vocabulary(31), 1, options | {"backbone": str(tmp_path)})
    before, after = plain.network.state_dict(), begun.network.state_dict()
    for name, rows in trained.network.state_dict().items():
        torch.testing.assert_close(after.pop(name), rows, rtol=1e-3, atol=1e-4)
    assert any("conv" in name for name in after) and any("corrector" in name for name in after)
    assert all(torch.equal(rows, before[name]) for name, rows in after.items())
    narrow = OPTIONS | {"inner": 8, "backbone": str(tmp_path)}
    with pytest.raises(ConfigError, match=r"tensor .* is \[.*: expected"):
        make_learner("dflash", target, Vocabulary(31), 0, narrow)
