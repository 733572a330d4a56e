"""PARD's and P-EAGLE's training: rows are those of drafts, and so is the loss."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.drafters import bound
from tiny.learners import make_learner

from outrider import Context, Sampling, Tokens
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training import parallel_objectives
from outrider.extras.training.loop import train_network
from outrider.extras.training.losses import forward_kl
from outrider.extras.training.parallel_objectives import MaskedText
from outrider.extras.training.progress import Schedule
from outrider.plugins.parts import make
from outrider.targets.passes.cached_model import HIDDEN
from outrider.testing.tiny_targets import draft_after, write_draft

PARD = {"layers": 2, "depth": 3}


def test_rows_are_dropped_only_behind_rows_that_were_dropped() -> None:
    whole = MaskedText.sampled(5, 3, 1.0)
    assert whole.positions.tolist() == [0, 1, 2, 3, 4, 1, 2, 3, 4, 2, 3, 4]
    assert whole.masks.tolist() == [0] * 5 + [1] * 4 + [2] * 3
    rows = MaskedText.sampled(40, 4, 0.5)
    assert [int((rows.masks == count).sum()) for count in range(4)] == [40, 20, 10, 5]
    pairs = set(zip(rows.positions.tolist(), rows.masks.tolist(), strict=True))
    assert all((position - 1, count - 1) in pairs for position, count in pairs if count)


def test_each_row_predicts_the_token_of_a_draft(target: Any, texts: Any, tmp_path: Path) -> None:
    learned = make_learner("pard", target, Vocabulary(31), 0, PARD)
    learned.network.mask.data += torch.randn(16) / 2
    learned.save_checkpoint(tmp_path)
    drafter = bound(make("drafter", "pard", model=str(tmp_path)), target)
    ids = torch.tensor([texts[0].ids])
    rows = MaskedText.sampled(ids.shape[1], 3, 0.7)
    logits = learned.network(ids, rows, torch.arange(len(rows.masks)))[0]
    probs = logits.detach().softmax(-1)
    pairs = zip(rows.positions.tolist(), rows.masks.tolist(), strict=True)
    for row, (position, masks) in enumerate(pairs):
        draft = draft_after(drafter, target, texts[0].ids[: position - masks + 1], masks + 1)
        torch.testing.assert_close(draft.probs[-1], probs[row].double(), rtol=0.02, atol=2e-3)


def test_the_loss_falls(target: Any, examples: Any, tmp_path: Path) -> None:
    learned = make_learner("pard", target, Vocabulary(31), 0, PARD | {"share": 0.9})
    schedule = Schedule(epochs=16, batch=12, rate=0.01, warmup=4, evaluate=16, patience=9)
    batch = next(examples.batches(24, 0)).to(torch.device("cpu"), torch.float32)
    before = learned.loss(batch).item()
    train_network(learned, examples, examples, schedule, folder=tmp_path)
    assert learned.loss(batch).item() < before / 2, before


PEAGLE: dict[str, Any] = {"depth": 3, "decoders": 2, "layers": [1, 4]}


def test_the_loss_is_that_of_drafts(
    target: Any, examples: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Vocabulary(31, torch.arange(0, 31, 2))
    learned = make_learner("peagle", target, known, 0, PEAGLE)
    assert set(learned.reads) == {HIDDEN, "hidden_states.1", "hidden_states.4"}
    learned.save_checkpoint(tmp_path)
    batch = next(examples.batches(3, 0)).to(torch.device("cpu"), torch.float32)
    rows = MaskedText.sampled(batch.ids.shape[1] - 2, 3, 0.5)
    monkeypatch.setattr(parallel_objectives.MaskedText, "sampled", lambda *_: rows)
    drafter = bound(make("drafter", "peagle", path=str(tmp_path)), target)
    head = target.model.get_output_embeddings().weight.detach()
    terms = []
    for text in range(3):
        features = {name: batch.states[name][text] for name in drafter.needs if name != "model"}
        for position, masks in zip(rows.positions.tolist(), rows.masks.tolist(), strict=True):
            best, token = batch.best[text, position + 1], batch.ids[text, position + 2]
            if not (batch.own[text, position + 2] and known.knows(best) and known.knows(token)):
                continue
            prefix = Tokens(batch.ids[text, : position - masks + 2].tolist())
            context, drawn = Context(prefix, None, features), Sampling(temperature=1.0)
            draft = write_draft(drafter, target, context, gamma=masks + 1, sampling=drawn)
            own = known.rows(draft.probs[-1].log()[:, None]).T
            right = (batch.states[HIDDEN][text, position + 1] @ known.rows(head).T)[None].double()
            terms.append(float(forward_kl(own, right)))
    assert len(terms) > 5
    loss = learned.loss(batch)
    assert loss.item() == pytest.approx(sum(terms) / len(terms), rel=0.01)
    loss.backward()
    assert all(tensor.grad.abs().sum() > 0 for tensor in learned.network.parameters())
