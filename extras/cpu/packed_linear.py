"""A linear layer with weights in the memory layout of the processor's kernels."""

from collections.abc import Iterator
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from outrider.base.errors import ConfigError
from outrider.base.waiting import steps
from outrider.extras.cpu.memory import mapped_files, release, trim
from outrider.extras.cpu.packed_matrix import PRECISIONS, Panels, can_panel, is_unwrapped
from outrider.extras.cpu.panel_layout import DEPTH
from outrider.targets.stored import stored_matrix

ROWS = 16
"""The number of rows that oneDNN's layout is chosen for; any other number works too."""

UNTRIMMED = 128 << 20
"""The most bytes of plain weights that are freed before the system gets them back."""

NATIVE = "native"
"""The native library's layout of packed weights."""


class Packed(nn.Module):
    """A layer or table whose weight is no parameter, since it can't be moved, cast or saved."""

    @property
    def weight(self) -> Tensor:
        """Returns the plain matrix."""
        raise NotImplementedError

    def state_dict(self, *args: Any, prefix: str = "", **kwargs: Any) -> Any:
        """Returns the plain weights, as a linear layer does."""
        own: Any = self
        state = super().state_dict(*args, prefix=prefix, **kwargs)
        state[prefix + "weight"] = self.weight
        if own.bias is not None:
            state[prefix + "bias"] = own.bias
        return state


@final
class PackedTable(Packed):
    """An embedding whose rows are read from the panels of a stored matrix."""

    bias = None

    def __init__(self, packed: Panels) -> None:
        super().__init__()
        self.packed: Panels = packed
        self.num_embeddings: int = packed.matrix.outputs

    @property
    def weight(self) -> Tensor:
        """Returns the plain table [rows, width]."""
        return self.packed.to_dense()

    def forward(self, ids: Int[Tensor, "*tokens"]) -> Float[Tensor, "*tokens width"]:
        return self.packed.rows(ids)


@final
class PackedLinear(Packed):
    """A linear layer on packed weights, for passes without gradients on a CPU.

    With plain weights and more than a few rows, each pass first rearranges the weights. Once they
    are packed, eight rows take hardly longer than one. The native library packs and multiplies, or
    oneDNN if there is no such library.

    shared: whether an embedding has the same matrix. Its plain form is then kept; otherwise it is
        restored from the packed weights each time `weight` is read.
    bits: 8 or 4, to round the weights to so many bits, which needs the native library. Defaults to
        None: the weights stay exact.
    short_inputs: whether inputs are rounded to eight bits too; see `Panels`. Defaults to False.
    stored: the panels of a layer that has a stored matrix, with its bias.
    """

    in_features: int
    out_features: int
    bias: Tensor | None

    def __init__(
        self,
        layer: "nn.Linear | PackedLinear",
        *,
        shared: bool = False,
        bits: int | None = None,
        short_inputs: bool = False,
        stored: Panels | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.bias = None if layer.bias is None else layer.bias.detach()
        self.packed: Panels | Tensor
        self._shared: Tensor | None = None
        if stored is not None:
            self.packed = stored
            return
        weight = layer.weight.detach()
        self.packed = (
            Panels(weight, self.bias, bits=bits, short_inputs=short_inputs)
            if can_panel(weight)
            else torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)
        )
        self._shared = weight if shared and bits is None else None

    @property
    def weight(self) -> Tensor:
        """Returns the plain matrix [out, in]."""
        plain: Tensor = self.packed.to_dense() if self._shared is None else self._shared
        return plain

    def forward(self, x: Tensor) -> Tensor:
        return product(self, x)


