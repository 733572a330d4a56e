"""CachedModel: a transformers model together with the key-value cache of one text."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.errors import TargetError
from outrider.runtime.cache import retain_rows
from outrider.runtime.encoded import EncodedCache, has_encoder
from outrider.runtime.rows import Rows
from outrider.runtime.step import new_cache, run_pass

if TYPE_CHECKING:
    from transformers import PreTrainedModel

HIDDEN = "hidden_states"
CACHE = "cache"
SOURCE = "source"


@final
class CachedModel:
    """Scores further tokens of a text in one pass each, and rolls back exactly.

    The cache keeps every position, also where a model attends to a sliding window (the mask
    sees to the window), since a window that dropped its past can't be rolled back.

    features: what to keep of the text, by name: "hidden_states" is what the head reads, and
        "hidden_states.7" what seven layers give; "cache" is "keys.0" and "values.0", those of
        the first layer [tokens, heads, dim], and so on.

    source: what the encoder of a model that has one reads, once. Such a model has no features.

    Raises `TargetError` for a model whose state can't be rolled back, and for an encoder without a
    source or a source without an encoder.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        features: Collection[str] = (),
        source: Sequence[int] | None = None,
    ) -> None:
        refuse_stateful(model)
        refuse_other_kind(model, encoder=source is not None)
        self.model = model
        self._wanted = {name: layer(name) for name in features if name.startswith(HIDDEN)}
        self._shows_cache = CACHE in features
        self._rows = {name: Rows() for name in self._wanted}
        self._cache: Any = new_cache(model) if source is None else EncodedCache(model, [source])

    @property
    def features(self) -> dict[str, Float[Tensor, "tokens width"]]:
        """Returns what was asked for of the text so far, by name; views that a round may change."""
        found = {name: rows.all() for name, rows in self._rows.items() if len(rows)}
        if self._shows_cache and self.length:
            layers: Any = self._cache.layers
            for place, kept in enumerate(layers):
                found[f"keys.{place}"] = kept.keys[0].transpose(0, 1)
                found[f"values.{place}"] = kept.values[0].transpose(0, 1)
        return found

    @property
    def length(self) -> int:
        """Returns the number of tokens in the cache."""
        return int(self._cache.get_seq_length())

    @torch.no_grad()
    def feed(
        self,
        tokens: Sequence[int],
        rows: int,
        *,
        mask: Float[Tensor, "1 1 tokens all"] | None = None,
        positions: Int[Tensor, "1 tokens"] | None = None,
    ) -> Float[Tensor, "rows vocab"]:
        """Appends `tokens` to the cache, and returns the logits of the last `rows` of them.

        mask, positions: where the tokens are no chain, added to the attention's scores.
        """
        found = run_pass(
            self.model,
            torch.tensor([list(tokens)], device=self.model.device),
            self._cache,
            rows=rows,
            mask=mask,
            positions=positions,
            states=set(self._wanted.values()),
        )
        for name, place in self._wanted.items():
            self._rows[name].extend(found.states[place][0])
        return found.logits[0]

    def drop(self, count: int) -> None:
        """Takes the last `count` tokens out of the cache."""
        self._cache.crop(-count)
        for rows in self._rows.values():
            rows.crop(self.length)

    def retain_rows(self, count: int, rows: Sequence[int]) -> None:
        """Of the last `count` tokens, keeps those at `rows`, in that order."""
        start = self.length - count
        retain_rows(self._cache, count, rows)
        for kept in self._rows.values():
            kept.retain_rows(start, rows)


def layer(name: str) -> int:
    """Returns the place among a model's hidden states of a feature's name."""
    return int(name.partition(".")[2] or -1)


def refuse_other_kind(model: "PreTrainedModel", *, encoder: bool) -> None:
    """Raises `TargetError` where a model has an encoder and should not, or the other way round."""
    if has_encoder(model) and not encoder:
        raise TargetError(
            f"model {type(model).__name__} has an encoder, and the target none for a source to be"
            " read from: expected a decoder-only model"
        )
    if encoder and not has_encoder(model):
        raise TargetError(
            f"model {type(model).__name__} has no encoder for the target's source:"
            " expected an encoder-decoder model"
        )


def refuse_stateful(model: "PreTrainedModel") -> None:
    """Raises `TargetError` where a model keeps a state that no cache can roll back."""
    kinds = set(getattr(model.config.get_text_config(), "layer_types", None) or ())
    kinds -= {"full_attention", "sliding_attention", "chunked_attention"}
    if getattr(model, "_is_stateful", False) or kinds:
        reason = f"layers of {', '.join(sorted(kinds))}" if kinds else "a recurrent state"
        raise TargetError(
            f"model {type(model).__name__}: {reason} can't be rolled back after a rejection"
        )
