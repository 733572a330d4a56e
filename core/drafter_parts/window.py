"""Windows: how long a text a model can read."""

from typing import TYPE_CHECKING, Any

from outrider.contract.target import Target

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def window_of(model: "PreTrainedModel") -> int | None:
    """Returns how many positions a model has, None if its config sets no limit."""
    config: Any = model.config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    return int(positions) if positions else None


def target_window(target: Target) -> int | None:
    """Returns the longest text of a target; its model's window if the target sets no limit."""
    if target.max_length is None and target.model is not None:
        return window_of(target.model)
    return target.max_length
