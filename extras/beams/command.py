"""`outrider beams`: the best beams for a prompt, and the target calls that a drafter saved."""

import json
from dataclasses import asdict
from pathlib import Path

from hydra.core.hydra_config import HydraConfig

from outrider.base.folders import write_whole
from outrider.base.terminal import plain, print_json, remarks, results
from outrider.data.prompts import prompt_text
from outrider.extras.beams.settings import Beams
from outrider.extras.beams.speculation import beam_search
from outrider.plugins.config import build


def beams(settings: Beams) -> None:
    """Prints the beams, best first, and writes `beams.json` in Hydra's run dir."""
    console = results(soft_wrap=True)
    target, drafter = build(settings.target), build(settings.drafter)
    result = beam_search(
        target,
        prompt_text(settings.prompt),
        drafter,
        width=settings.width,
        draft_width=settings.draft_width,
        gamma=settings.gamma,
        max_new_tokens=settings.max_new_tokens,
        length_penalty=settings.length_penalty,
        early_stopping=settings.early_stopping,
        num_return_sequences=settings.num_return_sequences,
        chat=settings.chat,
    )
    calls, seconds = len(result.rounds), sum(result.seconds.values())
    path = Path(HydraConfig.get().runtime.output_dir) / "beams.json"
    counts = {"calls": calls, "steps": result.steps, "saved": result.saved}
    content = json.dumps(asdict(result) | counts, indent=1)
    write_whole(path, content)
    for text, tokens, score in zip(result.texts, result.tokens, result.scores, strict=True):
        console.rule(f"{score:.4f}", align="left")
        console.print(plain(text or list(tokens)))
    console.rule()
    notes = remarks(stderr=False)
    notes.print(
        f"{calls} target calls for {result.steps} steps: {result.saved} saved, {seconds:.2f} s"
    )
    print_json(content)
    notes.print(plain(path), soft_wrap=True)
