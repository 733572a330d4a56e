"""The roofline of a pass: the seconds that its bytes, operations, launches and sums take.

Each part of a pass takes as long as the slower of reading and computing (Williams et al. 2009,
doi 10.1145/1498765.1498785): the layers' matrices, attention, and the output table.
"""

from dataclasses import dataclass
from typing import final

from outrider.base.errors import require
from outrider.extras.theory.hardware import Hardware
from outrider.extras.theory.shapes import BITS, Shape

LAYER_KERNELS = 9
"""Kernels of a layer: two norms, the products of attention (two, q k v being one) and of the
feed-forward part (two, gate and up being one), rotation, attention itself, and activation."""

EXPERT_KERNELS = 4
"""Those that a mixture's layer has more: the router, its choice, and moving rows there and back."""

OTHER_KERNELS = 3
"""The kernels of embedding, the last norm and the output table."""


@final
@dataclass(frozen=True, slots=True)
class Place:
    """Where passes run.

    batch: texts at once. context: tokens of each text before the pass.
    devices: that the model is spread over, by tensor parallelism.
    """

    hardware: Hardware
    batch: int = 1
    context: int = 512
    devices: int = 1


def pass_seconds(shape: Shape, place: Place, rows: int) -> float:
    """Returns the seconds of a pass that scores some rows of each text.

    Raises:
        ConfigError: there are several devices, and no link between them.
    """
    hardware, all_rows = place.hardware, rows * place.batch
    share = 1 / place.devices
    parts = (
        (shape.read_weights(all_rows) + shape.extra, shape.used_weights + shape.extra),
        (shape.table_weights, shape.table_weights),
    )
    seconds = sum(
        hardware.seconds(read * shape.bits / 8 * share, 2 * all_rows * used * share, shape.dtype)
        for read, used in parts
    )
    seen = place.context + rows
    cached = place.batch * seen * shape.cache_bytes
    products = 4 * all_rows * seen * shape.layers * shape.heads * shape.head_size
    seconds += hardware.seconds(cached * share, products * share, shape.dtype)
    kernels = LAYER_KERNELS * shape.layers + OTHER_KERNELS
    if shape.experts:
        kernels += EXPERT_KERNELS * (shape.layers - shape.dense_layers)
    seconds += kernels * hardware.launch
    return seconds + 2 * shape.layers * _sum_seconds(shape, place, all_rows)


def _sum_seconds(shape: Shape, place: Place, rows: int) -> float:
    """Returns the seconds of one sum over the devices, around a ring."""
    if place.devices == 1:
        return 0.0
    hardware, others = place.hardware, place.devices - 1
    require(hardware.link is not None, "hardware.link", None, "bytes per second for devices > 1")
    assert hardware.link is not None
    sent = 2 * others / place.devices * rows * shape.hidden * BITS[shape.dtype] / 8
    return sent / (hardware.link * hardware.reached) + hardware.exchange
