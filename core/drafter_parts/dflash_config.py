"""The config of a DFlash network, as z-lab and the speculators library write it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from outrider.contract.target import Target
from outrider.drafter_parts import checkpoint, speculators
from outrider.drafter_parts.features import LOWEST
from outrider.drafter_parts.layer import LayerConfig
from outrider.errors import is_int, require

EXPECTED: dict[str, Any] = {
    "hidden_act": "silu",
    "causal": False,
    "is_causal": False,
    "sample_from_anchor": False,
    "use_swa": False,
    "attention_sink_bias": False,
    "input_embedding_scale": 1.0,
    "attention_value_scale": 1.0,
}
"""Entries that some published configs have, and the values that `DFlashNetwork` stands for."""


@final
@dataclass(frozen=True, slots=True)
class DFlashConfig:
    """What a DFlash network is made of.

    sizes: of its decoder layers.
    mask: the id of the target's token that stands for a mask.
    layers: the target's hidden states that it reads, each given by the number of layers below it.
    block: the number of tokens in a pass: the last one of the text, and masks behind it.
    decoders: the number of decoder layers.
    """

    sizes: LayerConfig
    mask: int
    layers: tuple[int, ...] = LOWEST
    block: int = 8
    decoders: int = 1

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

        inner: the width of the feed-forward layers. Defaults to the target's.
        """
        sizes = LayerConfig.like(target.model.config.get_text_config())
        if inner is not None:
            sizes = replace(sizes, intermediate_size=inner)
        return cls(sizes, speculators.mask_token(target), tuple(layers), block, decoders)

    @classmethod
    def read(cls, folder: Path) -> "DFlashConfig":
        """Returns the config in a folder.

        Raises:
            ConfigError: an entry is missing, or stands for a network of another kind.
        """
        stored = checkpoint.read_config(folder)
        own: dict[str, Any] = stored.get("dflash_config") or {}

        def entry(name: str) -> Any:
            return own.get(name, stored.get(name))

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
            decoders=int(decoder.num_hidden_layers),
        )

    def stored(self, target: Target, vocabulary: int) -> dict[str, Any]:
        """Returns the contents of `config.json`, as the speculators library writes it.

        vocabulary: the number of tokens that the network knows.
        """
        decoder = speculators.decoder_config(target, self.sizes, "qwen3", self.decoders)
        config = speculators.config("dflash", target, decoder, vocabulary, tokens=self.block - 1)
        return config | {
            "aux_hidden_state_layer_ids": list(self.layers),
            "block_size": self.block,
            "mask_token_id": self.mask,
            "sliding_window_non_causal": True,  # vLLM takes False for causal masks everywhere
        }
