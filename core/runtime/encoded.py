"""EncodedCache: passes of an encoder-decoder, whose encoder reads its source once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from outrider.errors import TargetError
from outrider.runtime.cache import growing, retain_rows

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BRANCHING = ("mt5", "t5")
"""The model types whose decoders place a tree's tokens by a table that a mask can correct."""


def has_encoder(model: "PreTrainedModel") -> bool:
    """Returns whether a model's text is written about a source, which its encoder reads."""
    return bool(model.config.is_encoder_decoder)


def begins(model: "PreTrainedModel") -> list[int]:
    """Returns the ids that the decoder's text begins with; none where there is no encoder.

    Raises:
        TargetError: the encoder does not read text, or no start token is given.
    """
    if not has_encoder(model):
        return []
    name = type(model).__name__
    if model.main_input_name != "input_ids":
        raise TargetError(
            f"model {name} reads {model.main_input_name}: expected one that reads text"
        )
    for settings in (model.generation_config, model.config):
        start = getattr(settings, "decoder_start_token_id", None)
        if isinstance(start, int):
            forced = getattr(model.generation_config, "forced_bos_token_id", None)
            return [start] if forced is None else [start, int(forced)]
    raise TargetError(f"model {name}: expected decoder_start_token_id in its configuration")


@final
class EncodedCache:
    """What an encoder-decoder has read: the sources, and its decoder's texts so far.

    The encoder runs in the first pass. A rollback touches the decoder's own keys and values; those of
    the source stay.

    sources: one a text of a batch, padded at their ends and masked there.
    """

    def __init__(self, model: "PreTrainedModel", sources: Sequence[Sequence[int]]) -> None:
        self._model = model
        longest = max(map(len, sources))
        rows = [[*source, *[0] * (longest - len(source))] for source in sources]
        self._ids = torch.tensor(rows, device=model.device)
        lengths = torch.tensor([len(source) for source in sources], device=model.device)
        places = torch.arange(longest, device=model.device)
        self._seen = (places[None] < lengths[:, None]).long()
        self._own = growing()
        self._both = EncoderDecoderCache(self._own, growing())
        self._states: Tensor | None = None

    def get_seq_length(self) -> int:
        """Returns the number of tokens of the texts."""
        return int(self._own.get_seq_length())

    def crop(self, count: int) -> None:
        """Takes the last -count tokens out of the texts."""
        self._own.crop(count)

    def retain_rows(self, count: int, rows: Sequence[int]) -> None:
        """Of the last `count` tokens, keeps those at `rows`, in that order."""
        retain_rows(self._own, count, rows)

    def batch_select_indices(self, rows: Int[Tensor, "some"]) -> None:
        """Keeps some of the texts."""
        for cache in (self._own, self._both.cross_attention_cache):
            cache.batch_select_indices(rows)
        self._seen = self._seen[rows]
        self._states = None if self._states is None else self._states[rows]

    @torch.no_grad()
    def feed(
        self,
        ids: Int[Tensor, "batch tokens"],
        rows: int,
        mask: Float[Tensor, "1 1 tokens all"] | None,
        positions: Int[Tensor, "1 tokens"] | None,
    ) -> Float[Tensor, "batch rows vocab"]:
        """Appends tokens to the texts, as `outrider.runtime.step.run_pass` does."""
        loose: Any = self._model
        if self._states is None:
            encoder = loose.get_encoder()
            self._states = encoder(input_ids=self._ids, attention_mask=self._seen).last_hidden_state
        if mask is not None and positions is not None:
            mask = mask + self._correction(positions)
        output = loose(
            encoder_outputs=BaseModelOutput(last_hidden_state=self._states),
            attention_mask=self._seen,
            decoder_input_ids=ids,
            decoder_attention_mask=mask,
            past_key_values=self._both,
            use_cache=True,
        )
        logits: Tensor = output.logits[:, -rows:]
        return logits

    def _correction(
        self, positions: Int[Tensor, "1 tokens"]
    ) -> Float[Tensor, "1 heads tokens all"]:
        """Returns what T5's bias lacks where tokens lie elsewhere than in a row.

        T5 adds a bias by the distance between two tokens, which it takes for that of their places
        in the cache. The first layer makes it for all, so that a mask can put it right.
        """
        known, count = self.get_seq_length(), positions.shape[1]
        loose: Any = self._model
        attention = loose.get_decoder().block[0].layer[0].SelfAttention
        places = torch.cat([torch.arange(known, device=positions.device), positions[0]])
        buckets = attention._relative_position_bucket(
            places[None] - positions[0][:, None],
            bidirectional=False,
            num_buckets=attention.relative_attention_num_buckets,
            max_distance=attention.relative_attention_max_distance,
        )
        right = attention.relative_attention_bias(buckets).permute(2, 0, 1)[None]
        shown = attention.compute_bias(count, known + count, past_seen_tokens=known)
        missing: Tensor = right - shown
        return missing
