"""The settings of parts that the fuzzer varies, and the values that it tries."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from outrider.contract.sampling import LOWEST
from outrider.drafters.dflash.corrector import CORRECTORS

Values = Mapping[str, tuple[Any, ...]]
"""The values to try of each setting."""

TREES = (
    *(None, "2", "2x2", "3x2x1", "iid:2", "iid:3x2", "paths:2", "paths:3", "top:2x2"),
    *("dynamic:3", "sequoia:.6,.3", "cost:3,.1,.05", [[0], [0, 0], [1]], "top:[[0],[0,0],[1]]"),
)
"""The forms of trees; None is a chain."""

_LAYERS = {"layers": (1, 2)}
_UNTRAINED = {"path": ("untrained",)}

DRAFTERS: Mapping[str, Values] = {
    "none": {},
    "random": {},
    "unigram": {},
    "bigram": {"order": (1, 2, 3)},
    "prompt_lookup": {"max_n": (2, 3), "min_n": (1, 2), "newest": (True, False)},
    "lookahead_decoding": {"window": (1, 3), "ngram": (2, 3), "candidates": (1, 3)},
    "suffix": {
        "factor": (0.5, 1, 4.0),
        "min_probability": (0.0, 0.1, 1.0),
        "capacity": (None, 1, 20),
    },
    "token_recycling": {"candidates": (1, 3), "capacity": (None, 1, 4)},
    "online": {"order": (1, 2, 3), "prior": (0.1, 4.0), "keep": (1, 8)},
    "hybrid": {
        "chain": (None, None, ["prompt_lookup", "bigram"], ["suffix", "random"]),
        "drafters": (
            ["prompt_lookup", "bigram"],
            [{"drafter": "prompt_lookup", "min_n": 2}, {"drafter": "bigram", "tree": "2x2"}],
            [{"drafter": "prompt_lookup", "min_n": 2}, {"drafter": "random", "tree": "paths:2"}],
        ),
    },
}
"""The drafters that need no weights, for every target."""

NETWORKS: Mapping[str, Values] = {
    "small_lm": _LAYERS,
    "quantized": {"cache": ("target", "own")},
    "pard": {"model": ("untrained",)},
    "hierarchy": _LAYERS | {"ahead": (1, 4), "faster": ("prompt_lookup", "bigram")},
    "self_sparse": {"sink": (0, 2), "window": (1, 3), "picked": (0, 2), "observed": (1, 4)},
    "early_exit": _LAYERS | {"path": (None, "untrained")},
    "swift": {"skipped": (None, 1), "trials": (1, 2), "window": (1, 8)},
    "eagle": _UNTRAINED,
    "eagle3": _UNTRAINED,
    "peagle": _UNTRAINED,
    "dflash": _UNTRAINED | {"block": (2, 4), "corrector": (None, *CORRECTORS)},
    "mtp": _UNTRAINED,
    "medusa": _UNTRAINED,
    "mlp_speculator": _UNTRAINED,
    "hydra": _UNTRAINED,
    "redrafter": _UNTRAINED,
    "falcon": _UNTRAINED | {"block": (1, 2)},
}
"""The drafters that need a transformers model; networks have random weights."""

WITH_TREE = (
    *("random", "unigram", "bigram", "online", "small_lm", "pard", "early_exit", "swift", "eagle"),
    *("eagle3", "peagle", "dflash", "mtp", "medusa", "mlp_speculator", "hydra", "redrafter"),
    "falcon",
)
"""The drafters with a setting `tree`."""

_BUDGETS: dict[str, tuple[Any, ...]] = {"budget": (0.0, 0.1, 0.5), "divergence": ("tv", "kl")}

RULES: Mapping[str, Values] = {
    "multi_step": {"order": ("drawn", "random")},
    "lenient": {"lenience": (1.0, 0.5, 0.1), "residual": ("plain", "scaled")},
    "scaled_uniform": {"b": (1.0, 2.0, 0.5), "residual": ("own", "plain")},
    "typical": {"epsilon": (0.09, 0.5), "delta": (0.3, 0.9)},
    "truncation": {"epsilon": (0.09, 0.5), "delta": (0.3, 0.9)},
    "fly": {"threshold": (0.0, 0.3, 1.0), "window": (None, 1, 2)},
    "cactus": _BUDGETS,
    "cascade": _BUDGETS | {"margin": (0.0, 0.1, 0.5), "deferral": ("opt", "chow", "diff")},
}
"""The settings of acceptance rules; the others have none."""

_ALPHAS = {"alpha": (0.0, 0.7, 1.0)}

POLICIES: Mapping[str, Values] = {
    "fixed": {},
    "heuristic": {"start": (1, 3, 5), "transient": (True, False)},
    "confidence": {"threshold": (0.0, 0.4, 1.0), "refit": (False, True)},
    "entropy": {"scale": (0.0, 0.2), "limit": (0.1, 0.6), "target": (0.9, None)},
    "optimal": _ALPHAS | {"c": (None, 0.0, 0.2)},
    "goodput": _ALPHAS | {"probe": (1, 16)},
    "cost_model": _ALPHAS | {"weight": (1.0, 10.0), "probe": (1, 16)},
    "utility": {"trial": (1, 4), "keep": (1, 8)},
    "bandit": {"explore": (0.0, 1.4), "c": (None, 0.0, 0.2)},
}
"""The policies that need no file."""


@st.composite
def options(draw: st.DrawFn, values: Values) -> dict[str, Any]:
    """Draws a value for each setting."""
    return {name: draw(st.sampled_from(tried)) for name, tried in values.items()}


@st.composite
def sampling(draw: st.DrawFn, vocab_size: int) -> dict[str, Any]:
    """Draws a sampling, often greedy, and otherwise also at extreme temperatures."""
    temperature = draw(st.sampled_from((0.0, 0.0, 1.0, 1.0, 0.05, LOWEST, 3.0)))
    chosen: dict[str, Any] = {"temperature": temperature}
    if temperature:
        chosen["seed"] = draw(st.sampled_from((0, 1, 2, 3, 2**64 - 1)))
        limits: Any = ({}, {"top_k": 1}, {"top_k": vocab_size}, {"top_p": 0.5}, {"top_p": 1e-9})
        more: Any = ({}, {"min_p": 0.3}, {"min_p": 1.0}, {"top_k": 2, "top_p": 0.9})
        chosen |= draw(st.sampled_from(limits)) | draw(st.sampled_from(more))
    return chosen
