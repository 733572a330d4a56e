"""Distillation: a small language model learns the target's distributions."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast, final

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.nn.utils.rnn import pad_sequence

from outrider.base.bounds import checked
from outrider.base.errors import ConfigError
from outrider.base.expectations import OneOf
from outrider.contract.chance import SampledChance
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.drafters.parts.networks.logits import LogitRule
from outrider.drafters.parts.networks.student import FrequentHead, save_student
from outrider.extras.training.learner import Learner, Objective, Setup
from outrider.extras.training.losses import DIVERGENCES
from outrider.extras.training.states import Batch, sample_positions
from outrider.targets.batches.writing import write
from outrider.targets.loading import Dtype, load
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.passes.first_layers import first_layers
from outrider.targets.passes.placement import home


@final
@checked("recipe.options")
@dataclass(frozen=True, slots=True)
class DistillationObjective(Objective):
    """DistillSpec (2310.08461, section 3): the divergence from the target's distributions.

    Where it starts from the target's first layers, the embeddings and the head stay the target's,
    and are not saved. The head is most of a small model's work, which a `share` below 1 spares.

    With a vocabulary of its own, the student writes those tokens alone, and learns the target's
    distributions over them where the likeliest token is one of them.

    Raises `ConfigError` in `learner` if a `model` is to have a vocabulary of its own, or if the
    target has no more than `layers` layers.
    """

    model: str | None = None
    layers: int = 6
    divergence: Annotated[str, OneOf(DIVERGENCES)] = "forward_kl"
    on_policy: bool = False
    share: float = 1.0

    def learner(self, setup: Setup) -> Learner:
        target, vocabulary = setup.target, setup.vocabulary
        if self.model is not None and vocabulary.ids is not None:
            raise ConfigError("recipe.vocabulary: expected none with recipe.options.model")
        student = starting_student(target, self.model, self.layers)
        head, rule = setup.head, LogitRule.of(target)
        if vocabulary.ids is not None:
            student.set_output_embeddings(FrequentHead(head, vocabulary))
        divergence = DIVERGENCES[self.divergence]

        def loss(batch: Batch) -> Tensor:
            if self.on_policy and student.training:
                batch = _own_texts(student, target, batch)
            every = batch.ids[0, 1:] >= 0
            positions = sample_positions(every, self.share, student.training).nonzero()[:, 0]
            logits: Tensor = student(batch.ids, logits_to_keep=positions).logits
            counted = (batch.own[:, 1:] & vocabulary.knows(batch.best[:, :-1]))[:, positions]
            target_logits = rule(linear(batch.states[HIDDEN][:, positions][counted], head))
            if not len(target_logits):
                return logits.sum() * 0
            return divergence(vocabulary.cut(logits[counted]), target_logits).mean()

        def save_checkpoint(folder: Path) -> None:
            if self.model is None:
                save_student(student, folder, vocabulary=vocabulary)
                return
            student.save_pretrained(folder)
            if target.tokenizer is not None:
                target.tokenizer.save_pretrained(folder)

        return Learner(student, (HIDDEN,), loss, save_checkpoint, option="model")


def starting_student(target: Target, model: str | None, layers: int) -> Any:
    """Returns the model that a student starts from, with parameters of its own.

    model: a folder or hub id. None is the target's first `layers` layers, with its embeddings and
        head; these stay as they are.

    Raises `ConfigError` if there is no such model, or the target has no more than `layers` layers.
    """
    if model is not None:
        dtype = cast(Dtype, str(target.model.dtype).removeprefix("torch."))
        loaded, _ = load(model, dtype, "auto")
        return loaded
    short: Any = first_layers(target.model, layers)
    student = type(short)(short.config).to(home(target.model), target.model.dtype)
    student.load_state_dict(short.state_dict(), strict=False)  # leaves out the later layers
    for table in (student.get_input_embeddings(), student.get_output_embeddings()):
        table.requires_grad_(False)
    return student


@torch.no_grad()
def _own_texts(student: Any, target: Target, batch: Batch) -> Batch:
    """Returns the batch with the student's continuations, and the target's states along them."""
    starts = [int(row.nonzero()[0]) if row.any() else 0 for row in batch.own]
    heads = [ids[: max(1, start)].tolist() for ids, start in zip(batch.ids, starts, strict=True)]
    seeds = torch.randint(2**31, (len(heads),)).tolist()
    chances, sampling = [SampledChance.seeded(seed) for seed in seeds], Sampling(temperature=1.0)
    most = max(1, batch.ids.shape[1] - max(map(len, heads)))
    written = write(student, target.eos, heads, sampling, chances, max_new_tokens=most)
    pairs = list(zip(heads, written, strict=True))
    texts = [torch.tensor([*head, *after]) for head, after in pairs]
    ids = pad_sequence(texts, batch_first=True).to(batch.ids)
    masks = [torch.tensor([False] * len(head) + [True] * len(after)) for head, after in pairs]
    own = pad_sequence(masks, batch_first=True).to(ids.device)
    output = target.model(ids, output_hidden_states=True, use_cache=False)
    return Batch(ids, output.logits.argmax(-1), own, {HIDDEN: output.hidden_states[-1]})
