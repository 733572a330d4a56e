"""CachedModel: a transformers decoder together with the key-value cache of one text."""

import inspect
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.errors import TargetError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

HIDDEN = "hidden_states"


@final
class CachedModel:
    """Scores further tokens of a text in one pass each, and rolls back exactly.

    The cache keeps every position, also where a model attends to a sliding window (the mask
    sees to the window), since a window that dropped its past can't be rolled back.

    features: what to keep of the text, by name: "hidden_states" is what the head reads, and
        "hidden_states.7" what seven layers give.

    Raises `TargetError` for a model whose state can't be rolled back.
    """

    def __init__(self, model: "PreTrainedModel", features: Collection[str] = ()) -> None:
        from transformers import DynamicCache

        refuse_stateful(model)
        self.model = model
        self.features: dict[str, Float[Tensor, "tokens width"]] = {}
        self._wanted = {name: layer(name) for name in features if name.startswith(HIDDEN)}
        self._cache = DynamicCache()
        self._keeps_rows = "logits_to_keep" in inspect.signature(model.forward).parameters

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
        options: dict[str, Any] = {"logits_to_keep": rows} if self._keeps_rows else {}
        if mask is not None:
            options |= {"attention_mask": mask, "position_ids": positions}
        if self._wanted:
            options |= {"output_hidden_states": True}
        output = self.model(
            input_ids=torch.tensor([list(tokens)], device=self.model.device),
            past_key_values=self._cache,
            use_cache=True,
            **options,
        )
        for name, place in self._wanted.items():
            new = output.hidden_states[place][0]
            old = self.features.get(name)
            self.features[name] = new if old is None else torch.cat([old, new])
        logits: Tensor = output.logits[0, -rows:]
        return logits

    def drop(self, count: int) -> None:
        """Takes the last `count` tokens out of the cache."""
        self._cache.crop(-count)
        self.features = {name: rows[: self.length] for name, rows in self.features.items()}

    def keep(self, count: int, rows: Sequence[int]) -> None:
        """Of the last `count` tokens, keeps those at `rows`, in that order."""
        start = self.length - count
        kept = torch.tensor(
            [start + row for row in rows], device=self.model.device, dtype=torch.long
        )
        layers: Any = self._cache.layers  # each of full length, as its own type can't say
        for layer in layers:
            layer.keys = torch.cat([layer.keys[..., :start, :], layer.keys[..., kept, :]], dim=-2)
            layer.values = torch.cat(
                [layer.values[..., :start, :], layer.values[..., kept, :]], dim=-2
            )
        for name, states in self.features.items():
            self.features[name] = torch.cat([states[:start], states[kept]])


def layer(name: str) -> int:
    """Returns the place among a model's hidden states of a feature's name."""
    return int(name.partition(".")[2] or -1)


def refuse_stateful(model: "PreTrainedModel") -> None:
    """Raises `TargetError` where a model keeps a state that no cache can roll back."""
    kinds = set(getattr(model.config.get_text_config(), "layer_types", None) or ())
    kinds -= {"full_attention", "sliding_attention", "chunked_attention"}
    if getattr(model, "_is_stateful", False) or kinds:
        reason = f"layers of {', '.join(sorted(kinds))}" if kinds else "a recurrent state"
        raise TargetError(
            f"model {type(model).__name__}: {reason} can't be rolled back after a rejection"
        )
