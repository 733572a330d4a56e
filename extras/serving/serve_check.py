"""`outrider serve-check`: drafters in vLLM: their texts and counts, and the distribution."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig

from outrider.base.errors import OutriderError, require
from outrider.base.folders import write_whole
from outrider.base.terminal import plain, print_json, remark, results
from outrider.base.waiting import bars
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.target import Target
from outrider.data.prompts import without_tools
from outrider.decoding.decode import decode
from outrider.extras.serving import serve_report
from outrider.extras.serving.serve_config import vllm_settings
from outrider.extras.serving.serve_report import Comparison, write_profile
from outrider.extras.serving.settings import ServeCheck
from outrider.extras.serving.vllm_server import Drafted, Server, version_in
from outrider.lab.measuring.text_differences import Difference, find_difference
from outrider.plugins.config import build
from outrider.plugins.reading import plain_settings, plain_values
from outrider.plugins.registry import command_entry
from outrider.targets.weights_location import weights_location
from outrider.verifiers.token import Token

AUDITED_TOKENS = 24
"""The length of the texts of an audit."""


def run_audit(
    server: Server,
    name: str,
    turns: Sequence[Sequence[str]],
    settings: Mapping[str, Any],
    folder: Path,
) -> dict[str, Any]:
    """Returns the content of `audit.json`, from `outrider audit` of a server.

    It is held to the exact distribution of the run's target.

    turns: of the prompts. settings: of the run. folder: for a folder of each server's audit.

    Raises `OutriderError` if the server can't be audited.
    """
    folder = folder / "audits" / name.replace("/", "-")
    preset, prompts = folder / "config" / "experiment" / "served.yaml", folder / "prompts.jsonl"
    asked = {
        "url": server.url,
        "model": server.name,
        "key": "${oc.env:VLLM_API_KEY}",
        "target": settings["target"],
        "data": {"path": str(prompts), "column": "turns"},
        "chat": settings["chat"],
        "requests": settings["audit"],
        "max_new_tokens": AUDITED_TOKENS,
        "hydra": {"run": {"dir": str(folder)}},
    }
    write_whole(preset, f"# @package _global_\n{json.dumps(asked)}\n")
    write_whole(prompts, "".join(json.dumps({"turns": each}) + "\n" for each in turns))
    command = [sys.executable, "-m", "outrider", "audit", "--config-dir"]
    command += [str(folder / "config"), "+experiment=served", "data=jsonl"]
    environment = {**os.environ, "VLLM_API_KEY": server.key}
    ended = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    report = folder / "audit.json"
    if not report.is_file():
        raise OutriderError(f"audit of {name}: {ended.stderr.strip()}")
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def serve_check(config: ServeCheck) -> None:
    """Prints the table, and writes `serve-check.json` and profiles in Hydra's run dir.

    Raises `OutriderError` if a text differs from what vLLM writes without drafts, other than at a
    tie, or an audit finds that sampled texts have another distribution than the target's.
    """
    if config.audit:
        command_entry("audit")  # another product's, which may not be installed
    temperature = config.sampling.temperature
    require(temperature == 0, "sampling.temperature", temperature, "0: texts are compared")
    python, settings = Path(config.vllm).expanduser(), plain_settings(config)
    version = version_in(python)
    folder = Path(HydraConfig.get().runtime.output_dir)
    drafters = {name: build(node) for name, node in config.drafters.items()}
    runs = {
        name: {**settings, "drafter": plain_values(node)} for name, node in config.drafters.items()
    }
    vllm = {name: vllm_settings(runs[name], drafters[name], folder / name) for name in runs}
    target = build(config.target)
    turns = [list(prompt.turns[: config.turns]) for prompt in without_tools(build(config.data))]
    prompts = [target.encode_turns(each, chat=config.chat) for each in turns]
    dtype = str(target.model.dtype).removeprefix("torch.")
    options = ["--dtype", dtype, "--max-model-len", "4096", *map(str, settings["options"])]

    def start(name: str, environment: Mapping[str, str] | None = None, **more: Any) -> Server:
        """Returns a server, which writes a log into the run's folder."""
        log, model = folder / f"{name}.log", weights_location(settings)
        return Server(python, model, log, environment=environment, options=options, **more)

    def audit(server: Server, name: str) -> dict[str, Any] | None:
        return run_audit(server, name, turns, settings, folder) if config.audit else None

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
        config, target, prompts, drafters, start=start, vllm=vllm, audit=audit
    ):
        comparisons[name] = comparison
        write_profile(name, comparison.vllm, runs[name], conditions, folder=folder)
        found = {name: asdict(each) for name, each in comparisons.items()}
        content = json.dumps({"settings": settings, "drafters": found}, indent=1) + "\n"
        write_whole(path, content)  # what is known so far: the next server may fail
    title = f"{len(prompts)} prompts, {config.clients} clients, gamma {config.gamma}"
    results().print(serve_report.table(comparisons, len(prompts), title))
    print_json(content)
    remark(path, stderr=False)
    for line in serve_report.audit_lines(comparisons):
        results().print(plain(line), soft_wrap=True)
    if fault := serve_report.fault(comparisons):
        raise OutriderError(fault)


