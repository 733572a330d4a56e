"""The config of EAGLE-3's and P-EAGLE's networks, as SafeAILab, speculators and others have it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.base.errors import is_int, require
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.entries import ANY, Entry, Table, only, read_entries
from outrider.drafters.parts.networks.features import LOWEST, default_layers
from outrider.drafters.parts.networks.layer import LayerConfig
from outrider.drafters.parts.networks.speculators import (
    LAYERS_KEY,
    NESTED,
    NORM_FIRST,
    OUTPUTS_KEY,
)

NORMS: Table = {
    "norm_output": Entry("output", bool, False),
    "norm_before_fc": Entry("together", bool, False),
    "fc_norm": Entry("apart", bool, False),
}
"""The entries of EAGLE-3.1 and of gpt-oss' drafters."""

TRAINING = ("draft_num_hidden_layers", "step_loss_decay", "ttt_length")
"""Entries that say how a network was trained."""

MASKS = ("mask_token_id", "pard_token", "ptd_token_id")
"""The entries of P-EAGLE's configs that may hold the id of the mask token."""

COMMON: Table = {
    **dict.fromkeys((NORM_FIRST, LAYERS_KEY, "embed_requires_grad"), ANY),
    **only(use_sliding_window=False, use_aux_hidden_state=True, use_last_layernorm=True),
}

TABLES: Mapping[str, Table] = {
    "eagle3": {
        **COMMON,
        **NORMS,
        **dict.fromkeys((OUTPUTS_KEY, *TRAINING), ANY),
        **only(
            use_input_layernorm_in_first_layer=True,
            use_mtp_layernorm=False,
            next_layer_regular=True,
            has_lm_head=True,
            parallel_draft_step=1,
            parallel_draft_heads_num_layers=1,
        ),
    },
    "peagle": {
        **COMMON,
        **dict.fromkeys(MASKS, ANY),
        **only(norm_output=False, norm_before_fc=False, fc_norm=False),
    },
}
"""The entries of published configs, by family."""


@final
@dataclass(frozen=True, slots=True)
class Eagle3Norms:
    """Where published networks have norms beside EAGLE-3's own ones.

    first: as `norm_first` of `FusionLayer`.
    heads: as `normed` of `Attention`.
    output: whether the state that is fed back is the normed one, which the head reads
        (EAGLE-3.1).
    together: whether the target's states have a norm in common before they are fused.
    apart: whether each of them has one of its own.
    """

    first: bool = False
    heads: bool = False
    output: bool = False
    together: bool = False
    apart: bool = False

    def stored(self) -> dict[str, bool]:
        """Returns the entries of a config of the speculators library."""
        flags = {name: getattr(self, entry.field) for name, entry in NORMS.items()}
        return {NORM_FIRST: self.first, **flags}


@final
@dataclass(frozen=True, slots=True)
class Eagle3Config:
    """What a network of EAGLE-3 or P-EAGLE is made of.

    sizes: of its layers; the input of the first one is twice as wide as its output.
    layers: the target's hidden states that it reads, each given by the number of layers below it.
    mask: the id of the target's token that stands for P-EAGLE's mask.
    decoders: the number of its layers.
    """

    sizes: LayerConfig
    layers: tuple[int, ...] = LOWEST
    norms: Eagle3Norms = Eagle3Norms()
    mask: int = 0
    decoders: int = 1

    @classmethod
    def like(
        cls,
        target: Target,
        layers: Sequence[int] = LOWEST,
        inner: int | None = None,
        decoders: int = 1,
    ) -> "Eagle3Config":
        """Returns a config with the sizes of the target's own layers.

        inner: the width of the feed-forward layers. Defaults to the target's.
        """
        sizes = LayerConfig.like(target.model.config.get_text_config(), inputs=2, inner=inner)
        mask = speculators.mask_token(target)
        return cls(sizes, tuple(layers), mask=mask, decoders=decoders)

    @classmethod
    def read(cls, folder: Path, target: Target, family: str = "eagle3") -> "Eagle3Config":
        """Returns the config in a folder; the norms of its heads are known by their tensors.

        Raises `ConfigError` if an entry is missing or stands for a network of another kind, or a
        size is not the target's.
        """
        stored = checkpoint.read_config(folder)
        sizes = stored.get("transformer_layer_config") or stored
        weights.require_fit(folder, sizes, target)
        is_masked = family == "peagle"
        decoder = speculators.read_decoder(folder, stored, "qwen3" if is_masked else "llama")
        table = TABLES[family]
        fields = read_entries(folder, stored, family, table, decoder=decoder, nested=NESTED)
        speculators.check_full_attention(folder, decoder)
        count, mask = sizes.get("num_hidden_layers") or 1, 0
        if is_masked:
            masks = [stored[name] for name in MASKS if stored.get(name) is not None]
            is_valid = len(masks) > 0 and is_int(masks[0])
            require(is_valid, f"{folder}: {MASKS[0]}", masks, "a whole number in config.json")
            mask = masks[0]
            speculators.require_fit(folder, decoder, mask, target)
        else:
            require(count == 1, f"{folder}: num_hidden_layers", count, "1 in config.json")
            is_valid = not (fields["together"] and fields["apart"])
            require(is_valid, f"{folder}: fc_norm", True, "False with norm_before_fc")
        first = speculators.norm_first(folder, {**stored, **(stored.get(NESTED) or {})})
        layers = speculators.layers_read(folder, stored) or default_layers(target)
        norms = Eagle3Norms(first=first, **fields)
        return cls(speculators.layer_sizes(decoder, inputs=2), layers, norms, mask, count)

    def stored(self, family: str, target: Target, vocabulary: int) -> dict[str, Any]:
        """Returns the contents of `config.json`, as the speculators library writes it.

        vocabulary: the number of tokens that the network knows.
        """
        model_type = "qwen3" if self.norms.heads else "llama"
        decoder = speculators.decoder_config(target, self.sizes, model_type, self.decoders)
        tokens, own = (8, {MASKS[0]: self.mask}) if family == "peagle" else (4, {})
        config = speculators.config(family, target, decoder, vocabulary, tokens)
        return config | {LAYERS_KEY: list(self.layers), **self.norms.stored(), **own}
