"""The roofline of a pass, in numbers that are worked out by hand."""

from dataclasses import replace

import pytest

from outrider import ConfigError
from outrider.extras.theory.hardware import Hardware
from outrider.extras.theory.roofline import Place, pass_seconds
from outrider.extras.theory.shapes import Shape

TINY = Shape(
    layers=2, hidden=8, intermediate=16, heads=4, key_heads=2, head_size=2, vocabulary=50,
    bits=16, dtype="bfloat16",
)  # fmt: skip
"""A layer has 2 x 8 x 2 x (4 + 2) + 3 x 8 x 16 = 576 weights, the table 400; a token's keys and
values take 2 x 2 x 2 x 2 x 2 = 32 bytes."""


def machine(bandwidth: float = 1.0, peak: float = 1e30, **others: float) -> Hardware:
    """Returns a machine that reads a byte a second, and computes without end."""
    settings = {"launch": 0.0, **others}
    return Hardware(name="toy", bandwidth=bandwidth, peak={"bfloat16": peak}, **settings)


def test_a_shape_counts_its_weights() -> None:
    assert (TINY.layer_weights, TINY.table_weights, TINY.cache_bytes) == (576, 400, 32)


def test_a_pass_that_reads_takes_its_bytes() -> None:
    """2 bytes for each of 2 x 576 + 400 weights, and 32 for each of 10 + 1 tokens."""
    place = Place(machine(), context=10)
    assert pass_seconds(TINY, place, 1) == 2 * 1552 + 32 * 11
    assert pass_seconds(TINY, place, 5) == 2 * 1552 + 32 * 15
    assert pass_seconds(TINY, replace(place, batch=3), 1) == 2 * 1552 + 3 * 32 * 11


def test_a_pass_that_computes_takes_its_operations() -> None:
    """2 for each weight and row; 4 x 8 numbers x 2 layers for each row and token that it sees."""
    place = Place(machine(bandwidth=1e30, peak=1.0), batch=3, context=10)
    assert pass_seconds(TINY, place, 2) == 6 * 2 * 1552 + 6 * 12 * 4 * 8 * 2


def test_each_part_is_as_slow_as_its_slower_half() -> None:
    """At a peak of 3 operations a second six rows make the matrices compute; attention reads."""
    place = Place(machine(peak=3.0), context=1000)
    reads, computes = 32 * 1006, 6 * 1006 * 4 * 8 * 2 / 3
    assert pass_seconds(TINY, place, 6) == 6 * 2 * 1552 / 3 + max(reads, computes)


def test_launches_are_counted_by_layer() -> None:
    """9 for each of 2 layers, and 3."""
    place = Place(machine(bandwidth=1e30, launch=0.5), context=1)
    assert pass_seconds(TINY, place, 1) == pytest.approx(21 / 2)


def test_quantized_weights_are_read_by_their_bits() -> None:
    place = Place(machine(), context=10)
    assert pass_seconds(replace(TINY, bits=4.5), place, 1) == 4.5 / 8 * 1552 + 32 * 11


def test_a_share_of_the_peaks_lengthens_every_part() -> None:
    place = Place(machine(), context=10)
    half = Place(machine(reached=0.5), context=10)
    assert pass_seconds(TINY, half, 1) == 2 * pass_seconds(TINY, place, 1)


def test_devices_share_the_bytes_and_sum_twice_a_layer() -> None:
    """Around a ring of four each sends 2 x 3 / 4 of 8 numbers of 2 bytes; a sum costs 3 more."""
    place = Place(machine(link=2.0, exchange=3.0), context=10, devices=4)
    sums = 4 * (2 * 3 / 4 * 16 / 2 + 3)
    assert pass_seconds(TINY, place, 1) == (2 * 1552 + 32 * 11) / 4 + sums
    with pytest.raises(ConfigError, match=r"^hardware\.link=None: expected bytes per second"):
        pass_seconds(TINY, replace(place, hardware=machine()), 1)


def test_a_type_without_a_peak_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^hardware\.peak: float32: "):
        pass_seconds(replace(TINY, dtype="float32"), Place(machine()), 1)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"bandwidth": 0}, "hardware.bandwidth=0: expected a number above 0"),
        ({"launch": -1}, "hardware.launch=-1: expected a number of at least 0"),
        ({"reached": 1.5}, r"hardware.reached=1.5: expected a number in \(0, 1\]"),
    ],
)
def test_impossible_machines_are_refused(settings: dict[str, float], line: str) -> None:
    with pytest.raises(ConfigError, match=f"^{line}"):
        machine(**settings)


def test_a_mixture_reads_the_experts_that_its_rows_touch() -> None:
    """A layer: 192 of attention, 8 x 4 of the router, 3 x 8 x 2 for each of four experts."""
    mixture = replace(TINY, experts=4, chosen=1, expert_size=2, dense_layers=1)
    place = Place(machine(), context=10)
    for rows, touched in ((1, 1), (2, 1.75), (3, 2.3125)):
        weights = 576 + 192 + 32 + touched * 48 + 400
        assert pass_seconds(mixture, place, rows) == 2 * weights + 32 * (10 + rows)
    computing = Place(machine(bandwidth=1e30, peak=1.0), context=10)
    used = 576 + 192 + 32 + 48 + 400
    assert pass_seconds(mixture, computing, 3) == 3 * 2 * used + 3 * 13 * 4 * 8 * 2
