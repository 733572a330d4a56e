"""`outrider serve-check`: runs drafters in vLLM, and compares texts and counts with the lab's."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from hydra.core.hydra_config import HydraConfig
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from outrider.base.errors import OutriderError, require
from outrider.base.folders import write_whole
from outrider.base.terminal import plain, print_json, remarks, results
from outrider.contract.drafter import Drafter
from outrider.contract.target import Target
from outrider.extras.bench.entrants import weights_location
from outrider.extras.serving.check import Difference, ask, differences, lab_counts
from outrider.extras.serving.profiles import write_profile
from outrider.extras.serving.serve_config import vllm_settings
from outrider.extras.serving.server import Drafted, Server, version_in
from outrider.extras.serving.settings import ServeCheck
from outrider.extras.serving.vllm import check_version
from outrider.plugins.config import build, option_configs, plain_values
from outrider.plugins.schema import plain_settings


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """A drafter's counts in the lab and in vLLM, and its texts that differ from vLLM's own."""

    lab: Drafted
    vllm: Drafted
    differences: list[Difference]


@final
@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts vLLM servers for one model; each writes a log into `folder`."""

    python: Path
    model: str
    folder: Path
    options: Sequence[str]

    def start(
        self,
        name: str,
        environment: Mapping[str, str] | None = None,
        speculative: dict[str, Any] | None = None,
    ) -> Server:
        """Returns a server, to be used in a `with` statement."""
        # In gigabytes. By default vLLM takes half of the machine's memory for keys and values.
        space = {"VLLM_CPU_KVCACHE_SPACE": os.environ.get("VLLM_CPU_KVCACHE_SPACE", "2")}
        return Server(
            self.python,
            self.model,
            self.folder / f"{name}.log",
            speculative=speculative,
            environment=space | dict(environment or {}),
            options=self.options,
        )


def serve_check(config: ServeCheck) -> None:
    """Prints the table, and writes `serve-check.json` and profiles in Hydra's run dir.

    Raises:
        OutriderError: a text differs from what vLLM writes without drafts, other than at a tie.
    """
    _check(config)
    python, settings = Path(config.vllm).expanduser(), plain_settings(config)
    version = version_in(python)
    check_version(version)
    folder = Path(HydraConfig.get().runtime.output_dir)
    nodes = option_configs("drafter", settings["drafters"])
    drafters = {name: build(node) for name, node in nodes.items()}
    vllm = {
        name: vllm_settings(
            {**settings, "drafter": plain_values(node)}, drafters[name], folder / name
        )
        for name, node in nodes.items()
    }
    target = build(config.target)
    prompts = [
        target.encode_turns(list(prompt.turns[: config.turns]), chat=config.chat)
        for prompt in build(config.data)
    ]
    dtype = str(target.model.dtype).removeprefix("torch.")
    options = ["--dtype", dtype, "--max-model-len", "4096", *map(str, settings["options"])]
    launcher = Launcher(python, weights_location(settings), folder, options)
    comparisons = _compare(config, target, prompts, drafters, launcher=launcher, vllm=vllm)
    title = f"{len(prompts)} prompts, {config.clients} clients, gamma {config.gamma}"
    results().print(_table(comparisons, len(prompts), title))
    conditions = {
        "engine": f"vllm {version}",
        "concurrency": config.clients,
        "prompts": len(prompts),
        "temperature": 0.0,
        "max_new_tokens": config.max_new_tokens,
    }
    for name, comparison in comparisons.items():
        write_profile(name, comparison.vllm, settings, conditions, folder=folder)
    path = folder / "serve-check.json"
    content = json.dumps(_report(settings, comparisons), indent=1) + "\n"
    write_whole(path, content)
    print_json(content)
    remarks(stderr=False).print(plain(path), soft_wrap=True)
    wrong = sum(
        not difference.tie
        for comparison in comparisons.values()
        for difference in comparison.differences
    )
    if wrong:
        raise OutriderError(f"{wrong} texts are not those that vLLM writes without drafts")


def _check(config: ServeCheck) -> None:
    is_greedy = config.sampling.temperature == 0
    require(is_greedy, "sampling.temperature", config.sampling.temperature, "0: texts are compared")


def _compare(
    config: ServeCheck,
    target: Target,
    prompts: Sequence[list[int]],
    drafters: Mapping[str, Drafter],
    *,
    launcher: Launcher,
    vllm: Mapping[str, tuple[dict[str, str], dict[str, Any]]],
) -> dict[str, Comparison]:
    """Returns the comparison of each drafter.

    vllm: by drafter, the environment variables and the speculative config.
    """
    results: dict[str, Comparison] = {}
    with _steps(2 * len(drafters) + 1) as step:
        counts_in_lab = {}
        for name, drafter in drafters.items():
            with step("the lab"):
                counts_in_lab[name] = lab_counts(
                    target,
                    drafter,
                    prompts,
                    gamma=config.gamma,
                    max_new_tokens=config.max_new_tokens,
                )
        with step("vLLM without drafts"), launcher.start("plain") as server:
            expected = ask(server, prompts, config.clients, config.max_new_tokens)
        for name, (environment, speculative) in vllm.items():
            with step(f"vLLM with {name}"):
                with launcher.start(name, environment, speculative) as server:
                    texts = ask(server, prompts, config.clients, config.max_new_tokens)
                    counts = server.drafted()
                differing = differences(texts, expected, prompts, target)
                results[name] = Comparison(counts_in_lab[name], counts, differing)
    return results


@contextmanager
def _steps(total: int) -> Iterator[Any]:
    """Shows a progress bar; yields the context manager that shows one step of it."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=remarks()) as progress:
        task = progress.add_task("", total=total)

        @contextmanager
        def step(description: str) -> Iterator[None]:
            progress.update(task, description=description)
            yield
            progress.advance(task)

        yield step


def _table(comparisons: Mapping[str, Comparison], texts: int, title: str) -> Table:
    table = Table(title=title)
    table.add_column("")
    for heading in ("", "drafts", "drafted", "accepted", "rate", "alike", "ties"):
        table.add_column(heading, justify="right")
    for name, comparison in comparisons.items():
        alike = f"{texts - len(comparison.differences)} of {texts}"
        ties = str(sum(difference.tie for difference in comparison.differences))
        table.add_row(plain(name), "lab", *_cells(comparison.lab), "", "")
        table.add_row("", "vLLM", *_cells(comparison.vllm), alike, ties)
    return table


def _cells(counts: Drafted) -> tuple[str, str, str, str]:
    rate = f"{counts.accepted / counts.drafted:.3f}" if counts.drafted else "-"
    return str(counts.drafts), str(counts.drafted), str(counts.accepted), rate


def _report(settings: dict[str, Any], comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
    """Returns the content of `serve-check.json`."""
    drafters = {
        name: {
            "lab": asdict(comparison.lab),
            "vllm": asdict(comparison.vllm),
            "differences": [
                {
                    "prompt": difference.prompt,
                    "place": difference.position,
                    "gap": difference.gap,
                }
                for difference in comparison.differences
            ],
        }
        for name, comparison in comparisons.items()
    }
    return {"settings": settings, "drafters": drafters}
