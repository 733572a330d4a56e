"""Settings of `outrider theory`: their types and bounds; `conf/theory.yaml` says what they mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, final

from outrider.base.bounds import NewFile, NonNegative, Share
from outrider.base.expectations import AtLeast, Like

TABLE1 = "table1"
"""The layout that is a table; any other is a figure, the place of a function that draws it."""

Layout = Annotated[
    str, Like(f"{TABLE1}|.*:.*", f"{TABLE1}, or the place of a figure, module:function")
]


@final
@dataclass(frozen=True, kw_only=True)
class Theory:
    alpha: Share | Annotated[Sequence[Share], AtLeast(1)]
    gamma: Annotated[int, AtLeast(0)] | Annotated[Sequence[Annotated[int, AtLeast(0)]], AtLeast(1)]
    c: NonNegative | Annotated[Sequence[NonNegative], AtLeast(1)]
    c_hat: NonNegative | None
    profile: str | None
    layout: Layout | None
    out: NewFile | None


def values(setting: Any) -> list[Any]:
    """Returns a setting's values: the items of a list, or the one value."""
    return setting if isinstance(setting, list) else [setting]
