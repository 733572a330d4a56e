"""`outrider beams`: the best beams of a prompt, and the target calls that a drafter saved."""

import json
from dataclasses import asdict
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from outrider.decoding.beams.speculation import beam_search
from outrider.plugins.config import build, plain


def beams(config: DictConfig) -> None:
    """Prints the beams, best first, and writes `beams.json` in Hydra's run dir."""
    console = Console(soft_wrap=True, highlight=False)
    given = plain(config)
    found = beam_search(
        build(config.target),
        given.pop("prompt"),
        build(config.drafter),
        **{name: value for name, value in given.items() if name not in ("target", "drafter")},
    )
    for text, tokens, score in zip(found.texts, found.tokens, found.scores, strict=True):
        console.rule(f"{score:.4f}", align="left")
        console.print(text or list(tokens), markup=False)
    console.rule()
    calls, spent = len(found.rounds), sum(found.seconds.values())
    console.print(
        f"{calls} target calls for {found.steps} steps: {found.saved} saved, {spent:.2f} s"
    )
    path = Path(HydraConfig.get().runtime.output_dir) / "beams.json"
    counts = {"calls": calls, "steps": found.steps, "saved": found.saved}
    path.write_text(json.dumps(asdict(found) | counts, indent=1))
    console.print(f"{path}")