def _compare(
    config: ServeCheck,
    target: Target,
    prompts: Sequence[list[int]],
    drafters: Mapping[str, Drafter],
    *,
    start: Callable[..., Server],
    vllm: Mapping[str, tuple[dict[str, str], dict[str, Any]]],
    audit: Callable[[Server, str], dict[str, Any] | None],
) -> Iterator[tuple[str, Comparison]]:
    """Yields each drafter with its comparison, as soon as it is known.

    vllm: by drafter, the environment variables and the speculative config.
    """
    options = {"gamma": config.gamma, "max_new_tokens": config.max_new_tokens}
    with bars() as progress:
        task = progress.add_task("the lab", total=2 * len(drafters) + 1)
        counts_in_lab = {}
        for name, drafter in drafters.items():
            counts_in_lab[name] = lab_counts(target, drafter, prompts, **options)
            progress.advance(task)
        progress.update(task, description="vLLM without drafts")
        with start("plain") as server:
            expected = ask(server, prompts, config.clients, config.max_new_tokens)
        for name, (environment, speculative) in vllm.items():
            progress.update(task, advance=1, description=f"vLLM with {name}")
            with start(name, environment=environment, speculative=speculative) as server:
                asked = (server, prompts, config.clients, config.max_new_tokens)
                texts, counts = ask(*asked), server.drafted()
                mixed = ask(*asked, temperatures=(1.0, 0.0))
                audited = audit(server, name)
            alone, beside = (differences(it, expected, prompts, target) for it in (texts, mixed))
            yield name, Comparison(counts_in_lab[name], counts, alone, beside, audited)
        progress.advance(task)


def ask(
    server: Server,
    prompts: Sequence[Sequence[int]],
    clients: int,
    max_new_tokens: int,
    temperatures: Sequence[float] = (0.0,),
) -> list[list[int]]:
    """Returns the texts after the prompts, in order; up to `clients` requests are sent at once.

    temperatures: each prompt is asked for at each of them, side by side; the last one's texts are
        returned. In one batch with sampled texts, greedy ones must stay as they are.
    """
    requests = [(ids, max_new_tokens, heat) for ids in prompts for heat in temperatures]
    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(lambda request: server.complete(*request), requests))
    return answers[len(temperatures) - 1 :: len(temperatures)]


def lab_counts(
    target: Target,
    drafter: Drafter,
    prompts: Sequence[Sequence[int]],
    *,
    gamma: int,
    max_new_tokens: int,
) -> Drafted:
    """Returns the counts of Outrider's own greedy decoding; like vLLM, it counts no empty draft."""
    drafts = drafted = accepted = 0
    for ids in prompts:
        rounds = decode(target, drafter, Token(), ids, gamma=gamma, max_new_tokens=max_new_tokens)
        for round in rounds:
            drafts += bool(round.draft)
            drafted += round.drafted
            accepted += round.accepted
    return Drafted(drafts, drafted, accepted)


def differences(
    texts: Sequence[Sequence[int]],
    expected: Sequence[Sequence[int]],
    prompts: Sequence[Sequence[int]],
    judge: Target,
) -> list[Difference]:
    """Returns where texts differ from the expected ones. judge: scores the two tokens there."""

    def gap(number: int, start: Sequence[int], one: int, other: int) -> float:
        logits = judge.open([*prompts[number], *start]).score(Draft())[0]
        return abs(float(logits[one] - logits[other]))

    pairs = enumerate(zip(texts, expected, strict=True))
    found = (find_difference(number, *pair, partial(gap, number)) for number, pair in pairs)
    return [difference for difference in found if difference is not None]