def rounded(rows: int) -> int:
    """Returns the number of rows that a packed product is run with: at least `rows`.

    oneDNN makes a kernel for each number of rows and keeps it, some four megabytes for all layers
    of a model. So there are only four numbers between powers of two; up to 8, every number is used.
    """
    step = 1 << max(0, (rows - 1).bit_length() - 3)
    return -(-rows // step) * step


def product(layer: Any, x: Float[Tensor, "*rows in"]) -> Float[Tensor, "*rows out"]:
    """Returns the layer's output, W x + b."""
    packed = getattr(layer, "packed", None)
    if packed is None:
        result: Tensor = layer(x)
        return result
    if isinstance(packed, Panels):
        return packed.product(x)
    rows = x.reshape(-1, x.shape[-1])
    missing = rounded(len(rows)) - len(rows)
    padded = pad(rows, (0, 0, 0, missing)) if missing else rows
    result = torch.ops.mkldnn._linear_pointwise(padded, packed, layer.bias, "none", [], "")
    return result[: len(rows)].view(*x.shape[:-1], -1)


def packing(model: nn.Module) -> str | None:
    """Returns the layout of packed weights, NATIVE or "oneDNN"; None if they are not packed."""
    packed = next(packed_weights(model), None)
    if packed is None:
        return None
    return NATIVE if isinstance(packed, Panels) else "oneDNN"


def packed_weights(model: nn.Module) -> "Iterator[Panels | Tensor]":
    """Yields the weights of a model's packed layers."""
    return (module.packed for module in model.modules() if isinstance(module, PackedLinear))


def stored_type(model: nn.Module) -> str:
    """Returns how the first packed layer of a model stores its weights, such as "packed int8"."""
    packed = next(packed_weights(model), None)
    if packed is None:
        return "plain"
    if isinstance(packed, Panels) and (packed.bits or packed.form):
        return f"packed {packed.form or f'int{packed.bits}'}"
    return f"packed {str(next(model.parameters()).dtype).removeprefix('torch.')}"


def can_pack(model: nn.Module) -> bool:
    """Returns whether the library, or this build of PyTorch on this processor, has packed kernels.

    oneDNN packs bfloat16 for processors with AVX-512 or AVX-NE-CONVERT alone.
    """
    first = next(model.parameters(), None)
    kernels: Any = torch.backends.mkldnn
    if first is None or first.device.type != "cpu" or first.dtype not in PRECISIONS:
        return False
    if not kernels.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if not all(map(is_unwrapped, model.parameters())):
        return False
    is_bfloat16 = first.dtype is torch.bfloat16
    return can_panel(first) or not is_bfloat16 or torch.ops.mkldnn._is_mkldnn_bf16_supported()


def pack(model: nn.Module, *, bits: int | None = None) -> None:
    """Packs every linear layer of a model in place, and frees its plain weights.

    A matrix that an embedding shares is kept in its plain form too, for looking up rows.

    bits: 8 to round the weights to so many, and the inputs too, where the processor multiplies
        bytes. With 4, the head and layers whose inputs don't make whole groups have weights of 8.
        Embeddings keep their precision. Defaults to None.
    """
    # Plain layers are not held here, so that each is freed as soon as it is packed.
    modules = [module for module in model.modules() if type(module) is not nn.Linear]
    tables = {id(module.weight) for module in modules if isinstance(module, nn.Embedding)}
    head_of: Any = getattr(model, "get_output_embeddings", lambda: None)
    head = {id(part) for part in head_of().modules()} if head_of() is not None else set[int]()
    files, panels = mapped_files(), dict[tuple[int, int], Panels]()

    def pack_layers(module: nn.Module) -> int:
        """Packs the linear layers right below a module, and returns how many bytes were freed."""
        freed = 0
        for name, child in [*module.named_children()]:
            if (stored := stored_matrix(child)) is not None:
                bias = getattr(child, "bias", None)
                key = stored.blocks.data_ptr(), id(bias)
                if key not in panels:
                    panels[key] = Panels(stored, bias)
                if isinstance(child, nn.Linear):
                    setattr(module, name, PackedLinear(child, stored=panels[key]))
                else:
                    setattr(module, name, PackedTable(panels[key]))
                release(stored.blocks, files)
            elif type(child) is nn.Linear:
                shared = id(child.weight) in tables
                is_exact = id(child) in head or child.in_features % DEPTH != 0
                own = 8 if bits == 4 and is_exact else bits
                packed = PackedLinear(child, shared=shared, bits=own, short_inputs=own == bits)
                setattr(module, name, packed)
                if not shared:
                    release(child.weight.detach(), files)
                    freed += child.weight.nbytes
        return freed

    freed = 0
    for module in steps(modules):
        freed += pack_layers(module)
        if freed > UNTRIMMED:  # the packed weights lie elsewhere, and would come on top
            trim()
            freed = 0


def require_native(model: nn.Module, setting: str) -> None:
    """Raises `ConfigError` unless the native library can quantize a model's weights."""
    for name, parameter in model.named_parameters():
        if not is_unwrapped(parameter):
            raise ConfigError(
                f"{setting}: expected plain weights, {name} is of {type(parameter).__name__}"
            )
    if not all(can_panel(parameter) for parameter in model.parameters()):
        raise ConfigError(
            f"{setting}: rounded weights need a model in float32 or bfloat16 on a CPU,"
            " and a C compiler"
        )
    panels = (packed for packed in packed_weights(model) if isinstance(packed, Panels))
    if any(packed.bits or packed.form for packed in panels):
        raise ConfigError(f"{setting}: the model's weights have few bits already")
