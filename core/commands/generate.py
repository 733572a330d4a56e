"""`outrider generate`: one text, streamed, coloured by who wrote each token."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outrider.decoding.decode import decode
from outrider.decoding.generation import Generation, generate_together
from outrider.plugins.config import build, plain

STYLES = {"accepted": "green", "recovered": "red", "bonus": "blue"}


def generate(config: DictConfig) -> None:
    """Streams the text to stdout and writes `generation.json` in Hydra's run dir."""
    console = Console(soft_wrap=True, highlight=False)
    path = Path(HydraConfig.get().runtime.output_dir) / "generation.json"
    target, verifier = build(config.target), build(config.verifier)
    prompt = config.prompt if isinstance(config.prompt, str) else plain(config.prompt)
    options: dict[str, Any] = {
        "gamma": config.gamma,
        "budget": config.budget,
        "sampling": build(config.sampling),
        "max_new_tokens": config.max_new_tokens,
        "stops": plain(config.stop),
    }
    if not isinstance(prompt, str) and any(isinstance(each, str) for each in prompt):
        _together(config, console, path, options)
        return
    rounds = decode(
        target,
        build(config.drafter),
        verifier,
        target.encode(prompt, chat=config.chat),
        policy=build(config.policy),
        **options,
    )
    generation, failed = Generation(), None
    try:
        for round in rounds:
            generation.add(round)
            for piece, origin in zip(round.pieces, round.origins, strict=True):
                console.print(Text(piece, style=STYLES[origin]), end="")
    except BaseException as error:
        failed = f"{type(error).__name__}: {error}"
        raise
    finally:  # a run that breaks off leaves what it had
        console.print("\n")
        path.write_text(json.dumps(report(generation, verifier.lossless, failed), indent=1))
        console.print(summary(generation, verifier.lossless))
        console.print(f"{path}")


def _together(config: DictConfig, console: Console, path: Path, options: dict[str, Any]) -> None:
    """Writes several prompts' texts in one batch, and says each when all are there."""
    prompts, verifier = plain(config.prompt), build(config.verifier)
    generations = generate_together(
        build(config.target),
        prompts,
        build(config.drafter),
        verifier,
        chat=config.chat,
        policies=[build(config.policy) for _ in prompts],
        **options,
    )
    for prompt, generation in zip(prompts, generations, strict=True):
        console.rule(str(prompt), align="left")
        console.print(Text.assemble(*_pieces(generation)))
        console.print(summary(generation, verifier.lossless))
    reports = [report(generation, verifier.lossless, None) for generation in generations]
    path.write_text(json.dumps(reports, indent=1))
    console.print(f"{path}")


def _pieces(generation: Generation) -> list[tuple[str, str]]:
    return [
        (piece, STYLES[origin])
        for round in generation.rounds
        for piece, origin in zip(round.pieces, round.origins, strict=True)
    ]


def report(generation: Generation, lossless: bool, failed: str | None) -> dict[str, Any]:
    """Returns what `generation.json` holds."""
    return {
        "text": generation.text,
        "tokens": generation.tokens,
        "counts": asdict(generation.counts),
        "rounds": [asdict(round) for round in generation.rounds],
        "seconds": generation.seconds,
        "stop": generation.stop,
        "lossless": lossless,
        "error": failed,
    }


def summary(generation: Generation, lossless: bool) -> Table:
    """Returns the small table at the end: counts, rates and times."""
    counts, seconds = generation.counts, generation.seconds
    legend = Text(" ").join(Text(origin, style=style) for origin, style in STYLES.items())
    table = Table(title=legend if lossless else Text("LOSSY rule  ").append(legend))
    for column in ("", "", "rate", "", "seconds", ""):
        table.add_column(column, justify="right" if not column else "left")
    rates = {
        "alpha_tested": counts.alpha_tested,
        "acceptance_rate": counts.acceptance_rate,
        "block_efficiency": counts.block_efficiency,
        "tokens/s": counts.emitted / seconds["total"] if seconds["total"] else None,
        "": None,
    }
    rows = zip(asdict(counts).items(), rates.items(), [*seconds.items(), ("", None)], strict=True)
    for (count, n), (rate, value), (phase, spent) in rows:
        table.add_row(
            count,
            str(n),
            rate,
            "" if not rate else "-" if value is None else f"{value:.2f}",
            phase,
            "" if spent is None else f"{spent:.3f}",
        )
    return table
