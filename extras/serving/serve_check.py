"""`outrider serve-check`: drafters in vLLM: their texts and counts, and the distribution."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from hydra.core.hydra_config import HydraConfig
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from outrider.base.errors import OutriderError, require
from outrider.base.folders import write_whole
from outrider.base.terminal import plain, print_json, remarks, results
from outrider.contract.drafter import Drafter
from outrider.contract.target import Target
from outrider.extras.audit.audit import Auditor
from outrider.extras.audit.client import Request
from outrider.extras.audit.command import PROMPTS
from outrider.extras.audit.expected import FromTarget
from outrider.extras.audit.result import Result
from outrider.extras.bench.entrants import weights_location
from outrider.extras.serving import serve_report
from outrider.extras.serving.check import ask, differences, lab_counts
from outrider.extras.serving.profiles import write_profile
from outrider.extras.serving.serve_config import vllm_settings
from outrider.extras.serving.serve_report import Comparison
from outrider.extras.serving.server import Server, version_in
from outrider.extras.serving.settings import ServeCheck
from outrider.extras.serving.vllm import check_version
from outrider.plugins.config import build
from outrider.plugins.reading import plain_settings, plain_values

AUDITED_TOKENS = 24
"""The length of the texts of an audit."""

LISTED = 5
"""How many of the likeliest tokens are asked for, each with its log-probability."""


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
        OutriderError: a text differs from what vLLM writes without drafts, other than at a tie, or
            an audit finds that sampled texts have another distribution than the target's.
    """
    _check(config)
    python, settings = Path(config.vllm).expanduser(), plain_settings(config)
    version = version_in(python)
    check_version(version)
    folder = Path(HydraConfig.get().runtime.output_dir)
    drafters = {name: build(node) for name, node in config.drafters.items()}
    runs = {
        name: {**settings, "drafter": plain_values(node)} for name, node in config.drafters.items()
    }
    vllm = {name: vllm_settings(runs[name], drafters[name], folder / name) for name in runs}
    target = build(config.target)
    prompts = [
        target.encode_turns(list(prompt.turns[: config.turns]), chat=config.chat)
        for prompt in build(config.data)
    ]
    dtype = str(target.model.dtype).removeprefix("torch.")
    options = ["--dtype", dtype, "--max-model-len", "4096", *map(str, settings["options"])]
    launcher = Launcher(python, weights_location(settings), folder, options)
    conditions = {
        "engine": f"vllm {version}",
        "concurrency": config.clients,
        "prompts": len(prompts),
        "temperature": 0.0,
        "max_new_tokens": config.max_new_tokens,
    }
    path, content = folder / "serve-check.json", ""
    comparisons: dict[str, Comparison] = {}
    for name, comparison in _compare(
        config, target, prompts, drafters, launcher=launcher, vllm=vllm
    ):
        comparisons[name] = comparison
        write_profile(name, comparison.vllm, runs[name], conditions, folder=folder)
        content = json.dumps(serve_report.content(settings, comparisons), indent=1) + "\n"
        write_whole(path, content)  # what is known so far: the next server may fail
    title = f"{len(prompts)} prompts, {config.clients} clients, gamma {config.gamma}"
    results().print(serve_report.table(comparisons, len(prompts), title))
    print_json(content)
    remarks(stderr=False).print(plain(path), soft_wrap=True)
    for line in serve_report.audit_lines(comparisons):
        results().print(plain(line), soft_wrap=True)
    if fault := serve_report.fault(comparisons):
        raise OutriderError(fault)


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
) -> Iterator[tuple[str, Comparison]]:
    """Yields each drafter with its comparison, as soon as it is known.

    vllm: by drafter, the environment variables and the speculative config.
    """
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
            expected = ask(server.client(), prompts, config.clients, config.max_new_tokens)
        for name, (environment, speculative) in vllm.items():
            with step(f"vLLM with {name}"):
                with launcher.start(name, environment, speculative) as server:
                    asked = (server.client(), prompts, config.clients, config.max_new_tokens)
                    texts = ask(*asked)
                    counts = server.drafted()
                    mixed = ask(*asked, temperatures=(1.0, 0.0))
                    audit = _audited(server, target, prompts, config)
                yield (
                    name,
                    Comparison(
                        counts_in_lab[name],
                        counts,
                        differences(texts, expected, prompts, target),
                        differences(mixed, expected, prompts, target),
                        audit,
                    ),
                )


def _audited(
    server: Server, target: Target, prompts: Sequence[list[int]], config: ServeCheck
) -> Result | None:
    if not config.audit:
        return None
    asked = [Request(tuple(ids), AUDITED_TOKENS) for ids in prompts[:PROMPTS]]
    return Auditor(server.client(LISTED), asked, FromTarget(target)).run(config.audit)


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
