"""`outrider serve-check`: drafters in vLLM over HTTP, their texts and counts beside the lab's."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from outrider.bench.entrants import local
from outrider.commands.serve_config import served
from outrider.errors import OutriderError, is_int, require
from outrider.plugins.config import build, named, plain
from outrider.serving.check import Difference, ask, differences, lab_counts
from outrider.serving.server import Drafted, Server, version_in
from outrider.serving.vllm import check_version


def serve_check(config: DictConfig) -> None:
    """Prints the table; raises `OutriderError` where a text is not vLLM's own but for ties."""
    greedy = config.sampling.temperature == 0
    require(greedy, "sampling.temperature", config.sampling.temperature, "0: texts are compared")
    some = is_int(config.clients) and config.clients >= 1
    require(some, "clients", config.clients, "a whole number of at least 1")
    python, settings = Path(str(config.vllm)).expanduser(), plain(config)
    check_version(version_in(python))
    nodes = named("drafter", settings["drafters"])
    drafters = {name: build(node) for name, node in nodes.items()}
    folder = Path(HydraConfig.get().runtime.output_dir)
    ways = {
        name: served({**settings, "drafter": plain(node)}, drafters[name], folder / name)
        for name, node in nodes.items()
    }
    target = build(config.target)
    prompts = [
        target.encode_turns(list(each.turns[: config.turns]), chat=config.chat)
        for each in build(config.data)
    ]
    dtype = str(target.model.dtype).removeprefix("torch.")
    options = ["--dtype", dtype, "--max-model-len", "4096", *map(str, settings["options"])]
    start = partial(_server, python, local(settings), folder, options)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        work = bar.add_task("the lab", total=2 * len(nodes) + 1)
        counts: dict[str, tuple[Drafted, Drafted]] = {}
        odd: dict[str, list[Difference]] = {}
        own = {}
        for name, drafter in drafters.items():
            own[name] = lab_counts(
                target,
                drafter,
                prompts,
                gamma=config.gamma,
                max_new_tokens=config.max_new_tokens,
            )
            bar.advance(work)
        bar.update(work, description="vLLM without drafts")
        with start("plain", {}, None) as server:
            right = ask(server, prompts, config.clients, config.max_new_tokens)
        bar.advance(work)
        for name, (environment, speculative) in ways.items():
            bar.update(work, description=f"vLLM with {name}")
            with start(name, environment, speculative) as server:
                texts = ask(server, prompts, config.clients, config.max_new_tokens)
                counts[name] = own[name], server.drafted()
            odd[name] = differences(texts, right, prompts, target)
            bar.advance(work)
    title = f"{len(prompts)} prompts, {config.clients} clients, gamma {config.gamma}"
    console = Console()
    console.print(_table(counts, odd, len(prompts), title))
    place = folder / "serve-check.json"
    place.write_text(json.dumps(_facts(settings, counts, odd), indent=1) + "\n")
    console.print(str(place), soft_wrap=True)
    wrong = sum(not each.tie for found in odd.values() for each in found)
    if wrong:
        raise OutriderError(f"{wrong} texts are not those that vLLM writes without drafts")


def _server(
    python: Path,
    model: str,
    folder: Path,
    options: Sequence[str],
    name: str,
    environment: dict[str, str],
    speculative: dict[str, Any] | None,
) -> Server:
    # Gigabytes for keys and values, where vLLM would take half of the memory that is there.
    space = {"VLLM_CPU_KVCACHE_SPACE": os.environ.get("VLLM_CPU_KVCACHE_SPACE", "2")}
    return Server(
        python,
        model,
        folder / f"{name}.log",
        speculative=speculative,
        environment=space | environment,
        options=options,
    )


def _table(
    counts: dict[str, tuple[Drafted, Drafted]],
    odd: dict[str, list[Difference]],
    texts: int,
    title: str,
) -> Table:
    table = Table(title=title)
    table.add_column("")
    for column in ("", "drafts", "drafted", "accepted", "rate", "alike", "ties"):
        table.add_column(column, justify="right")
    for name, both in counts.items():
        found = odd[name]
        alike = (f"{texts - len(found)} of {texts}", str(sum(each.tie for each in found)))
        for where, each, said in zip(("lab", "vLLM"), both, (("", ""), alike), strict=True):
            rate = f"{each.accepted / each.drafted:.3f}" if each.drafted else "-"
            table.add_row(
                name if where == "lab" else "",
                where,
                str(each.drafts),
                str(each.drafted),
                str(each.accepted),
                rate,
                *said,
            )
    return table


def _facts(
    settings: dict[str, Any],
    counts: dict[str, tuple[Drafted, Drafted]],
    odd: dict[str, list[Difference]],
) -> dict[str, Any]:
    drafters = {
        name: {
            "lab": asdict(own),
            "vllm": asdict(there),
            "differences": [
                {"prompt": text.prompt, "place": text.position, "gap": text.gap}
                for text in odd[name]
            ],
        }
        for name, (own, there) in counts.items()
    }
    return {"settings": settings, "drafters": drafters}
