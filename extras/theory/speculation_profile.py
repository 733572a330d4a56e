"""speculation_profile.json: how good a drafter is, in the format that NVIDIA's tools exchange.

The format is that of schema 1.0 in examples/specdec_bench of NVIDIA's Model-Optimizer. Dynamo's
mocker reads its conditional rates, vLLM's synthetic acceptance the marginal ones.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from outrider.base.folders import write_whole
from outrider.lab.runs.report import Report
from outrider.lab.runs.row import Row
from outrider.lab.runs.speculation_profile import NAME, Subject, class_name, profile
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.acceptance import Acceptance


@final
class Profiles(Report):
    """The profile of each drafter of a run, beside its measurements."""

    def end(self, summaries: Mapping[str, Summary], folder: Path) -> tuple[Path, ...]:
        for summary in summaries.values():
            if summary.run.folder == folder:
                write_profiles(summary, folder)
        return ()


def write_profiles(summary: Summary, folder: Path) -> list[Path]:
    """Writes the profile of each drafter that drafted, into a folder of its own in `profiles`."""
    written = []
    for row in summary.rows:
        if row.acceptance is not None and row.counts is not None and row.counts.drafted:
            path = folder / "profiles" / row.drafter.replace("/", "-") / NAME
            write_whole(path, json.dumps(profile_of(summary, row, row.acceptance), indent=2) + "\n")
            written.append(path)
    return written


def profile_of(summary: Summary, row: Row, acceptance: Acceptance) -> dict[str, Any]:
    facts = summary.run.facts
    settings, config = facts["settings"], facts["drafters"][row.drafter]
    rule = class_name(config.get("verifier") or settings.get("verifier"))
    policy = class_name(config.get("policy") or settings.get("policy"))
    drafter = config.get("drafter") or {}
    subject = Subject(drafter, settings.get("target"), rule, policy, row.ranks is None)
    mean = acceptance.mean_acceptance_length
    conditions = {
        "engine": "outrider",
        "concurrency": 1,
        "prompts": row.prompts,
        "verifier": rule,
        "policy": policy,
        "temperature": (settings.get("sampling") or {}).get("temperature"),
        "max_new_tokens": settings.get("max_new_tokens"),
        "mean_accept_length_interval": [mean.low, mean.high],
    }
    lengths = {
        task: float(summary.statistic(row.drafter, "block_efficiency", prompts).value)
        for task, prompts in summary.tasks.items()
    }
    categories = {task: {"mean_accept_length": round(value, 6)} for task, value in lengths.items()}
    return profile(acceptance, subject, conditions) | {"per_category": categories}
