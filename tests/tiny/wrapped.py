"""What other libraries make of a model: weights and modules that wrap others."""

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


def write_gguf(path: Path, kind: str = "Q4_0", width: int = 64) -> None:
    """Writes a random Llama of two layers, with a byte-level tokenizer."""
    tokens = [*LETTERS.values(), "th", "the", "<eos>"]
    writer, draws = gguf.GGUFWriter(path, "llama"), np.random.default_rng(0)
    writer.add_context_length(128)
    writer.add_embedding_length(width)
    writer.add_block_count(2)
    writer.add_feed_forward_length(2 * width)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // 2)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (len(tokens) - 1) + [3])
    writer.add_token_merges(["t h", "th e"])
    writer.add_bos_token_id(len(tokens) - 1)
    writer.add_eos_token_id(len(tokens) - 1)
    layout = gguf.GGMLQuantizationType[kind]
    mlp, square = 2 * width, (width, width)
    shapes = {"token_embd": (len(tokens), width), "output": (len(tokens), width)}
    for layer in range(2):
        names = ("attn_q", "attn_k", "attn_v", "attn_output")
        shapes |= {f"blk.{layer}.{name}": square for name in names}
        shapes |= {f"blk.{layer}.{name}": (mlp, width) for name in ("ffn_gate", "ffn_up")}
        shapes[f"blk.{layer}.ffn_down"] = (width, mlp)
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(width, np.float32))
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    for name, shape in shapes.items():
        matrix = 0.3 * draws.standard_normal(shape).astype(np.float32)
        data = gguf.quants.quantize(matrix, layout)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=layout)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
