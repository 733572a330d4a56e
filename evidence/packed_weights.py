"""Rewrites the weights in a folder in few bits, as the package keeps its own.

    python evidence/packed_weights.py FOLDER [--kind Q8_0]

What it costs is a comparison of the folder with a copy from before, on the same prefixes:

    outrider compare protocol=overlap reference=before drafters=DRAFTERS

with DRAFTERS as '[{drafter: eagle, path: BEFORE, name: before},{drafter: eagle, path: FOLDER}]'.
"""

import argparse
from pathlib import Path

import torch
from gguf import GGMLQuantizationType, quants
from safetensors.torch import load_file, save_file
from torch import Tensor


def packed(tensors: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
    """Returns tensors, the matrices of numbers in blocks of a layout of GGUF."""
    small: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.dim() == 2:
            blocks = quants.quantize(tensor.float().numpy(), GGMLQuantizationType[kind])
            small[f"{name}:{kind}"] = torch.from_numpy(blocks)
        else:
            small[name] = tensor.int() if tensor.dtype == torch.int64 else tensor
    return small


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", default="Q5_0", help="Q8_0, Q5_1, Q5_0, Q4_1 or Q4_0")
    options = parser.parse_args()
    file = options.folder / "model.safetensors"
    save_file(packed(load_file(file), options.kind), file, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
