"""A model that the native library runs, and the library for older processors."""

import ctypes
import platform
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from outrider.extras.cpu import native_pass, packed_matrix
from outrider.extras.cpu.library import OPTIONS, TUNINGS, compile_library, find_compiler, library
from outrider.extras.cpu.processor import cpu_flags
from outrider.targets.passes.engine import use_engine

BASELINES = {"x86_64": "-march=x86-64-v3"}
"""The option to compile for an older processor, by kind."""


@pytest.fixture(scope="session")
def older_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("native") / "library.so"
    return compiled(path, (BASELINES.get(platform.machine(), "-O1"),))


@pytest.fixture(scope="session")
def short_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The library as it multiplies bfloat16, wherever the processor can do so."""
    path = tmp_path_factory.mktemp("native") / "library.so"
    without = ["-mno-avx512fp16"] if "avx512_fp16" in cpu_flags() else []
    return compiled(path, TUNINGS, *without)


@pytest.fixture(params=["this", "older"])
def built(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library for this processor, which may round inputs to eight bits, and for older ones."""
    if request.param == "this":
        return library()
    older = request.getfixturevalue("older_library")
    assert not older.outrider_rounds_inputs(packed_matrix.GROUPED[4])
    monkeypatch.setattr(packed_matrix, "library", lambda: older)
    return older


def compiled(path: Path, tunings: tuple[str, ...], *options: str) -> ctypes.CDLL:
    """Compiles the library for some kinds of processors, the first that the compiler knows."""
    compiler = find_compiler()
    assert compiler is not None
    compile_library(compiler, path, tunings, (*OPTIONS, "-O0", *options))  # compiles faster
    return ctypes.CDLL(str(path))


def tiny_native_model(heads: tuple[int, int, int], dtype: torch.dtype) -> Any:
    """Returns a decoder that the native library runs. heads: queries, keys, and their width."""
    queries, keys, dim = heads
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=90,
            hidden_size=16 * queries,
            intermediate_size=80,
            num_hidden_layers=2,
            num_attention_heads=queries,
            num_key_value_heads=keys,
            head_dim=dim,
        )
        made: Any = LlamaForCausalLM(config).to(dtype).eval()
    use_engine(made, "packed")
    assert native_pass.is_used_for(made)
    return made


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=str)
def native_model(request: pytest.FixtureRequest) -> Any:
    """Such a decoder in each precision of its weights."""
    return tiny_native_model((6, 2, 16), request.param)
