"""P-EAGLE's training: the loss is that of the drafts that begin at each row."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.drafters import bound
from tiny.learners import make_learner

from outrider import Context, Sampling, Tokens
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training import masked_states
from outrider.extras.training.losses import forward_kl
from outrider.extras.training.masked_text import MaskedText
from outrider.plugins.registry import make
from outrider.targets.passes.cached_model import HIDDEN
from outrider.testing.tiny_targets import write_draft

OPTIONS: dict[str, Any] = {"depth": 3, "decoders": 2, "layers": [1, 4]}


def test_the_loss_is_that_of_drafts(
    target: Any, examples: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Vocabulary(31, torch.arange(0, 31, 2))
    learned = make_learner("peagle", target, known, 0, OPTIONS)
    assert set(learned.reads) == {HIDDEN, "hidden_states.1", "hidden_states.4"}
    learned.save_checkpoint(tmp_path)
    batch = next(examples.batches(3, 0)).to(torch.device("cpu"), torch.float32)
    rows = MaskedText.sampled(batch.ids.shape[1] - 2, 3, 0.5)
    monkeypatch.setattr(masked_states.MaskedText, "sampled", lambda *_: rows)
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
            draft = write_draft(
                drafter,
                target,
                Context(prefix, None, features),
                gamma=masks + 1,
                sampling=Sampling(temperature=1.0),
            )
            own = known.rows(draft.probs[-1].log()[:, None]).T
            right = (batch.states[HIDDEN][text, position + 1] @ known.rows(head).T)[None].double()
            terms.append(float(forward_kl(own, right)))
    assert len(terms) > 5
    loss = learned.loss(batch)
    assert loss.item() == pytest.approx(sum(terms) / len(terms), rel=0.01)
    loss.backward()
    assert all(tensor.grad.abs().sum() > 0 for tensor in learned.network.parameters())


def test_texts_without_answers_teach_nothing(target: Any, examples: Any) -> None:
    learned = make_learner("peagle", target, Vocabulary(31), 0, OPTIONS)
    batch = next(examples.batches(3, 0)).to(torch.device("cpu"), torch.float32)
    batch.own[:] = False
    assert learned.loss(batch).item() == 0
