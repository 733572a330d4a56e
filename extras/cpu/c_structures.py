"""What the native library is handed, in the layout of its own structures."""

import ctypes
from typing import final

from outrider.extras.cpu.packed_matrix import Matrix

POINTER, NUMBER = ctypes.c_void_p, ctypes.c_int64


@final
class Entry(ctypes.Structure):
    """The weights before a layer's attention; the fields are those of the native library."""

    _fields_ = (
        ("matrices", Matrix * 3),
        *((name, POINTER) for name in ("norm", "q_norm", "k_norm")),
        ("epsilon", ctypes.c_float),
    )


@final
class Exit(ctypes.Structure):
    """The weights after a layer's attention."""

    _fields_ = (
        *((name, Matrix) for name in ("output", "gate", "up", "down")),
        ("norm", POINTER),
        ("epsilon", ctypes.c_float),
    )


@final
class Layer(ctypes.Structure):
    """A layer's weights."""

    _fields_ = (("entry", Entry), ("exit", Exit))


@final
class Store(ctypes.Structure):
    """Where a layer's keys and values lie: [texts, kv_heads, capacity, dim]."""

    _fields_ = (("keys", POINTER), ("values", POINTER), ("capacity", NUMBER))


@final
class NativePass(ctypes.Structure):
    """A pass over some rows."""

    _fields_ = (
        *((name, NUMBER) for name in ("rows", "width", "dim", "heads", "kv_heads")),
        *((name, NUMBER) for name in ("texts", "threads")),
        *((name, POINTER) for name in ("x", "normed", "qkv", "mixed", "active")),
        *((name, POINTER) for name in ("cosine", "sine", "keys", "values")),
        *((name, NUMBER) for name in ("is_bfloat16", "text_stride", "head_stride", "kv_length")),
        ("mask", POINTER),
        *((name, NUMBER) for name in ("mask_text_stride", "mask_row_stride")),
        *((name, POINTER) for name in ("owners", "slots", "prefix_owners", "prefix_lengths")),
        ("scaling", ctypes.c_float),
    )
