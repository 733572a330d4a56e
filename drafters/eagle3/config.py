"""The config of an EAGLE-3 network, in the layouts of SafeAILab, speculators and others."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.base.errors import require
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.config_entries import require_known
from outrider.drafters.parts.networks.features import LOWEST, default_layers
from outrider.drafters.parts.networks.layer import LayerConfig
from outrider.drafters.parts.networks.speculators import (
    LAYERS_KEY,
    NESTED,
    NORM_FIRST,
    OUTPUTS_KEY,
)

EXPECTED: dict[str, Any] = {
    "use_sliding_window": False,
    "use_aux_hidden_state": True,
    "use_input_layernorm_in_first_layer": True,
    "use_last_layernorm": True,
    "use_mtp_layernorm": False,
    "next_layer_regular": True,
    "has_lm_head": True,
    "parallel_draft_step": 1,
    "parallel_draft_heads_num_layers": 1,
}
"""Entries that some published configs have, and the values that `Eagle3Network` implements."""

TRAINING = ("embed_requires_grad", "draft_num_hidden_layers", "step_loss_decay", "ttt_length")
"""Entries that say how a network was trained."""

NORMS = ("norm_output", "norm_before_fc", "fc_norm")
"""The entries of EAGLE-3.1 and of gpt-oss' drafters."""


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
        flags = dict(zip(NORMS, (self.output, self.together, self.apart), strict=True))
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
        weights.require_fit(folder, stored.get("transformer_layer_config") or stored, target)
        decoder = speculators.read_decoder(folder, stored, "llama")
        require_known(
            folder,
            stored,
            decoder,
            family="eagle3",
            own={*NORMS, *TRAINING, NORM_FIRST, LAYERS_KEY, OUTPUTS_KEY},
            expected=EXPECTED,
            nested=NESTED,
        )
        speculators.check_full_attention(folder, decoder)
        count = (stored.get("transformer_layer_config") or stored).get("num_hidden_layers")
        require(count in (None, 1), f"{folder}: num_hidden_layers", count, "1 in config.json")
        inner = stored.get(NESTED) or {}
        output, together, apart = (bool(inner.get(name, stored.get(name))) for name in NORMS)
        require(not (together and apart), f"{folder}: fc_norm", apart, "False with norm_before_fc")
        norms = Eagle3Norms(
            first=speculators.norm_first(folder, {**stored, **inner}),
            output=output,
            together=together,
            apart=apart,
        )
        layers = speculators.layers_read(folder, stored) or default_layers(target)
        return cls(speculators.layer_sizes(decoder, inputs=2), layers, norms)
