"""A machine as its figures on paper: what memory, arithmetic, launches and links allow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, final

from outrider.base.bounds import Above, NonNegative, Within, checked
from outrider.base.errors import ConfigError, nearest

Rate = Annotated[float, Above(0)]


@final
@checked("hardware")
@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """A machine's figures; `conf/hardware/*.yaml` has some, with their sources.

    bandwidth: bytes per second from memory.
    peak: floating-point operations per second of dense products, by the name of their type.
    launch: seconds that each kernel costs besides its work.
    reached: the share of bandwidth and peak that passes reach; 1 where those were measured.
    link: bytes per second to another device, one way; None if there is none.
    exchange: seconds of a sum over devices, however small.

    Raises:
        ConfigError: a number is out of range.
    """

    name: str
    bandwidth: Rate
    peak: Mapping[str, Any]
    launch: NonNegative
    reached: Annotated[float, Within("(0, 1]")] = 1.0
    link: Rate | None = None
    exchange: NonNegative = 0.0
    source: str = ""

    def seconds(self, read: float, operations: float, dtype: str) -> float:
        """Returns how long some work takes that reads and computes at once: the roofline.

        Raises:
            ConfigError: the machine has no peak for this type.
        """
        if dtype not in self.peak:
            raise ConfigError(f"hardware.peak: {dtype}: {nearest(dtype, self.peak)}")
        return max(read / self.bandwidth, operations / float(self.peak[dtype])) / self.reached
