"""The nine sets on which DeepSpec compares drafters, as prompts of nine categories."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError, nearest, require
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


@checked("data")
def deepspec(
    path: str, sets: Sequence[str] | None = None, limit: Count | None = None
) -> list[Prompt]:
    """Returns the prompts that DeepSpec measures on: the first turns, by set.

    path: the folder with a file SET.jsonl for each set, eval_datasets in DeepSpec's repository.
    sets: the names of some of the sets, `SETS`. Defaults to all nine.
    limit: the number of prompts of each set, evenly spaced. Defaults to all that DeepSpec takes.

    Raises:
        ConfigError: there is no such set, or no such file, or it holds anything but rows with
            turns.
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
