"""The config of a DFlash network, as z-lab and the speculators library write it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from outrider.base.errors import is_int, require
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators
from outrider.drafters.parts.networks.features import LOWEST
from outrider.drafters.parts.networks.layer import LayerConfig

FULL = "full_attention"
"""The type of layers without a window."""

EXPECTED: dict[str, Any] = {
    "hidden_act": "silu",
    "causal": False,
    "is_causal": False,
    "sample_from_anchor": False,
    "use_swa": False,
    "attention_sink_bias": False,
    "attention_value_scale": 1.0,
}
"""Entries that some published configs have, and the values that `DFlashNetwork` implements."""


@final
@dataclass(frozen=True, slots=True)
class DFlashConfig:
    """What a DFlash network is made of.

    sizes: of its decoder layers.
    mask: the id of the target's token that stands for a mask.
    layers: the target's hidden states that it reads, each given by the number of layers below it.
    block: the number of tokens in a pass: the last one of the text, followed by masks.
    windows: for each decoder layer, the number of tokens in its window, which ends at the token
        that attends; None if every token sees the whole text and block.
    scale: the factor that embeddings are multiplied by.
    """

    sizes: LayerConfig
    mask: int
    layers: tuple[int, ...] = LOWEST
    block: int = 8
    windows: tuple[int | None, ...] = (None,)
    scale: float = 1.0

    @classmethod
    def like(
        cls,
        target: Target,
        *,
        layers: Sequence[int] = LOWEST,
        block: int = 8,
        decoders: int = 1,
        inner: int | None = None,
    ) -> "DFlashConfig":
        """Returns a config with the sizes of the target's own layers.

        decoders: the number of decoder layers.
        inner: the width of the feed-forward layers. Defaults to the target's.
        """
        sizes = LayerConfig.like(target.model.config.get_text_config())
        if inner is not None:
            sizes = replace(sizes, intermediate_size=inner)
        windows = (None,) * decoders
        return cls(sizes, speculators.mask_token(target), tuple(layers), block, windows)

    @classmethod
    def read(cls, folder: Path) -> "DFlashConfig":
        """Returns the config in a folder.

        Raises:
            ConfigError: an entry is missing, or stands for a network of another kind.
        """
        stored = checkpoint.read_config(folder)
        nested: dict[str, Any] = stored.get("dflash_config") or {}

        def entry(name: str) -> Any:
            return nested.get(name, stored.get(name))

        for name, value in EXPECTED.items():
            is_valid = entry(name) in (None, value)
            require(is_valid, f"{folder}: {name}", entry(name), f"{value!r} in config.json")
        decoder = speculators.read_decoder(folder, stored)
        layers = stored.get("aux_hidden_state_layer_ids")
        if layers is None:  # z-lab counts the layer that a state comes out of from 0
            layers = [layer + 1 for layer in entry("target_layer_ids") or ()]
        require(bool(layers), f"{folder}: layers", layers, "aux_hidden_state_layer_ids")
        for name, least in (("mask_token_id", 0), ("block_size", 2)):
            is_valid = is_int(entry(name)) and entry(name) >= least
            expected = f"a whole number of at least {least} in config.json"
            require(is_valid, f"{folder}: {name}", entry(name), expected)
        return cls(
            LayerConfig.like(decoder),
            mask=entry("mask_token_id"),
            layers=tuple(layers),
            block=entry("block_size"),
            windows=_windows(folder, decoder, entry),
            scale=float(entry("input_embedding_scale") or 1.0),
        )

    def stored(self, target: Target, vocabulary: int) -> dict[str, Any]:
        """Returns the contents of `config.json`, as the speculators library writes it.

        vocabulary: the number of tokens that the network knows.
        """
        decoder = speculators.decoder_config(target, self.sizes, "qwen3", len(self.windows))
        sizes = [size for size in self.windows if size is not None]
        if sizes:
            kinds = [FULL if size is None else "sliding_attention" for size in self.windows]
            decoder |= {"layer_types": kinds, "sliding_window": sizes[0]}
            decoder["use_sliding_window"] = True
        config = speculators.config("dflash", target, decoder, vocabulary, tokens=self.block - 1)
        return config | {
            "aux_hidden_state_layer_ids": list(self.layers),
            "block_size": self.block,
            "mask_token_id": self.mask,
            "input_embedding_scale": self.scale,
            "sliding_window_non_causal": not sizes,  # vLLM takes False for causal masks everywhere
        }


def _windows(folder: Path, decoder: Any, entry: Callable[[str], Any]) -> tuple[int | None, ...]:
    """Returns the window of each layer, None for full attention.

    decoder: the config of the layers. entry: returns an entry of the network's own config.

    Raises:
        ConfigError: the size of a window is missing, or tokens see later ones within it.
    """
    types = getattr(decoder, "layer_types", None) or ()
    if not set(types) - {FULL}:
        return (None,) * int(decoder.num_hidden_layers)
    both_ways = {"sliding_window_non_causal": True, "causal": False, "is_causal": False}
    for name, value in both_ways.items():
        is_valid = entry(name) is not value
        require(is_valid, f"{folder}: {name}", value, "windows that end with the token that looks")
    size = entry("swa_window_size") or getattr(decoder, "sliding_window", None)
    require(is_int(size), f"{folder}: sliding_window", size, "a whole number in config.json")
    return tuple(None if kind == FULL else size for kind in types)
