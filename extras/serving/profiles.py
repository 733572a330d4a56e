"""speculation_profile.json of a drafter in vLLM, from the counters of the server."""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from outrider.base.folders import write_whole
from outrider.extras.serving.vllm_server import Drafted
from outrider.lab.runs.speculation_profile import NAME, Subject, profile
from outrider.lab.statistics.acceptance import Acceptance
from outrider.lab.statistics.intervals import Interval


def acceptance_of(counts: Drafted, gamma: int) -> Acceptance | None:
    """Returns the acceptance that vLLM counted; None if it counted none by position.

    vLLM counts over all texts, so there is no mean per request, and there are no intervals. Only
    rounds with a draft count.

    gamma: the number of positions.
    """
    if not counts.by_position or not counts.drafts:
        return None
    reached = [counts.drafts, *counts.by_position[:gamma]]
    reached += [0] * (gamma + 1 - len(reached))
    ends = [before - after for before, after in pairwise([*reached, 0])]
    return Acceptance(
        {length: count for length, count in enumerate(ends, start=1) if count},
        Interval(sum(reached) / counts.drafts, None, None),
        None,
        tuple(count / counts.drafts for count in reached[1:]),
        tuple(after / before if before else None for before, after in pairwise(reached)),
    )


def write_profile(
    name: str,
    counts: Drafted,
    settings: Mapping[str, Any],
    conditions: Mapping[str, Any],
    *,
    folder: Path,
) -> Path | None:
    """Writes the profile of a drafter into a folder of its own; None if there is nothing to say.

    settings: of the run, with its `drafter`. conditions: what it was measured with.
    """
    found = acceptance_of(counts, int(settings["gamma"]))
    if found is None:
        return None
    subject = Subject(settings["drafter"], settings.get("target"))
    path = folder / "profiles" / name.replace("/", "-") / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(profile(found, subject, conditions), indent=2) + "\n")
    return path
