"""The config of a P-EAGLE network, as the speculators library writes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.base.errors import is_int, require
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators
from outrider.drafters.parts.networks.entries import ANY, Table, only, read_entries
from outrider.drafters.parts.networks.features import LOWEST
from outrider.drafters.parts.networks.layer import LayerConfig
from outrider.drafters.parts.networks.speculators import LAYERS_KEY

MASKS = ("mask_token_id", "pard_token", "ptd_token_id")
"""The entries of a config that may hold the id of the mask token."""

TABLE: Table = {
    **dict.fromkeys((*MASKS, "embed_requires_grad", speculators.NORM_FIRST, LAYERS_KEY), ANY),
    **only(
        norm_output=False,
        norm_before_fc=False,
        fc_norm=False,
        use_sliding_window=False,
        use_aux_hidden_state=True,
        use_last_layernorm=True,
    ),
}
"""The entries of published configs."""


@final
@dataclass(frozen=True, slots=True)
class PEagleConfig:
    """What a P-EAGLE network is made of.

    sizes: of its layers; the input of the first one is twice as wide.
    mask: the id of the target's token that stands for a mask.
    layers: the target's hidden states that it reads, each given by the number of layers below it;
        None for EAGLE-3's default, see `features.default_layers`.
    decoders: the number of its layers.
    norm_first: as for `FusionLayer`.
    normed: as for `Attention`.
    """

    sizes: LayerConfig
    mask: int
    layers: tuple[int, ...] | None = LOWEST
    decoders: int = 1
    norm_first: bool = False
    normed: bool = False

    @classmethod
    def like(
        cls,
        target: Target,
        layers: Sequence[int] = LOWEST,
        decoders: int = 1,
        inner: int | None = None,
    ) -> "PEagleConfig":
        """Returns a config with the sizes of the target's own layers. inner: as for them."""
        sizes = LayerConfig.like(target.model.config.get_text_config(), inputs=2, inner=inner)
        return cls(sizes, speculators.mask_token(target), tuple(layers), decoders)

    @classmethod
    def read(cls, folder: Path) -> "PEagleConfig":
        """Returns the config in a folder.

        Raises:
            ConfigError: an entry is missing, or stands for a network of another kind.
        """
        stored = checkpoint.read_config(folder)
        decoder = speculators.read_decoder(folder, stored)
        read_entries(folder, stored, "peagle", TABLE, decoder=decoder, nested=speculators.NESTED)
        speculators.check_full_attention(folder, decoder)
        masks = [stored[name] for name in MASKS if stored.get(name) is not None]
        is_valid = len(masks) > 0 and is_int(masks[0])
        require(is_valid, f"{folder}: {MASKS[0]}", masks, "a whole number in config.json")
        return cls(
            speculators.layer_sizes(decoder, inputs=2),
            masks[0],
            speculators.layers_read(folder, stored),
            int(decoder.num_hidden_layers),
            speculators.norm_first(folder, stored),
        )

    def stored(self, target: Target, vocabulary: int) -> dict[str, Any]:
        """Returns the contents of `config.json`, as the speculators library writes it.

        vocabulary: the number of tokens that the network knows.
        """
        model_type = "qwen3" if self.normed else "llama"
        decoder = speculators.decoder_config(target, self.sizes, model_type, self.decoders)
        config = speculators.config("peagle", target, decoder, vocabulary, tokens=8)
        return config | {
            LAYERS_KEY: None if self.layers is None else list(self.layers),
            MASKS[0]: self.mask,
            speculators.NORM_FIRST: self.norm_first,
        }
