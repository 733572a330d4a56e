"""The config of an EAGLE-3 network, in the layouts of SafeAILab, speculators and others."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from outrider.base.errors import require
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

TRAINING = ("embed_requires_grad", "draft_num_hidden_layers", "step_loss_decay", "ttt_length")
"""Entries that say how a network was trained."""

TABLE: Table = {
    **NORMS,
    **dict.fromkeys((NORM_FIRST, LAYERS_KEY, OUTPUTS_KEY, *TRAINING), ANY),
    **only(
        use_sliding_window=False,
        use_aux_hidden_state=True,
        use_input_layernorm_in_first_layer=True,
        use_last_layernorm=True,
        use_mtp_layernorm=False,
        next_layer_regular=True,
        has_lm_head=True,
        parallel_draft_step=1,
        parallel_draft_heads_num_layers=1,
    ),
}
"""The entries of published configs."""


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
    """What an EAGLE-3 network is made of.

    sizes: of its layer, whose input is twice as wide as its output.
    layers: the target's hidden states that it reads, each given by the number of layers below it.
    """

    sizes: LayerConfig
    layers: tuple[int, ...] = LOWEST
    norms: Eagle3Norms = Eagle3Norms()

    @classmethod
    def read(cls, folder: Path, target: Target) -> "Eagle3Config":
        """Returns the config in a folder; the norms of its heads are known by their tensors.

        Raises:
            ConfigError: an entry stands for a network of another kind, or a size is not the
                target's.
        """
        stored = checkpoint.read_config(folder)
        sizes = stored.get("transformer_layer_config") or stored
        weights.require_fit(folder, sizes, target)
        decoder = speculators.read_decoder(folder, stored, "llama")
        fields = read_entries(folder, stored, "eagle3", TABLE, decoder=decoder, nested=NESTED)
        speculators.check_full_attention(folder, decoder)
        count = sizes.get("num_hidden_layers")
        require(count in (None, 1), f"{folder}: num_hidden_layers", count, "1 in config.json")
        is_valid = not (fields["together"] and fields["apart"])
        require(is_valid, f"{folder}: fc_norm", True, "False with norm_before_fc")
        first = speculators.norm_first(folder, {**stored, **(stored.get(NESTED) or {})})
        layers = speculators.layers_read(folder, stored) or default_layers(target)
        norms = Eagle3Norms(first=first, **fields)
        return cls(speculators.layer_sizes(decoder, inputs=2), layers, norms)
