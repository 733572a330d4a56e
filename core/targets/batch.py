"""Batch: many texts written at once by a transformers model, without a draft."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.sampling import Sampling
from outrider.contract.target import check_finite
from outrider.runtime.cache import growing
from outrider.runtime.encoded import EncodedCache
from outrider.runtime.step import run_pass

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FULL = 0.8
"""Ended texts are taken out of the cache once no more than this share of a batch goes on."""


@torch.no_grad()
def write(
    model: "PreTrainedModel",
    eos: frozenset[int],
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    chances: Sequence[Chance],
    max_new_tokens: int,
    encoded: EncodedCache | None = None,
) -> list[list[int]]:
    """Returns the model's continuation of each prompt, up to and with an id of `eos`.

    The prompts are padded on the left and masked there; finished texts leave the batch. What
    a text's neighbours are changes its logits by rounding alone.

    chances: one a prompt.
    encoded: the sources of an encoder-decoder, of which the prompts are the starts of its texts.
    """
    longest = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    width = max(map(len, prompts))
    texts: list[list[int]] = [[] for _ in prompts]
    limits = [
        max_new_tokens if longest is None else min(max_new_tokens, longest - len(prompt))
        for prompt in prompts
    ]
    device = model.device
    padded = [[0] * (width - len(prompt)) + list(prompt) for prompt in prompts]
    tokens = torch.tensor(padded, device=device)
    pads = torch.tensor([width - len(prompt) for prompt in prompts], device=device)
    cache: Any = growing() if encoded is None else encoded
    running, ended = list(range(len(prompts))), set[int]()
    while True:
        known = int(cache.get_seq_length())
        where: dict[str, Any] = {}
        if encoded is None:  # the starts of texts are of one length
            places = torch.arange(known, known + tokens.shape[1], device=device) - pads[:, None]
            mask = _mask(pads, known, tokens.shape[1], model.dtype)
            where = {"mask": mask, "positions": places.clamp(min=0)}
        logits = run_pass(model, tokens, cache, rows=1, **where).logits[:, -1]
        check_finite(logits)
        probs = sampling.probs(logits)
        for distribution, text in zip(probs, running, strict=True):
            if text not in ended:
                texts[text].append(chances[text].categorical(distribution))
                if len(texts[text]) == limits[text] or texts[text][-1] in eos:
                    ended.add(text)
        going = [row for row, text in enumerate(running) if text not in ended]
        if not going:
            break
        if len(going) <= FULL * len(running):
            rows = torch.tensor(going, device=device)
            cache.batch_select_indices(rows)
            pads, running = pads[rows], [running[row] for row in going]
        tokens = torch.tensor([[texts[text][-1]] for text in running], device=device)
    return texts


def _mask(
    pads: Int[Tensor, "batch"], known: int, count: int, dtype: torch.dtype
) -> Float[Tensor, "batch 1 count all"]:
    """Returns what is added to attention's scores: each token sees its text up to itself."""
    everything = torch.arange(known + count, device=pads.device)
    seen = (everything[None] >= pads[:, None])[:, None] & (
        everything[None] <= everything[known:, None]
    )
    # Padding sees something finite, so that it is no NaN that spreads.
    low = torch.finfo(dtype).min
    return torch.zeros(seen.shape, dtype=dtype, device=pads.device).masked_fill(~seen, low)[:, None]
