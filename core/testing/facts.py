"""Facts: what has to hold whatever part is checked, with a line for people where it does not."""

from collections.abc import Callable
from functools import cache, wraps

from outrider.base.errors import OutriderError


def once(check: Callable[[], None]) -> Callable[[object], None]:
    """Returns a check for parts of any kind. It is played for the first one in a process, and then
    only if it failed.
    """
    played = cache(check)

    @wraps(check)
    def of_any_part(_: object) -> None:
        played()

    return of_any_part


def assert_is(what: str, value: object, expected: object) -> None:
    """Raises AssertionError if a value is not the expected one; `what` says what it is."""
    assert value == expected, f"{what}: got {value}, expected {expected}"


def assert_close(what: str, value: float, expected: float, tolerance: float = 1e-12) -> None:
    """Raises AssertionError if a number is too far from the expected one, or NaN."""
    close = abs(value - expected) <= tolerance
    assert close, f"{what}: got {value:.12g}, expected {expected:.12g}"


def assert_refused(
    what: str, act: Callable[[], object], error: type[Exception] = OutriderError
) -> None:
    """Raises AssertionError if `act` goes through; `what` says what it does."""
    try:
        act()
    except error:
        return
    raise AssertionError(f"{what} was not refused")
