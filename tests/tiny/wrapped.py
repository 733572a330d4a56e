"""What other libraries make of a model: weights and modules that wrap others."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import gguf
import numpy as np
import torch
from torch import Tensor, nn

from tiny.tokenizer_makers import LETTERS


class Rounded(Tensor):
    """A weight of eight bits with a scale, which takes as few operations as torchao's does."""

    @staticmethod
    def __new__(cls, values: Tensor, scale: Tensor) -> Self:
        make: Any = Tensor._make_wrapper_subclass  # type: ignore[attr-defined]
        result: Self = make(cls, values.shape, dtype=scale.dtype, device=values.device)
        return result

    def __init__(self, values: Tensor, scale: Tensor) -> None:
        self.values_, self.scale = values, scale

    @classmethod
    def of(cls, weight: Tensor) -> "Rounded":
        scale = weight.detach().abs().max() / 127
        return cls((weight.detach() / scale).round().to(torch.int8), scale)

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["values_", "scale"], None

    @property
    def plain(self) -> Tensor:
        return self.values_ * self.scale

    @classmethod
    def __torch_function__(cls, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.linear:
            return func(args[0], args[1].plain, *args[2:], **(kwargs or {}))
        return super().__torch_function__(func, kinds, args, kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.aten.detach.default:
            raise NotImplementedError(f"Rounded: {func}")
        return cls(args[0].values_, args[0].scale)


def rounded(model: Any) -> Any:
    """Returns a model whose linear layers have rounded weights, as torchao leaves it."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(Rounded.of(module.weight), requires_grad=False)
    return model


class Tuned(nn.Module):
    """A module around another, whose attributes it answers for; two of them are as PEFT's."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.model, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.model(*args, **kwargs)


class Adapted(Tuned):
    """The outer one: its model is the inner one's."""

    def __init__(self, model: Any) -> None:
        nn.Module.__init__(self)
        self.base_model = Tuned(model)

    def __getattr__(self, name: str) -> Any:
        try:
            return nn.Module.__getattr__(self, name)
        except AttributeError:
            return getattr(self.base_model, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.base_model(*args, **kwargs)


def write_fields(
    path: Path, kind: str, fields: Mapping[str, Any], tensors: Mapping[str, tuple[Any, Any]]
) -> None:
    """Writes a GGUF file: its fields by the names of the library, and tensors with their types."""
    writer = gguf.GGUFWriter(path, kind)
    for name, value in fields.items():
        getattr(writer, f"add_{name}")(value)
    for name, (data, layout) in tensors.items():
        writer.add_tensor(name, data, raw_dtype=layout)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def stored_blocks(random: np.random.Generator, shape: Sequence[int], kind: Any) -> Any:
    """Returns a tensor as it lies in a file; the K types are blocks of random bits."""
    if not kind.name.endswith("_K"):
        values = random.normal(1 if len(shape) == 1 else 0, 0.3, shape).astype(np.float32)
        return gguf.quants.quantize(values, kind)
    inputs, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (shape[0], shape[1] // inputs, size), dtype=np.uint8)
    scale, middle = 0.001, {"Q4_K": 7.5, "Q5_K": 15.5, "Q6_K": 0}[kind.name]
    numbers = np.array([scale, scale * middle] if middle else [scale / 4], np.float16)
    at = 0 if middle else size - 2
    blocks[..., at : at + numbers.nbytes] = numbers.view(np.uint8)
    return blocks.reshape(shape[0], -1)


def write_gguf(
    path: Path, kind: str = "Q4_0", width: int = 64, without: Sequence[str] = ()
) -> None:
    """Writes a random Llama of two layers, with a byte-level tokenizer.

    without: names of matrices that the file lacks.
    """
    tokens = [*LETTERS.values(), "th", "the", "<eos>"]
    count, layout = len(tokens), gguf.GGMLQuantizationType[kind]
    fields = {
        "context_length": 128, "embedding_length": width, "block_count": 2,
        "feed_forward_length": 2 * width, "head_count": 2, "head_count_kv": 2,
        "layer_norm_rms_eps": 1e-5, "rope_dimension_count": width // 2, "vocab_size": count,
        "tokenizer_model": "gpt2", "token_list": tokens, "token_types": [1] * (count - 1) + [3],
        "token_merges": ["t h", "th e"], "bos_token_id": count - 1, "eos_token_id": count - 1,
    }  # fmt: skip
    mlp, square = 2 * width, (width, width)
    shapes = {"token_embd": (count, width), "output": (count, width)}
    norms = ["output_norm"]
    for layer in range(2):
        names = ("attn_q", "attn_k", "attn_v", "attn_output")
        shapes |= {f"blk.{layer}.{name}": square for name in names}
        shapes |= {f"blk.{layer}.{name}": (mlp, width) for name in ("ffn_gate", "ffn_up")}
        shapes[f"blk.{layer}.ffn_down"] = (width, mlp)
        norms += [f"blk.{layer}.{norm}" for norm in ("attn_norm", "ffn_norm")]
    tensors: dict[str, tuple[Any, Any]] = {
        f"{name}.weight": (np.ones(width, np.float32), None) for name in norms
    }
    draws = np.random.default_rng(0)
    for name, shape in shapes.items():
        if name in without:
            continue
        tensors[f"{name}.weight"] = (stored_blocks(draws, shape, layout), layout)
    write_fields(path, "llama", fields, tensors)
