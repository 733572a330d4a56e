"""Data sets that the field compares on, by name, from the files that their own scripts write."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from outrider.base.bounds import Count, OneOf, checked
from outrider.base.errors import require
from outrider.data.jsonl import json_lines
from outrider.data.prompts import Prompt
from outrider.data.reading import collect, spaced

SPLITS = ("qualitative", *(f"throughput_{size}k" for size in (1, 2, 8, 16, 32)))
TIERS = ("low", "mixed", "high")
"""How well the texts of SPEED-Bench's throughput splits can be predicted, by their entropy."""


@checked("data")
def speed_bench(
    path: str,
    split: Annotated[str, OneOf(SPLITS)] = "qualitative",
    entropy: str | None = None,
    limit: Count | None = None,
) -> list[Prompt]:
    """Returns the prompts of a split of SPEED-Bench (2604.09557).

    Their categories are those of the qualitative split, and the tiers of entropy of the others.

    path: the folder with a file SPLIT.jsonl, as NVIDIA's `prepare.py` writes it. The copy on the
        hub has placeholders for texts that may not be copied; they are refused.
    split: qualitative, or throughput_1k, 2k, 8k, 16k or 32k.
    entropy: low, mixed or high, in a throughput split. Defaults to all.
    limit: as for `jsonl`.

    Raises:
        ConfigError: there is no such split or tier, or no file, or a row is not usable.
    """
    is_valid = entropy is None or (entropy in TIERS and split != SPLITS[0])
    require(is_valid, "data.entropy", entropy, f"{', '.join(TIERS)} in a throughput split, or null")
    file = Path(path).expanduser() / f"{split}.jsonl"
    require(file.is_file(), "data.path", path, f"a folder with {file.name}")
    return spaced(collect(_rows(file, split, entropy), str(file)), limit)


def _rows(file: Path, split: str, entropy: str | None) -> Iterator[tuple[str, Any]]:
    for where, row in json_lines(str(file)):
        if split == SPLITS[0] or not isinstance(row, dict):
            yield where, row
            continue
        tier = _tier(row)
        if entropy is None or tier == entropy:
            yield where, row if tier is None else {**row, "category": tier}


def _tier(row: dict[str, Any]) -> str | None:
    """Returns the tier of a row, which begins its sub-category or its category."""
    names = [str(row.get(key) or "").lower() for key in ("sub_category", "category")]
    return next((tier for name in names for tier in TIERS if name.startswith(tier)), None)
