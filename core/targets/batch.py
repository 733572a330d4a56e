"""Batch: many texts written at once by a transformers model, without a draft."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Int
from torch import Tensor

from outrider.contract.chance import TARGET, Chance
from outrider.contract.sampling import Sampling
from outrider.contract.target import check_finite
from outrider.runtime.cache import GrowingCache
from outrider.runtime.encoded import EncodedCache
from outrider.runtime.passes import PassInput
from outrider.runtime.step import run_pass
from outrider.runtime.tree_mask import additive_mask, padded_causal
from outrider.runtime.windows import context_window

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FULL = 0.8
"""Texts that have ended leave the cache once at most this share of the batch is in progress."""

ROWS = 1024
"""The most tokens in one pass, over all texts: whole long prompts would need a large mask."""


@torch.no_grad()
def write(
    model: "PreTrainedModel",
    eos: frozenset[int],
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    chances: Sequence[Chance],
    *,
    max_new_tokens: int,
    encoded: EncodedCache | None = None,
) -> list[list[int]]:
    """Returns the model's continuation of each prompt, up to and including an id of `eos`.

    The prompts are padded on the left and masked there; texts that have ended leave the batch. A
    text's neighbours change its logits by rounding alone.

    chances: one for each prompt.
    encoded: the sources of an encoder-decoder; the prompts are then the starts of its texts, all
        of one length.
    """
    texts: list[list[int]] = [[] for _ in prompts]
    parts = [chance.named(TARGET) for chance in chances]
    limits = _limits(model, prompts, max_new_tokens)
    batch = PaddedBatch(model, prompts, encoded)
    while batch.running:
        probs = sampling.probs(batch.logits())
        for distribution, text in zip(probs, batch.running, strict=True):
            if text not in batch.ended:
                token = parts[text].categorical(distribution)
                texts[text].append(token)
                if len(texts[text]) == limits[text] or token in eos:
                    batch.ended.add(text)
        batch.go_on(texts)
    return texts


def _limits(
    model: "PreTrainedModel", prompts: Sequence[Sequence[int]], max_new_tokens: int
) -> list[int]:
    """Returns how many tokens each text may have, within the model's context window."""
    longest = context_window(model)
    if longest is None:
        return [max_new_tokens] * len(prompts)
    return [min(max_new_tokens, longest - len(prompt)) for prompt in prompts]


@final
class PaddedBatch:
    """The texts that are being written, and the tokens that the next pass reads.

    running: the texts that are still in the cache, in the order of its rows.
    ended: those that need no more tokens.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        prompts: Sequence[Sequence[int]],
        encoded: EncodedCache | None,
    ) -> None:
        width = max(map(len, prompts))
        padded = [[0] * (width - len(prompt)) + list(prompt) for prompt in prompts]
        self._model, self._encoded = model, encoded is not None
        self._tokens = torch.tensor(padded, device=model.device)
        self._padding = torch.tensor(
            [width - len(prompt) for prompt in prompts], device=model.device
        )
        self._cache: Any = GrowingCache() if encoded is None else encoded
        self.running: list[int] = list(range(len(prompts)))
        self.ended: set[int] = set()

    def logits(self) -> Tensor:
        """Reads the next tokens, and returns the logits after them [texts, vocab].

        Raises:
            TargetError: a row of them is no distribution.
        """
        for tokens in torch.split(self._tokens, max(1, ROWS // len(self._tokens)), dim=1):
            logits = run_pass(self._model, self._cache, self._inputs(tokens)).logits[:, -1]
        check_finite(logits)
        return logits

    def _inputs(self, tokens: Int[Tensor, "texts tokens"]) -> PassInput:
        if self._encoded:  # the starts of its texts need no padding
            return PassInput(tokens, 1)
        known, count = int(self._cache.get_seq_length()), tokens.shape[1]
        columns = torch.arange(known, known + count, device=tokens.device)
        positions = (columns - self._padding[:, None]).clamp(min=0)
        sees = padded_causal(self._padding, count, known + count)
        return PassInput(tokens, 1, additive_mask(sees, self._model.dtype)[:, None], positions)

    def go_on(self, texts: Sequence[Sequence[int]]) -> None:
        """Makes each text's last token the next to read, and drops ended texts if they are many."""
        active = [row for row, text in enumerate(self.running) if text not in self.ended]
        if not active:
            self.running = []
            return
        if len(active) <= FULL * len(self.running):
            rows = torch.tensor(active, device=self._tokens.device)
            self._cache.batch_select_indices(rows)
            self._padding = self._padding[rows]
            self.running = [self.running[row] for row in active]
        last = [[texts[text][-1]] for text in self.running]
        self._tokens = torch.tensor(last, device=self._tokens.device)
