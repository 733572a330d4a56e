"""EncodedCache: passes of an encoder-decoder, whose encoder reads its source once."""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers.cache_utils import EncoderDecoderCache

from outrider.base.errors import TargetError
from outrider.base.pretrained import Model
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import Pass, PassCache, PassInput, cache_argument
from outrider.targets.passes.placement import home


def has_encoder(model: Model) -> bool:
    """Returns whether a model has an encoder, which reads a source."""
    return bool(model.config.is_encoder_decoder)


def decoder_start(model: Model) -> list[int]:
    """Returns the ids that the decoder's text begins with; none if the model has no encoder.

    Raises `TargetError` if the encoder does not read text, or the configuration has no start token.
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
class EncodedCache(PassCache):
    """What an encoder-decoder has read: the source, and its decoder's text so far.

    The encoder runs in the first pass. A rollback changes the decoder's own keys and values only;
    those of the source stay.
    """

    def __init__(self, model: Model, source: Sequence[int]) -> None:
        self._model: Any = model
        self._ids = torch.tensor([[*source]], device=home(model))
        self._source_mask = torch.ones_like(self._ids)
        self._own = GrowingCache()
        self._both = EncoderDecoderCache(self._own, GrowingCache())
        self._encoded: Any = None  # the encoder's output, in transformers' own class

    def get_seq_length(self) -> int:
        return int(self._own.get_seq_length())

    def crop(self, count: int) -> None:
        self._own.crop(count)

    def retain_rows(self, count: int, rows: Sequence[int]) -> None:
        self._own.retain_rows(count, rows)

    @torch.no_grad()
    def feed(self, inputs: PassInput) -> Pass:
        """Appends tokens to the text. Such a model returns no states."""
        if self._encoded is None:
            encoder = self._model.get_encoder()
            self._encoded = encoder(input_ids=self._ids, attention_mask=self._source_mask)
        mask = inputs.mask
        if mask is not None and inputs.positions is not None:
            mask = mask + self._bias_correction(inputs.positions)
        output = self._model(
            encoder_outputs=self._encoded,
            attention_mask=self._source_mask,
            decoder_input_ids=inputs.ids,
            decoder_attention_mask=mask,
            use_cache=True,
            **{cache_argument(type(self._model).forward): self._both},
        )
        return Pass(output.logits[:, -inputs.rows :], {})

    def _bias_correction(
        self, positions: Int[Tensor, "1 tokens"]
    ) -> Float[Tensor, "1 heads tokens all"]:
        """Returns what to add to T5's bias if positions in the text and in the cache differ.

        T5 adds a bias by the distance between two tokens, which it measures in the cache. The first
        layer computes the bias for all layers, so a mask can correct it.
        """
        known, count = self.get_seq_length(), positions.shape[1]
        decoder = self._model.get_decoder()
        if not hasattr(decoder, "block"):
            name = type(self._model).__name__
            raise TargetError(f"model {name}: its decoder counts positions itself: expected chains")
        attention = decoder.block[0].layer[0].SelfAttention
        everything = torch.cat([torch.arange(known, device=positions.device), positions[0]])
        buckets = attention._relative_position_bucket(
            everything[None] - positions[0][:, None],
            bidirectional=False,
            num_buckets=attention.relative_attention_num_buckets,
            max_distance=attention.relative_attention_max_distance,
        )
        right = attention.relative_attention_bias(buckets).permute(2, 0, 1)[None]
        added = attention.compute_bias(count, known + count, past_seen_tokens=known)
        correction: Tensor = right - added
        return correction
