"""The card of trained weights, and the fingerprints of the prompts that they learned from."""

import json
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from outrider.base.folders import write_whole
from outrider.base.terminal import remark
from outrider.contract.target import Target
from outrider.extras.training.corpus import Split
from outrider.extras.training.generated_texts import Text
from outrider.extras.training.identity import LIBRARIES
from outrider.extras.training.progress import Figures
from outrider.extras.training.recipe import Job
from outrider.lab.runs.identity import FILE, fingerprint_of, provenance


def write_result(
    job: Job, split: Split, curve: Sequence[Figures], *, family: str, facts: Mapping[str, Any]
) -> None:
    """Writes the card of a drafter and its prompts' fingerprints into a job's folder.

    The card is `README.md`, and its facts are also in `facts.json`. The folder's path is printed.

    curve: what was measured at each evaluation, with its "step".
    facts: further ones for the card.
    """
    all_facts = {
        "family": family,
        "command": job.command,
        **job.origin,
        **split.facts(),
        "steps": int(curve[-1]["step"]),
        "seconds": round(time.monotonic() - job.began),
        **facts,
    }
    write_fingerprints(job.out, job.target, split.learned)
    names = [name for name in curve[-1] if name != "step"]
    points = [[f"{it['step']:.0f}", *(f"{it[name]:.3f}" for name in names)] for it in curve]
    told = [(name, str(it).replace("|", r"\|")) for name, it in all_facts.items()]
    parts = (
        f"# {family}",
        f"Trained with `{job.command}`.",
        _table(["", ""], [row for row in told if row[0] != "command"]),
        "On held-out texts, at temperature 1:",
        _table(["step", *names], points),
    )
    write_whole(job.out / "README.md", "\n\n".join(parts) + "\n")
    write_whole(job.out / "facts.json", json.dumps(all_facts, indent=1) + "\n")
    remark(job.out, stderr=False)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def origin(target: Target, name: str) -> dict[str, str]:
    """Returns for which target weights are made, when, where and by which versions."""
    made = provenance("train", ())
    return {
        "target": Path(name).name if Path(name).exists() else name,
        "target's weights": (target.fingerprint() or "")[:16],
        "date": made["date"][:10],
        "machine": str(made["accelerator"] or made["processor"]),
        "versions": ", ".join(f"{library} {version(library)}" for library in LIBRARIES),
    }


def write_fingerprints(folder: Path, target: Target, texts: Sequence[Text]) -> None:
    """Writes the fingerprints of the texts' prompts, one per line.

    `outrider compare` knows by them which prompts a drafter was trained on.
    """
    if target.tokenizer is None:
        return
    lines = sorted({fingerprint_of(target, text.ids[: text.answer]) for text in texts})
    (folder / FILE).write_text("\n".join(lines) + "\n")
