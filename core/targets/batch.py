"""Batch: many texts written at once by a transformers model, without a draft."""

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from outrider.chance import Chance
from outrider.errors import TargetError
from outrider.sampling import Sampling

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@torch.no_grad()
def write(
    model: "PreTrainedModel",
    eos: frozenset[int],
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    chances: Sequence[Chance],
    max_new_tokens: int,
) -> list[list[int]]:
    """Returns the model's continuation of each prompt, up to and with an id of `eos`.

    The prompts are padded on the left and masked there; a finished text leaves the batch. What
    a text's neighbours are changes its logits by rounding alone.

    chances: one a prompt.
    """
    from transformers import DynamicCache

    longest = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    width = max(map(len, prompts))
    texts: list[list[int]] = [[] for _ in prompts]
    limits = [
        max_new_tokens if longest is None else min(max_new_tokens, longest - len(prompt))
        for prompt in prompts
    ]
    device = model.device
    padded = [[0] * (width - len(prompt)) + list(prompt) for prompt in prompts]
    masks = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    tokens, mask = torch.tensor(padded, device=device), torch.tensor(masks, device=device)
    known = inspect.signature(model.forward).parameters
    cache, running = DynamicCache(), list(range(len(prompts)))
    while True:
        options: dict[str, Any] = {"logits_to_keep": 1} if "logits_to_keep" in known else {}
        if "position_ids" in known:
            places = (mask.cumsum(-1) - 1).clamp(min=0)
            options["position_ids"] = places[:, -tokens.shape[1] :]
        output = model(
            input_ids=tokens,
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
            **options,
        )
        logits = output.logits[:, -1]
        if not torch.isfinite(logits.amax(-1)).all():
            raise TargetError("the target gave logits with NaN, infinity or no finite entry")
        laws = sampling.law(logits)
        for law, text in zip(laws, running, strict=True):
            texts[text].append(chances[text].categorical(law))
        going = [
            row
            for row, text in enumerate(running)
            if len(texts[text]) < limits[text] and texts[text][-1] not in eos
        ]
        if not going:
            break
        if len(going) < len(running):
            rows = torch.tensor(going, device=device)
            cache.batch_select_indices(rows)
            mask = mask[rows]
        running = [running[row] for row in going]
        tokens = torch.tensor([[texts[text][-1]] for text in running], device=device)
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
    return texts
