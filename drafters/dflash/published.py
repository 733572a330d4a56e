"""Published correctors: what their configs stand for, and their tensors' names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from outrider.base.bounds import Count
from outrider.base.errors import require
from outrider.base.expectations import AtLeast
from outrider.drafters.dflash.corrector import CorrectorConfig
from outrider.drafters.parts.networks.entries import ANY, Entry, Table, only

DFLASH, DSPARK, DFLASH2, DOMINO = "dflash", "dspark", "dflash2", "domino"
XPRESS, LILICORR = "xpress", "lilicorr"

PROJECTOR = "projector_type"
"""The entry by which SpecForge and NVIDIA name the algorithm."""

Whole = Annotated[int, AtLeast(0)]

TABLES: Mapping[str, Table] = {
    DFLASH: {},
    DSPARK: {
        "markov_rank": Entry("rank", Whole, 256),
        "markov_head_type": Entry("kind", Literal["vanilla", "gated", "rnn"], "vanilla"),
        **dict.fromkeys(("attention_mode", "shift_label", PROJECTOR), ANY),
        **dict.fromkeys(("enable_confidence_head", "use_confidence_head"), ANY),
        **dict.fromkeys(("confidence_head_with_markov", "confidence_head_alpha"), ANY),
    },
    DFLASH2: {
        "selector_rank": Entry("rank", Count, 256),
        "selector_top_k": Entry("candidates", Count, 16),
        **only(conv_kernel_size=2, conv_group_size=16),
        PROJECTOR: ANY,
    },
    DOMINO: {
        "emb_dim": Entry("rank", Count),
        "gru_hidden_dim": Entry("memory", Count),
        "pure_draft_prefix_len": Entry("first", Whole, 0),
        **dict.fromkeys(("shift_label", PROJECTOR), ANY),
    },
    XPRESS: {
        "xpress_rank": Entry("rank", Count, 256),
        **only(xpress_mlp_ratio=2),
        "num_jacobi_passes": ANY,
    },
    LILICORR: {
        "lilicorr_hidden_size": Entry("rank", Whole, 0),
        "lilicorr_candidate_topk": Entry("candidates", Count),
        "lilicorr_num_layers": Entry("layers", Count),
        "lilicorr_num_heads": Entry("heads", Count),
        "lilicorr_mlp_ratio": Entry("ratio", float),
        "lilicorr_factor_dim": Entry("factors", Count),
        "lilicorr_logit_scale": Entry("scale", float),
        **only(lilicorr_enabled=True, lilicorr_vector_eps=1e-6),
        **only(conv_kernel_size=2, conv_group_size=16),
        PROJECTOR: ANY,
    },
}
"""The entries of a config that DFlash has not, by algorithm, as fields of `CorrectorConfig`.

Missing ones have the defaults of the speculators library."""

CONFIDENT = ("embedding", "markov", "state")
"""What a confidence head reads: a state, and beside it the target's embedding of the token before,
or the Markov head's row of that token, or nothing."""

EMBEDDING, MARKOV, STATE = CONFIDENT

DIRECT = ("markov_w1", "markov_w2", "joint_proj", "gate_proj", "prefix_gru", "embed_proj")
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
    "lilicorr.": "corrector.",
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
    """Returns the algorithm of a config; raises `ConfigError` if it is none of TABLES.

    both: the entries of the config, and of its nested one.
    """
    if kind := both.get("speculators_model_type"):
        return str(kind) if kind in TABLES else DFLASH
    if both.get("lilicorr_candidate_topk"):
        return LILICORR
    names, projector = both.get("architectures") or ("DFlashDraftModel",), both.get(PROJECTOR)
    is_valid = set(names) <= set(ARCHITECTURES)
    require(is_valid, f"{folder}: architectures", list(names), " or ".join(ARCHITECTURES))
    found = ARCHITECTURES[names[0]]
    choices = [found] if found != DFLASH else [DSPARK, DFLASH2, DOMINO]
    is_valid = projector is None or projector in choices
    require(is_valid, f"{folder}: {PROJECTOR}", projector, " or ".join(choices))
    return str(projector or found)


def published_fields(
    folder: Path, kind: str, stored: Mapping[str, Any], sizes: dict[str, Any]
) -> dict[str, Any]:
    """Returns fields of `DFlashConfig`; raises `ConfigError` if entries contradict each other.

    kind, sizes: the algorithm, and the fields that its table gives.
    """
    if kind == DSPARK:
        return _dspark(folder, stored, **sizes)
    if kind == DFLASH2:
        return {"corrector": CorrectorConfig("selector", **sizes), "convolved": True}
    if kind == DOMINO:
        corrector = CorrectorConfig(DOMINO, **sizes)
        return {"corrector": corrector, "from_anchor": bool(stored.get("shift_label"))}
    if kind == LILICORR:
        sizes["rank"] = sizes["rank"] or stored["hidden_size"]
        convolved = bool(stored.get("conv_kernel_size"))
        return {"corrector": CorrectorConfig(LILICORR, **sizes), "convolved": convolved}
    return {"corrector": CorrectorConfig(XPRESS, **sizes)} if kind == XPRESS else {}


def _dspark(folder: Path, stored: Mapping[str, Any], rank: int, kind: str) -> dict[str, Any]:
    """Returns the fields for DSpark."""
    default = stored.get("shift_label") in (None, True)
    from_anchor = bool(stored.get("sample_from_anchor", default))
    # Without it, the library's memory has read the text's last token twice.
    is_valid = from_anchor or kind != "rnn"
    require(is_valid, f"{folder}: sample_from_anchor", False, "true with markov_head_type rnn")
    confident = None
    if stored.get("enable_confidence_head", stored.get("use_confidence_head", True)):
        confident = MARKOV if stored.get("confidence_head_with_markov", True) else STATE
    is_valid = confident != MARKOV or rank > 0
    require(is_valid, f"{folder}: markov_rank", rank, "above 0 with confidence_head_with_markov")
    head = "markov" if kind == "vanilla" else kind
    corrector = CorrectorConfig(head, rank) if rank else None
    return {"corrector": corrector, "from_anchor": from_anchor, "confident": confident}
