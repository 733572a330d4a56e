"""The config of a DFlash network, as z-lab and the speculators library write it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import tanh
from pathlib import Path
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from outrider.base.errors import is_int, require
from outrider.base.expectations import AtLeast
from outrider.contract.target import Target
from outrider.drafters.dflash.corrector import CorrectorConfig
from outrider.drafters.dflash.published import (
    CONFIDENT,
    DFLASH2,
    TABLES,
    algorithm,
    published_fields,
)
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators
from outrider.drafters.parts.networks.entries import ANY, Entry, Table, only, read_entries
from outrider.drafters.parts.networks.features import LOWEST
from outrider.drafters.parts.networks.layer import LayerConfig
from outrider.targets.passes.masks import within

TOKEN, AROUND, TEXT, BOTH_WAYS = "token", "around", "text", "text_both_ways"
"""Where a window ends: at the token that attends, as in z-lab's networks, or as far behind it as it
reaches back; at the end of the text, as in the speculators library's, whose tokens also see the
earlier ones of their block; or so that they see the whole block."""

FULL = "full_attention"
"""The type of layers without a window."""

NESTED = "dflash_config"
"""The entry in which z-lab's configs have the network's own."""

TABLE: Table = {
    "mask_token_id": Entry("mask", Annotated[int, AtLeast(0)]),
    "block_size": Entry("block", Annotated[int, AtLeast(2)]),
    "sample_from_anchor": Entry("from_anchor", bool, False),
    "input_embedding_scale": Entry("scale", float, 1.0),
    "causal_block": Entry("causal", bool, False),
    "convolved": Entry("convolved", bool, False),
    "confident": Entry("confident", Literal[CONFIDENT] | None),
    "calibration": Entry("calibration", list[list[float]], []),
    "corrector": Entry("corrector", Mapping | None),
    **dict.fromkeys(("aux_hidden_state_layer_ids", "target_layer_ids", "swa_window_size"), ANY),
    **dict.fromkeys(("sliding_window_non_causal", "num_anchors"), ANY),  # anchors of training
    **only(causal=False, is_causal=False, use_swa=False),
    **only(attention_sink_bias=False, attention_value_scale=1.0),
}
"""The entries of published configs, and of ours."""


@final
@dataclass(frozen=True, slots=True)
class DFlashConfig:
    """What a DFlash network is made of.

    sizes: of its decoder layers.
    mask: the id of the target's token that stands for a mask.
    layers: the target's hidden states that it reads, each given by the number of layers below it.
    block: the number of tokens in a pass: the last one of the text, followed by masks.
    windows: for each decoder layer, the number of tokens in its window; None if every token sees
        the whole text and block.
    reach: where windows end, TOKEN, AROUND, TEXT or BOTH_WAYS.
    from_anchor: whether the last token of the text has a prediction too: that of the next one.
    scale: the factor that embeddings are multiplied by.
    corrector: what makes the tokens of a block depend on each other; None for nothing.
    causal: whether a token of a block sees only those before it there (JetSpec, 2606.18394).
    convolved: whether its layers are DFlash2's, see `ConvolvedLayer`.
    confident: what DSpark's confidence head reads beside a state, one of CONFIDENT; None if there
        is no such head.
    calibration: for each place, the factor on the head's logit and what is added to it then;
        empty if it is not calibrated.
    """

    sizes: LayerConfig
    mask: int
    layers: tuple[int, ...] = LOWEST
    block: int = 8
    windows: tuple[int | None, ...] = (None,)
    reach: str = TOKEN
    from_anchor: bool = False
    scale: float = 1.0
    corrector: CorrectorConfig | None = None
    causal: bool = False
    convolved: bool = False
    confident: str | None = None
    calibration: tuple[tuple[float, float], ...] = ()

    @classmethod
    def like(
        cls,
        target: Target,
        *,
        layers: Sequence[int] = LOWEST,
        block: int = 8,
        decoders: int = 1,
        inner: int | None = None,
        **options: Any,
    ) -> "DFlashConfig":
        """Returns a config with the sizes of the target's own layers. options: more fields."""
        sizes = LayerConfig.like(target.model.config.get_text_config(), inner=inner)
        windows = (None,) * decoders
        mask = speculators.mask_token(target)
        return cls(sizes, mask, tuple(layers), block, windows, **options)

    @classmethod
    def read(cls, folder: Path) -> "DFlashConfig":
        """Returns the config in a folder; raises `ConfigError` for a network of another kind."""
        stored = checkpoint.read_config(folder)
        both: dict[str, Any] = {**stored, **(stored.get(NESTED) or {})}
        decoder = speculators.read_decoder(folder, stored)
        family = algorithm(folder, both)
        own = TABLES[family]
        table = {**TABLE, **own}
        fields = read_entries(folder, stored, family, table, decoder=decoder, nested=NESTED)
        sizes = {entry.field: fields.pop(entry.field) for entry in own.values() if entry.field}
        layers = stored.get("aux_hidden_state_layer_ids")
        if layers is None:  # z-lab counts the layer that a state comes out of from 0
            layers = [layer + 1 for layer in both.get("target_layer_ids") or ()]
        require(bool(layers), f"{folder}: layers", layers, "aux_hidden_state_layer_ids")
        if fields["corrector"] is not None:
            fields["corrector"] = CorrectorConfig(**{"kind": None, **fields["corrector"]})
        types, size = getattr(decoder, "layer_types", None) or (), None
        windows: tuple[int | None, ...] = (None,) * int(decoder.num_hidden_layers)
        if {*types} - {FULL}:
            is_valid = both.get("causal") is not False
            expected = "windows that end with the token that looks"
            require(is_valid, f"{folder}: causal", False, expected)
            size = both.get("swa_window_size") or getattr(decoder, "sliding_window", None)
            require(
                is_int(size), f"{folder}: sliding_window", size, "a whole number in config.json"
            )
            windows = tuple(None if kind == FULL else size for kind in types)
        reach = TOKEN  # where windows end depends on the layout
        if any(windows) and "speculators_model_type" in both:
            is_whole = both.get("sliding_window_non_causal", family == DFLASH2)
            reach = BOTH_WAYS if is_whole else TEXT
        elif any(windows) and both.get("is_causal") is False:
            reach = AROUND
        fields |= published_fields(folder, family, both, sizes)
        fields["calibration"] = tuple(map(tuple, fields["calibration"]))
        config = cls(
            speculators.layer_sizes(decoder),
            layers=tuple(layers),
            windows=windows,
            reach=reach,
            **fields,
        )
        pairs = config.calibration
        is_valid = len(pairs) in (0, config.drafted) and all(len(pair) == 2 for pair in pairs)
        expected = f"{config.drafted} pairs of numbers"
        require(is_valid, f"{folder}: calibration", [*pairs], expected)
        return config

    def stored(self, target: Target, vocabulary: int) -> dict[str, Any]:
        """Returns the contents of `config.json`. vocabulary: how many tokens are known."""
        decoder = speculators.decoder_config(target, self.sizes, "qwen3", len(self.windows))
        sizes = [size for size in self.windows if size is not None]
        if sizes:
            kinds = [FULL if size is None else "sliding_attention" for size in self.windows]
            decoder |= {"layer_types": kinds, "sliding_window": sizes[0]}
            decoder["use_sliding_window"] = True
        entries = {name: getattr(self, entry.field) for name, entry in TABLE.items() if entry.field}
        entries["calibration"] = [list(pair) for pair in self.calibration]
        entries["corrector"] = None if self.corrector is None else asdict(self.corrector)
        for name in ("causal_block", "convolved", "confident", "calibration", "corrector"):
            if not entries[name]:  # which other libraries do not know
                del entries[name]
        if sizes and self.reach in (TOKEN, AROUND):  # which only z-lab's layout can say
            own = {name: entries.pop(name) for name in ("mask_token_id", "input_embedding_scale")}
            own["target_layer_ids"] = [layer - 1 for layer in self.layers]
            entries |= {"is_causal": False} if self.reach == AROUND else {}
            return decoder | entries | {NESTED: own}
        config = speculators.config("dflash", target, decoder, vocabulary, tokens=self.drafted)
        return {
            **config,
            **entries,
            "aux_hidden_state_layer_ids": list(self.layers),
            # vLLM takes False for causal masks everywhere.
            "sliding_window_non_causal": not sizes or self.reach == BOTH_WAYS,
        }

    @property
    def drafted(self) -> int:
        """The number of tokens that a pass drafts."""
        return self.block - 1 + self.from_anchor

    def survival(self, place: int, logit: float) -> float:
        """Returns how likely the token at a place is to be accepted, if all before it are.

        logit: the confidence head's.
        """
        factor, added = self.calibration[place] if self.calibration else (1.0, 0.0)
        return (1 + tanh((factor * logit + added) / 2)) / 2  # the logistic function

    def sees(
        self, window: int, positions: Int[Tensor, "batch tokens"], known: int
    ) -> Bool[Tensor, "batch 1 tokens known"]:
        """Returns what a block sees in a layer with a window. known: how many tokens there are."""
        if self.reach == TOKEN:
            return within(window, positions, known)
        slots = torch.arange(known, device=positions.device)
        distance = positions[..., None] - slots
        if self.reach == AROUND:
            return (distance.abs() < window)[:, None]
        is_near = slots >= positions[:, :1, None] - window
        return (is_near & ((distance >= 0) | (self.reach == BOTH_WAYS)))[:, None]
