"""The config of EAGLE-3's and P-EAGLE's networks, as SafeAILab, speculators and others have it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.base.errors import ConfigError, is_int, require
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.entries import ANY, Entry, Table, only, read_entries
from outrider.drafters.parts.networks.features import LOWEST, default_layers
from outrider.drafters.parts.networks.layer import LayerConfig
from outrider.drafters.parts.networks.speculators import LAYERS_KEY, NESTED, OUTPUTS_KEY

NORM_FIRST = "norm_before_residual"
"""The entry that says what the residual of the first layer adds to."""

NORMS: Table = {
    "norm_output": Entry("norm_output", bool, False),
    "norm_before_fc": Entry("norm_together", bool, False),
    "fc_norm": Entry("norm_apart", bool, False),
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
class Eagle3Config:
    """What a network of EAGLE-3 or P-EAGLE is made of.

    sizes: of its layers; the input of the first one is twice as wide as its output.
    layers: the target's hidden states that it reads, each given by the number of layers below it.
    mask: the id of the target's token that stands for P-EAGLE's mask.
    decoders: the number of its layers.
    norm_first, norm_heads: as `norm_first` of `FusionLayer`, and as `normed` of `Attention`.
    norm_output: whether the state that is fed back is the normed one, which the head reads
        (EAGLE-3.1).
    norm_together, norm_apart: whether the target's states have a norm in common before they are
        fused, and whether each of them has one of its own.
    """

    sizes: LayerConfig
    layers: tuple[int, ...] = LOWEST
    mask: int = 0
    decoders: int = 1
    norm_first: bool = False
    norm_heads: bool = False
    norm_output: bool = False
    norm_together: bool = False
    norm_apart: bool = False

    @classmethod
    def like(
        cls,
        target: Target,
        layers: Sequence[int] = LOWEST,
        inner: int | None = None,
        decoders: int = 1,
    ) -> "Eagle3Config":
        """Returns a config with the target's own sizes. inner: the feed-forward width."""
        sizes = LayerConfig.like(target.model.config.get_text_config(), inputs=2, inner=inner)
        mask = speculators.mask_token(target)
        return cls(sizes, tuple(layers), mask, decoders)

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
        types = sorted({*(getattr(decoder, "layer_types", None) or ())} - {"full_attention"})
        require(not types, f"{folder}: layer_types", types, "full_attention in every layer")
        count, mask = sizes.get("num_hidden_layers") or 1, 0
        if is_masked:
            masks = [stored[name] for name in MASKS if stored.get(name) is not None]
            is_valid = len(masks) > 0 and is_int(masks[0])
            require(is_valid, f"{folder}: {MASKS[0]}", masks, "a whole number in config.json")
            mask = masks[0]
            speculators.require_fit(folder, decoder, mask, target)
        else:
            require(count == 1, f"{folder}: num_hidden_layers", count, "1 in config.json")
            is_valid = not (fields["norm_together"] and fields["norm_apart"])
            require(is_valid, f"{folder}: fc_norm", True, "False with norm_before_fc")
        first = (stored.get(NESTED) or {}).get(NORM_FIRST, stored.get(NORM_FIRST))
        if first is None and "speculators_model_type" in stored:
            raise ConfigError(
                f"{folder}: config.json names no {NORM_FIRST}: expected true or false, since the"
                " speculators library takes a missing entry as false, and vLLM as true"
            )
        own = speculators.layer_sizes(decoder, inputs=2)
        layers = speculators.layers_read(folder, stored) or default_layers(target)
        return cls(own, layers, mask, count, norm_first=bool(first), **fields)

    def stored(self, family: str, target: Target, vocabulary: int) -> dict[str, Any]:
        """Returns the contents of `config.json`. vocabulary: how many tokens are known."""
        model_type = "qwen3" if self.norm_heads else "llama"
        decoder = speculators.decoder_config(target, self.sizes, model_type, self.decoders)
        tokens, own = (8, {MASKS[0]: self.mask}) if family == "peagle" else (4, {})
        config = speculators.config(family, target, decoder, vocabulary, tokens)
        norms = {name: getattr(self, entry.field) for name, entry in NORMS.items()}
        entries = {LAYERS_KEY: list(self.layers), NORM_FIRST: self.norm_first, **norms}
        return config | entries | own
