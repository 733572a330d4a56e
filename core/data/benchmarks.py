"""The sets of prompts on which others compare drafters, from the files that their scripts write."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError, nearest, require
from outrider.base.expectations import OneOf
from outrider.data.jsonl import json_lines
from outrider.data.prompts import Prompt
from outrider.data.reading import collect, spaced

SETS: Mapping[str, int] = {
    "gsm8k": 500,
    "math500": 500,
    "aime25": 30,
    "humaneval": 164,
    "mbpp": 256,
    "livecodebench": 500,
    "mt-bench": 80,
    "alpaca": 500,
    "arena-hard-v2": 500,
}
"""The most prompts of each set in DSpark's Table 1 (2607.05147), by the name of its file."""

SEED = 980406
"""Of the shuffle by which DeepSpec chooses prompts from larger sets."""

SPLITS = ("qualitative", *(f"throughput_{size}k" for size in (1, 2, 8, 16, 32)))
TIERS = ("low", "mixed", "high")
"""How well the texts of SPEED-Bench's throughput splits can be predicted, by their entropy."""


@checked("data")
def deepspec(
    path: str, sets: Sequence[str] | None = None, limit: Count | None = None
) -> list[Prompt]:
    """Returns the prompts that DeepSpec measures on: the first turns, by set.

    path: the folder with a file SET.jsonl for each set, eval_datasets in DeepSpec's repository.
    sets: the names of some of the sets, `SETS`. Defaults to all nine.
    limit: the number of prompts of each set, evenly spaced. Defaults to all that DeepSpec takes.

    Raises `ConfigError` if there is no such set, or no such file, or it holds anything but rows
    with turns.
    """
    folder, prompts = Path(path).expanduser(), list[Prompt]()
    for name in SETS if sets is None else sets:
        if name not in SETS:
            raise ConfigError(f"data.sets={name!r}: {nearest(name, SETS)}")
        file = folder / f"{name}.jsonl"
        require(file.is_file(), "data.path", path, f"a folder with {file.name}")
        rows = collect(json_lines(str(file)), str(file), "turns")
        if len(rows) > SETS[name]:
            random.Random(SEED).shuffle(rows)
        prompts += [
            replace(row, id=f"{name}/{row.id}", category=name, turns=row.turns[:1])
            for row in spaced(rows[: SETS[name]], limit)
        ]
    return prompts


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

    Raises `ConfigError` if there is no such split or tier, or no file, or a row is not usable.
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
        # A tier begins the sub-category or the category.
        names = [str(row.get(key) or "").lower() for key in ("sub_category", "category")]
        tier = next((it for name in names for it in TIERS if name.startswith(it)), None)
        if entropy is None or tier == entropy:
            yield where, row if tier is None else {**row, "category": tier}
