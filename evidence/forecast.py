"""What `outrider theory hardware=...` predicts, beside published and measured figures.

python evidence/forecast.py
python evidence/forecast.py --here smollm2 MODEL_FOLDER
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from omegaconf import OmegaConf

from outrider.extras.theory.hardware import Hardware
from outrider.extras.theory.measured import measured
from outrider.extras.theory.roofline import Place, pass_seconds
from outrider.extras.theory.shapes import Shape, shape_of
from outrider.plugins.config import compose
from outrider.plugins.registry import make
from outrider.targets.passes.engine import run_pass
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassInput

SHAPES = {
    "Llama-2-7B": (32, 4096, 11008, 32, 32, 32000),
    "Llama-2-70B": (80, 8192, 28672, 64, 8, 32000),
    "Llama-3.1-8B": (32, 4096, 14336, 32, 8, 128256),
    "Qwen3-8B": (36, 4096, 12288, 32, 8, 151936),
}
"""Layers, hidden and intermediate size, heads, key heads and vocabulary."""

GPT_FAST = "gpt-fast's README"
SGLANG = "SGLang's documentation, MT-bench"
CARD = "model card Tengyunw/qwen3_8b_eagle3, SGLang"


@dataclass(frozen=True)
class Published:
    """Tokens per second of one text, as published: plain decoding."""

    hardware: str
    model: str
    speed: float
    source: str
    bits: float = 16
    devices: int = 1
    context: int = 100


PUBLISHED = (
    Published("a100", "Llama-2-7B", 104.9, GPT_FAST),
    Published("a100", "Llama-2-7B", 155.58, GPT_FAST, bits=8),
    Published("a100", "Llama-2-7B", 196.80, GPT_FAST, bits=5),
    Published("a100", "Llama-2-70B", 19.13, GPT_FAST, bits=8),
    Published("a100", "Llama-2-70B", 25.25, GPT_FAST, bits=5),
    Published("a100", "Llama-2-7B", 168.84, GPT_FAST, devices=2),
    Published("a100", "Llama-2-7B", 254.02, GPT_FAST, devices=4),
    Published("a100", "Llama-2-7B", 328.43, GPT_FAST, devices=8),
    Published("a100", "Llama-2-70B", 21.32, GPT_FAST, devices=2),
    Published("a100", "Llama-2-70B", 38.01, GPT_FAST, devices=4),
    Published("a100", "Llama-2-70B", 62.50, GPT_FAST, devices=8),
    Published("h100", "Llama-3.1-8B", 158.34, SGLANG, context=300),
    Published("h200", "Qwen3-8B", 187, CARD, context=300),
)

ROWS, CONTEXT, REPEATS = (1, 2, 4, 8, 16), 256, 7


def main(here: list[str]) -> None:
    """Prints one table or the other, in Markdown."""
    lines = local_lines(here) if here else published_lines()
    print("\n".join(lines))


def published_lines() -> Iterator[str]:
    """Yields the lines of the table of published speeds."""
    yield "| machine | model | bits | devices | published, tokens/s | predicted | error | source |"
    yield "|---|---|---|---|---|---|---|---|"
    for each in PUBLISHED:
        place = Place(profile(each.hardware), context=each.context, devices=each.devices)
        predicted = 1 / pass_seconds(shape(each.model, each.bits), place, 1)
        error = 100 * (predicted / each.speed - 1)
        name = profile(each.hardware).name
        columns = (
            name, each.model, f"{each.bits:g}", each.devices, f"{each.speed:g}",
            f"{predicted:.0f}", f"{error:+.0f}%", each.source,
        )  # fmt: skip
        yield f"| {' | '.join(map(str, columns))} |"


def shape(model: str, bits: float) -> Shape:
    """Returns the shape of a published model, with weights of some bits."""
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads",
             "num_key_value_heads", "vocab_size")  # fmt: skip
    config = dict(zip(names, SHAPES[model], strict=True))
    return shape_of({**config, "head_dim": 128}, model, bits, "bfloat16")


def profile(name: str) -> Hardware:
    """Returns a profile of `conf/hardware`."""
    content = OmegaConf.to_container(compose("theory", [f"hardware={name}"]).hardware)
    return Hardware(**content)  # type: ignore[arg-type]


def local_lines(models: list[str]) -> Iterator[str]:
    """Yields the lines of the table of this machine, in seconds of one core's own time.

    That time does not count what other processes take, except of caches and memory.
    """
    torch.set_num_threads(1)
    hardware = measured(time.process_time)
    peaks = ", ".join(f"{peak / 1e9:.0f} in {name}" for name, peak in hardware.peak.items())
    yield f"One core: {hardware.bandwidth / 1e9:.1f} GB/s, GFLOP/s: {peaks}"
    yield "| model | rows | context | measured, ms | predicted | error | over one row | predicted |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in models:
        target = make("target", name)
        config = target.model.config.to_dict()
        dtype = str(target.model.dtype).removeprefix("torch.")
        its = shape_of(config, name, dtype=dtype)
        for context in (CONTEXT, 4 * CONTEXT):
            found = times(target.model, context)
            place = Place(hardware, context=context)
            for rows in ROWS:
                predicted = pass_seconds(its, place, rows)
                error = 100 * (predicted / found[rows] - 1)
                ratios = (found[rows] / found[1], predicted / pass_seconds(its, place, 1))
                columns = (
                    Path(name).name, rows, context, f"{1000 * found[rows]:.0f}",
                    f"{1000 * predicted:.0f}", f"{error:+.0f}%", *(f"{it:.2f}" for it in ratios),
                )  # fmt: skip
                yield f"| {' | '.join(map(str, columns))} |"


def times(model: torch.nn.Module, context: int) -> dict[int, float]:
    """Returns the median seconds of a pass by its rows."""
    cache = GrowingCache()
    run_pass(model, cache, PassInput(torch.full((1, context), 100), 1))  # type: ignore[arg-type]
    found: dict[int, list[float]] = {rows: [] for rows in ROWS}
    for repeat in range(REPEATS + 1):
        for rows in ROWS:
            ids = torch.arange(100, 100 + rows)[None]
            began = time.process_time()
            run_pass(model, cache, PassInput(ids, rows))  # type: ignore[arg-type]
            if repeat:
                found[rows].append(time.process_time() - began)
            cache.crop(-rows)
    return {rows: statistics.median(seconds) for rows, seconds in found.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--here", nargs="+", default=[], metavar="MODEL")
    main(**vars(parser.parse_args()))
