"""`outrider compare`: drafters side by side over the same prompts."""

from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from outrider.config import build, named_drafters, plain
from outrider.lab.compare import Measurement, Question, Settings
from outrider.lab.compare import compare as compare_drafters
from outrider.lab.table import table


def compare(config: DictConfig) -> None:
    """Prints the table and writes `comparison.json` in Hydra's run dir."""
    folder = Path(HydraConfig.get().runtime.output_dir)
    nodes = named_drafters(plain(config.drafters))
    target, verifier, sampling = (
        build(config.target),
        build(config.verifier),
        build(config.sampling),
    )
    questions = [
        Question(prompt.id, prompt.category, target.encode(prompt.turns[0], chat=config.chat))
        for prompt in build(config.data)
    ]
    settings = Settings(
        config.gamma, config.budget, sampling, build(config.lookahead), config.max_new_tokens
    )
    drafters = {name: build(node) for name, node in nodes.items()}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        work = progress.add_task("Measuring", total=len(questions) * len(drafters))

        def show(done: Measurement) -> None:
            progress.update(work, advance=1, description=f"prompt {done.prompt}, {done.drafter}")

        rows = compare_drafters(
            target,
            drafters,
            verifier,
            questions,
            settings,
            folder,
            facts={
                **plain(config),
                "drafters": {name: plain(node) for name, node in nodes.items()},
            },
            on_measurement=show,
        )
    title = (
        f"{len(questions)} prompts, {config.max_new_tokens} tokens each,"
        f" gamma {config.gamma}, temperature {sampling.temperature:g}"
    )
    console = Console()
    console.print(table(rows, title))
    console.print(f"{folder / 'comparison.json'}", soft_wrap=True)
