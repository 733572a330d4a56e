"""Settings of `outrider theory`: their types and bounds; `conf/theory.yaml` says what they mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

from outrider.base.bounds import NonNegative, Share
from outrider.base.expectations import AtLeast


@final
@dataclass(frozen=True, kw_only=True)
class Theory:
    alpha: Share | Annotated[Sequence[Share], AtLeast(1)]
    gamma: Annotated[int, AtLeast(0)] | Annotated[Sequence[Annotated[int, AtLeast(0)]], AtLeast(1)]
    c: NonNegative | Annotated[Sequence[NonNegative], AtLeast(1)]
    c_hat: NonNegative | None
    layout: Literal["table1"] | None


def values(setting: Any) -> list[Any]:
    """Returns a setting's values: the items of a list, or the one value."""
    return setting if isinstance(setting, list) else [setting]
