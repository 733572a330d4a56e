"""Published correctors: what their configs stand for, and their tensors' names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.base.errors import is_int, require
from outrider.drafters.dflash.corrector import CorrectorConfig

DFLASH, DSPARK, DFLASH2, DOMINO = "dflash", "dspark", "dflash2", "domino"
XPRESS = "xpress"

PROJECTOR = "projector_type"
"""The entry by which SpecForge and NVIDIA name the algorithm."""

ENTRIES: Mapping[str, tuple[str, ...]] = {
    DSPARK: (
        *("markov_rank", "markov_head_type", "attention_mode", "shift_label", PROJECTOR),
        *("enable_confidence_head", "use_confidence_head", "confidence_head_with_markov"),
        "confidence_head_alpha",  # of training
    ),
    DFLASH2: ("selector_rank", "selector_top_k", "conv_kernel_size", "conv_group_size", PROJECTOR),
    DOMINO: ("emb_dim", "gru_hidden_dim", "pure_draft_prefix_len", "shift_label", PROJECTOR),
    XPRESS: ("xpress_rank", "xpress_mlp_ratio", "num_jacobi_passes"),
}
"""The entries of a config that DFlash has not, by algorithm."""

CONFIDENT = ("embedding", "markov", "state")
"""What a confidence head reads: a state, and beside it the target's embedding of the token before,
or the Markov head's row of that token, or nothing."""

EMBEDDING, MARKOV, STATE = CONFIDENT

HEADS = {"vanilla": "markov", "rnn": "rnn"}
"""Our names of DSpark's heads."""

DIRECT = ("markov_w1", "markov_w2", "joint_proj", "prefix_gru", "embed_proj")
"""The parts of correctors that stand by themselves in NVIDIA's and SpecForge's networks."""

CODEBOOKS = ("predecessor_codebook", "successor_codebook", "hidden_projection")
"""The parts of DFlash2's selector. z-lab publishes the first two as tensors, and saves tables."""

PREFIXES: Mapping[str, str] = {
    "markov_head.": "corrector.",
    "confidence_head.proj.": "confidence.",
    "confidence_proj.": "confidence.",
    **{f"{name}.": f"corrector.{name}." for name in DIRECT},
    **{f"candidate_selector.{name}.": f"corrector.{name}." for name in CODEBOOKS},
    **{f"candidate_selector.{name}": f"corrector.{name}.weight" for name in CODEBOOKS[:2]},
    "refiner_head.": "corrector.",
}
"""Our names of the beginnings of their tensors' names."""


ARCHITECTURES: Mapping[str, str] = {
    **dict.fromkeys(("DFlashDraftModel", "DFlashSpeculator", "Qwen3ForCausalLM"), DFLASH),
    **dict.fromkeys(("DSparkDraftModel", "Qwen3DSparkModel"), DSPARK),
    "DFlash2DraftModel": DFLASH2,
    "DominoDraftModel": DOMINO,
}
"""The algorithm of each architecture. DeepSpec's DFlash is its DSpark without heads, and a config
from here has the architecture of its layers."""


def algorithm(folder: Path, both: Mapping[str, Any]) -> str:
    """Returns the algorithm of a config: DFlash, or one that adds a corrector to it.

    both: the entries of the config, and of its nested one.

    Raises:
        ConfigError: the architecture or projector is that of another one.
    """
    if kind := both.get("speculators_model_type"):
        return str(kind) if kind in ENTRIES else DFLASH
    names, projector = both.get("architectures") or ("DFlashDraftModel",), both.get(PROJECTOR)
    is_valid = set(names) <= set(ARCHITECTURES)
    require(is_valid, f"{folder}: architectures", list(names), " or ".join(ARCHITECTURES))
    found = ARCHITECTURES[names[0]]
    choices = [found] if found != DFLASH else [DSPARK, DFLASH2, DOMINO]
    is_valid = projector is None or projector in choices
    require(is_valid, f"{folder}: {PROJECTOR}", projector, " or ".join(choices))
    return str(projector or found)


def published_fields(folder: Path, kind: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields of `DFlashConfig` for an algorithm; none for DFlash itself.

    Missing entries have the defaults of the speculators library.

    Raises:
        ConfigError: an entry stands for a corrector that is not known here.
    """
    shifted = stored.get("shift_label")
    if kind == DSPARK:
        rank, head = stored.get("markov_rank", 256), stored.get("markov_head_type", "vanilla")
        require(head in HEADS, f"{folder}: markov_head_type", head, " or ".join(HEADS))
        corrector = CorrectorConfig.of(HEADS[head], rank) if rank else None
        from_anchor = bool(stored.get("sample_from_anchor", shifted in (None, True)))
        # Without it, the library's memory has read the text's last token twice.
        is_valid = from_anchor or head != "rnn"
        require(is_valid, f"{folder}: sample_from_anchor", False, "true with markov_head_type rnn")
        confident = None
        if stored.get("enable_confidence_head", stored.get("use_confidence_head", True)):
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
    if kind == DOMINO:
        sizes: list[Any] = [stored.get(name) for name in ENTRIES[DOMINO][:3]]
        rank, memory, first = sizes
        for name, width in (("emb_dim", rank), ("gru_hidden_dim", memory)):
            is_valid = is_int(width) and width > 0
            require(is_valid, f"{folder}: {name}", width, "a whole number above 0 in config.json")
        corrector = CorrectorConfig(DOMINO, rank, memory=memory, first=first or 0)
        return {"corrector": corrector, "from_anchor": bool(shifted)}
    if kind == XPRESS:
        ratio = stored.get("xpress_mlp_ratio", 2)
        require(ratio == 2, f"{folder}: xpress_mlp_ratio", ratio, "2 in config.json")
        return {"corrector": CorrectorConfig.of("xpress", stored.get("xpress_rank", 256))}
    return {}
