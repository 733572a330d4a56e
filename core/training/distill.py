"""Distillation: a small language model learns to say what the target says."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from outrider.contract.chance import SampledChance
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.drafter_parts import student as students
from outrider.drafter_parts import weights
from outrider.drafter_parts.vocabulary import Vocabulary
from outrider.errors import ConfigError, nearest, require
from outrider.runtime.cached_model import HIDDEN
from outrider.runtime.first_layers import first_layers
from outrider.targets.batch import write
from outrider.targets.loading import load
from outrider.training.learner import Learner
from outrider.training.losses import DIVERGENCES
from outrider.training.states import Batch, chosen


def small_lm_learner(
    target: Target,
    vocabulary: Vocabulary,
    seed: int,
    *,
    model: str | None = None,
    layers: int = 6,
    divergence: str = "forward_kl",
    on_policy: bool = False,
    share: float = 1.0,
) -> Learner:
    """DistillSpec (2310.08461, section 3): the divergence from the target's distributions, along texts.

    model: a folder or hub id to start from; none starts from the target's first `layers` layers,
        whose embeddings and head stay as they are, and are not saved with them.
    divergence: of `outrider.training.losses.DIVERGENCES`.
    on_policy: along texts that the student writes, anew in each step, instead of the target's.
    share: of the places, in each step: the head is most of a small model's work.

    Raises:
        ConfigError: the divergence is unknown, or the target has no more layers than that.
    """
    known = divergence in DIVERGENCES
    expected = nearest(divergence, list(DIVERGENCES))
    require(known, "recipe.options.divergence", divergence, f"another: {expected}")
    if len(vocabulary) != target.vocab_size:
        raise ConfigError("recipe.vocabulary: expected none, a small model knows all tokens")
    if model is None:
        short = first_layers(target.model, layers)
        student: Any = type(short)(short.config).to(target.model.device, target.model.dtype)
        student.load_state_dict(short.state_dict(), strict=False)  # the later layers are left
        for table in (student.get_input_embeddings(), student.get_output_embeddings()):
            table.requires_grad_(False)
    else:
        student, _ = load(model, str(target.model.dtype).removeprefix("torch."), "auto")
    head = weights.head(target).detach()

    def loss(batch: Batch) -> Tensor:
        if on_policy and student.training:
            batch = _own(student, target, batch)
        every = torch.ones(batch.ids.shape[1] - 1, dtype=torch.bool, device=batch.ids.device)
        places = chosen(every, share, student.training).nonzero()[:, 0]
        scores: Tensor = student(batch.ids, logits_to_keep=places).logits
        counted = batch.own[:, 1:][:, places]
        right = linear(batch.states[HIDDEN][:, places][counted], head)
        if not len(right):
            return scores.sum() * 0
        rows: Tensor = DIVERGENCES[divergence](scores[counted], right)
        return rows.mean()

    def save(folder: Path) -> None:
        if model is None:
            students.save(student, folder)
            return
        student.save_pretrained(folder)
        if target.tokenizer is not None:
            target.tokenizer.save_pretrained(folder)

    return Learner(student, (HIDDEN,), loss, save, option="model")


@torch.no_grad()
def _own(student: Any, target: Target, batch: Batch) -> Batch:
    """Returns the batch with the student's continuations, and the target's states along them."""
    starts = [int(row.nonzero()[0]) if row.any() else 0 for row in batch.own]
    heads = [ids[: max(1, start)].tolist() for ids, start in zip(batch.ids, starts, strict=True)]
    seeds = torch.randint(2**31, (len(heads),)).tolist()
    chances = [SampledChance.seeded(seed) for seed in seeds]
    length = batch.ids.shape[1] - max(map(len, heads))
    sampling = Sampling(temperature=1.0)
    texts = write(student, target.eos, heads, sampling, chances, max_new_tokens=max(1, length))
    whole = [[*head, *text] for head, text in zip(heads, texts, strict=True)]
    longest = max(map(len, whole))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in whole], device=batch.ids.device)
    places = torch.arange(longest, device=ids.device)
    own = torch.stack(
        [
            (places >= len(head)) & (places < len(row))
            for head, row in zip(heads, whole, strict=True)
        ]
    )
    output = target.model(ids, output_hidden_states=True, use_cache=False)
    return Batch(ids, output.logits.argmax(-1), own, {HIDDEN: output.hidden_states[-1]})
