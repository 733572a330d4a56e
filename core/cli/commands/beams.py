"""`outrider beams`: the best beams for a prompt, and the target calls that a drafter saved."""

import json
from dataclasses import asdict
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from outrider.base.folders import write_whole
from outrider.base.terminal import plain, print_json, remarks, results
from outrider.data.prompts import prompt_text
from outrider.decoding.beams.speculation import beam_search
from outrider.plugins.config import build, plain_values


def beams(config: DictConfig) -> None:
    """Prints the beams, best first, and writes `beams.json` in Hydra's run dir."""
    console = results(soft_wrap=True)
    settings = plain_values(config)
    options = {
        name: value
        for name, value in settings.items()
        if name not in ("target", "prompt", "drafter")
    }
    target, drafter = build(config.target), build(config.drafter)
    result = beam_search(target, prompt_text(settings["prompt"]), drafter, **options)
    for text, tokens, score in zip(result.texts, result.tokens, result.scores, strict=True):
        console.rule(f"{score:.4f}", align="left")
        console.print(plain(text or list(tokens)))
    console.rule()
    calls, seconds = len(result.rounds), sum(result.seconds.values())
    notes = remarks(stderr=False)
    notes.print(
        f"{calls} target calls for {result.steps} steps: {result.saved} saved, {seconds:.2f} s"
    )
    path = Path(HydraConfig.get().runtime.output_dir) / "beams.json"
    counts = {"calls": calls, "steps": result.steps, "saved": result.saved}
    content = json.dumps(asdict(result) | counts, indent=1)
    write_whole(path, content)
    print_json(content)
    notes.print(plain(path), soft_wrap=True)
