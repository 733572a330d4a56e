"""Published correctors: what their configs stand for, and their tensors' names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.base.errors import require
from outrider.drafters.parts.networks.correctors.corrector import CorrectorConfig

DSPARK, DFLASH2, XPRESS = "dspark", "dflash2", "xpress"

ENTRIES: Mapping[str, tuple[str, ...]] = {
    DSPARK: (
        *("markov_rank", "markov_head_type"),
        *("enable_confidence_head", "confidence_head_with_markov"),
    ),
    DFLASH2: ("selector_rank", "selector_top_k", "conv_kernel_size", "conv_group_size"),
    XPRESS: ("xpress_rank", "xpress_mlp_ratio", "num_jacobi_passes"),
}
"""The entries of a config that DFlash has not, by algorithm."""

CONFIDENT = ("embedding", "markov", "state")
"""What a confidence head reads: a state, and beside it the target's embedding of the token before,
or the Markov head's row of that token, or nothing."""

EMBEDDING, MARKOV, STATE = CONFIDENT

HEADS = {"vanilla": "markov", "rnn": "rnn"}
"""Our names of DSpark's heads."""

PREFIXES: Mapping[str, str] = {
    "markov_head.": "corrector.",
    "confidence_head.proj.": "confidence.",
    "candidate_selector.predecessor_codebook": "corrector.predecessor_codebook.weight",
    "candidate_selector.successor_codebook": "corrector.successor_codebook.weight",
    "candidate_selector.": "corrector.",
    "refiner_head.": "corrector.",
}
"""Our names of the beginnings of their tensors' names."""


DEEPSPEC = "Qwen3DSparkModel"
"""The architecture of DeepSpec's DSpark, and of its DFlash, which is DSpark without heads."""

PLAIN = ("DFlashDraftModel", "DFlashSpeculator", "Qwen3ForCausalLM")
"""The architectures of DFlash itself; a config from here has that of its layers."""


def algorithm(folder: Path, stored: Mapping[str, Any]) -> str:
    """Returns the algorithm of a config: DFlash, or one that adds a corrector to it.

    Raises:
        ConfigError: the architecture is that of another one.
    """
    kind, names = stored.get("speculators_model_type"), stored.get("architectures") or ()
    if kind is None and DEEPSPEC in names:
        return DSPARK
    is_valid = kind is not None or set(names) <= set(PLAIN)
    expected = f"{DEEPSPEC} or {' or '.join(PLAIN)}"
    require(is_valid, f"{folder}: architectures", list(names), expected)
    return str(kind) if kind in ENTRIES else "dflash"


def published_fields(folder: Path, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields of `DFlashConfig` for one of these algorithms; none for DFlash itself.

    Missing entries have the library's defaults.

    Raises:
        ConfigError: an entry stands for a corrector that is not known here.
    """
    kind = algorithm(folder, stored)
    if kind == DSPARK:
        rank, head = stored.get("markov_rank", 256), stored.get("markov_head_type", "vanilla")
        require(head in HEADS, f"{folder}: markov_head_type", head, " or ".join(HEADS))
        corrector = CorrectorConfig.of(HEADS[head], rank) if rank else None
        from_anchor = bool(stored.get("sample_from_anchor", True))
        # Without it, the library's memory has read the text's last token twice.
        is_valid = from_anchor or head != "rnn"
        require(is_valid, f"{folder}: sample_from_anchor", False, "true with markov_head_type rnn")
        confident = None
        if stored.get("enable_confidence_head", True):
            confident = MARKOV if stored.get("confidence_head_with_markov", True) else STATE
        is_valid = confident != MARKOV or corrector is not None
        require(
            is_valid, f"{folder}: markov_rank", rank, "above 0 with confidence_head_with_markov"
        )
        return {"corrector": corrector, "from_anchor": from_anchor, "confident": confident}
    if kind == DFLASH2:
        for name, size in (("conv_kernel_size", 2), ("conv_group_size", 16)):
            value = stored.get(name, size)
            require(value == size, f"{folder}: {name}", value, f"{size} in config.json")
        rank, count = stored.get("selector_rank", 256), stored.get("selector_top_k", 16)
        return {"corrector": CorrectorConfig.of("selector", rank, count), "convolved": True}
    if kind == XPRESS:
        ratio = stored.get("xpress_mlp_ratio", 2)
        require(ratio == 2, f"{folder}: xpress_mlp_ratio", ratio, "2 in config.json")
        return {"corrector": CorrectorConfig.of("xpress", stored.get("xpress_rank", 256))}
    return {}
