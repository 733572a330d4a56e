"""How fast a model of the size of Qwen3-8B writes on a card; `make gpu` first runs its tests.

    python evidence/gpu.py --out build/gpu
    python evidence/gpu.py --miniature

Its weights are random, as are those of an EAGLE-3 and a DFlash of its size: time does not depend on
what weights hold. How many tokens are accepted is scripted.
"""

import argparse
import copy
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outrider import (
    ConfigError,
    Draft,
    Drafter,
    Round,
    Sampling,
    Scores,
    Verdict,
    Verifier,
    decode,
)
from outrider.cli.usage import read_settings
from outrider.contract.chance import Chance
from outrider.contract.verifier import Decider, Decision
from outrider.decoding.decode import decode_together
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training import learner
from outrider.plugins.parts import make
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.prefix import leading_there


class Scripted(Verifier):
    """Takes the time of a rule, and accepts what a script says: the first child at each node.

    What a network with random weights drafts has no chance of acceptance, and texts of 16 bits
    differ from one size of pass to the next.

    share: how many tokens it accepts, by numbers out of the target's largest logits.
    """

    def __init__(self, rule: Verifier, share: float) -> None:
        self._rule, self._share = rule, share
        self._decider = cache(self._scripted)  # the same function is one recording
        self.takes = rule.takes

    @property
    def lossless(self) -> bool:
        return False

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        verdict, path = self._rule.verify(draft, scores, chance), []
        goes_on = self._goes_on(scores).tolist()
        for node, parent in enumerate(draft.parents):
            if parent == (path[-1] if path else -1):
                if not goes_on[parent + 1]:
                    break
                path.append(node)
        return Verdict(tuple(path), verdict.next_token)

    def decider(self, sampling: Sampling) -> Decider | None:
        own = self._rule.decider(sampling)
        return own and self._decider(own)

    def _scripted(self, own: Decider) -> Decider:
        def decide(tokens: Tensor, q: Tensor, scores: Scores, chance: Chance) -> Decision:
            _, token = own(tokens, q, scores, chance)
            return leading_there(self._goes_on(scores)[:-1] & (tokens >= 0)), token

        return decide

    def _goes_on(self, scores: Scores) -> Tensor:
        """Returns for the context and each node whether what follows is accepted."""
        return scores.logits.amax(-1).double() * 618.034 % 1 < self._share


SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "vocab_size"),
)
QWEN3_8B = dict(zip(SIZES, (4096, 12288, 36, 32, 8, 128, 151936), strict=True))
MINIATURE = dict(zip(SIZES, (32, 48, 6, 4, 2, 8, 96), strict=True))
ACCEPTED = 0.75
"""The share of tokens that the target accepts, if those before them were."""
FREQUENT = 32_000
"""How many tokens the head of a published EAGLE-3 has."""
MODES = {
    "plain": ("none", None, "token"),
    "EAGLE-3 chain": ("eagle3", None, "token"),
    "EAGLE-3 chain, 32k": ("eagle3", None, "token"),
    "EAGLE-3 tree": ("eagle3", "dynamic:8", "candidates"),
    "DFlash chain": ("dflash", None, "token"),
    "Medusa chain": ("medusa", None, "token"),
}
"""By name, the drafter's family, its tree and the rule."""


def sized(device: torch.device, small: bool) -> TransformersTarget:
    """Returns a target of the size of Qwen3-8B, or a miniature, with random weights."""
    from transformers import AutoModelForCausalLM, Qwen3Config

    config = Qwen3Config(**(MINIATURE if small else QWEN3_8B), eos_token_id=None)
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    model.generation_config.eos_token_id = None
    return TransformersTarget(model, optimize="none")


def trained(family: str, target: TransformersTarget, folder: Path, known: int) -> Path:
    """Returns the folder of a network of a family that fits a target, with random weights.

    known: how many tokens it can write.
    """
    if not folder.exists():
        objective = read_settings(f"recipe/{family}").values["objective"]
        size = target.vocab_size
        ids = torch.arange(known) if known < size else None
        setup = learner.Setup(target, Vocabulary(size, ids), seed=0)
        learner.make_learner(objective, {}, setup).save_checkpoint(folder)
    return folder


def benched(
    device: torch.device, small: bool, folder: Path, batches: Sequence[int], until: float
) -> Iterator[dict[str, Any]]:
    """Yields a row for each engine, size of batch and mode, while there is time."""
    target = sized(device, small)
    tokens, length = (6, 8) if small else (48, 512)
    # Modules are compiled for minutes: last, so that all else has been measured.
    engines = ("graphs", "none", "compile") if device.type == "cuda" else ("none",)
    for engine, batch in product(engines, batches):
        if engine == "compile" and batch > 1:  # several texts at a time are left to the modules
            continue
        ids = [
            [(17 * text + 7 * place) % 90 + 3 for place in range(length)] for text in range(batch)
        ]
        try:
            model = copy.copy(target.model)  # an engine is noted on a model
            yield from rows(
                TransformersTarget(model, optimize=engine), engine, folder, ids, tokens, until
            )
        except ConfigError as error:
            yield {"mode": "plain", "batch": batch, "engine": engine, "skipped": str(error)}
        if engine == "none" and time.monotonic() < until:
            yield {"mode": "transformers", "batch": batch} | by_transformers(target, ids, tokens)


def rows(  # noqa: PLR0917  what a run depends on
    target: TransformersTarget,
    engine: str,
    folder: Path,
    ids: Sequence[Sequence[int]],
    tokens: int,
    until: float,
) -> Iterator[dict[str, Any]]:
    """Yields the row of each mode for a batch of prompts, greedy and sampled."""
    for (mode, (family, tree, rule)), temperature in product(MODES.items(), (0, 1)):
        row = {"mode": mode, "batch": len(ids), "engine": engine, "temperature": temperature}
        if time.monotonic() > until:
            yield row | {"skipped": "no time was left"}
            continue
        drafter: Any = "none"
        if family != "none":
            known = FREQUENT if mode.endswith("32k") else target.vocab_size
            path = trained(family, target, folder / f"{family}-{known}", known)
            drafter = {"drafter": family, "path": str(path), "tree": tree}
        parts = make("drafter", drafter), Scripted(make("verifier", rule), ACCEPTED)
        try:
            began = time.perf_counter()
            run(target, *parts, ids, tokens, temperature)  # makes graphs, and memory of all sizes
            warming = time.perf_counter() - began
            row |= figures(*run(target, *parts, ids, tokens, temperature)) | {"warming": warming}
            yield row | {"gigabytes": peak(target.model.device)}
        except Exception as error:  # noqa: BLE001  a card has errors of its own
            yield row | {"skipped": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def run(  # noqa: PLR0917  what a run depends on
    target: TransformersTarget,
    drafter: Drafter,
    rule: Scripted,
    ids: Sequence[Sequence[int]],
    tokens: int,
    temperature: float,
) -> tuple[list[Round], float]:
    """Returns rounds and seconds, without the first rounds, which read the prompts.

    The texts are stopped before their limit, which would shorten the last drafts.
    """
    written = [0 for _ in ids]
    rounds: list[Round] = []
    began = time.perf_counter()
    sampling = Sampling(temperature=temperature)
    options: dict[str, Any] = {"gamma": 5, "max_new_tokens": tokens + 32, "sampling": sampling}
    options["budget"] = 16 if "deterministic" in rule.takes else 5
    if len(ids) == 1:
        loop = ((0, round) for round in decode(target, drafter, rule, ids[0], **options))
    else:
        loop = decode_together(target, drafter, rule, ids, **options)
    for index, round in loop:
        if not written[index]:
            began = time.perf_counter()
        else:
            rounds.append(round)
        written[index] += len(round.tokens)
        if min(written) >= tokens:
            break
    return rounds, time.perf_counter() - began


def figures(rounds: Sequence[Round], seconds: float) -> dict[str, Any]:
    emitted = sum(len(round.tokens) for round in rounds)
    spent = {
        phase: sum(round.seconds[phase] for round in rounds)
        for phase in ("draft", "score", "verify")
    }
    return {
        "tokens_per_second": emitted / seconds,
        "tokens_per_call": emitted / max(1, len(rounds)),
        "calls": len(rounds),
        "seconds": spent,
    }


def by_transformers(
    target: TransformersTarget, ids: Sequence[Sequence[int]], tokens: int
) -> dict[str, Any]:
    """Returns the figures of transformers' own generate."""
    given = torch.tensor(ids, device=target.model.device)
    model: Any = target.model

    def seconds(count: int) -> float:
        began = time.perf_counter()
        model.generate(given, max_new_tokens=count, do_sample=False, pad_token_id=0)
        if given.device.type != "cpu":
            torch.accelerator.synchronize()
        return time.perf_counter() - began

    seconds(1)
    first = seconds(1)
    spent = max(1e-9, seconds(tokens) - first)
    return {"tokens_per_second": len(ids) * (tokens - 1) / spent, "tokens_per_call": 1.0}


def peak(device: torch.device) -> float | None:
    """Returns the most gigabytes that a card has held since the last call; None on a CPU."""
    if device.type != "cuda":
        return None
    most = torch.cuda.max_memory_allocated(device) / 1e9
    torch.cuda.reset_peak_memory_stats(device)
    return most


def page(results: dict[str, Any]) -> str:
    """Returns the results as a page."""
    lines = [f"# Outrider on {results['device']}", "", f"torch {results['torch']}.", ""]
    names = ("mode", "engine", "batch", "T", "tokens/s", "tokens per call")
    lines += [f"| {' | '.join(names)} | draft, score, verify (ms) | GB |"]
    lines += ["|---|---|--:|--:|--:|--:|---|--:|"]
    for row in results["bench"]:
        start = f"| {row['mode']} | {row.get('engine', '')} | {row['batch']} |"
        start += f" {row.get('temperature', 0)} |"
        if "skipped" in row:
            lines.append(f"{start} {row['skipped']} | | | |")
            continue
        calls = max(1, row.get("calls", 1)) / row["batch"]
        phases = ", ".join(f"{1000 * it / calls:.2f}" for it in row.get("seconds", {}).values())
        held = "" if row.get("gigabytes") is None else f"{row['gigabytes']:.1f}"
        speed = f"{row['tokens_per_second']:.1f} | {row['tokens_per_call']:.2f}"
        lines.append(f"{start} {speed} | {phases} | {held} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="build/gpu", help="the folder of gpu.json and gpu.md")
    parser.add_argument("--minutes", type=float, default=10.0, help="after which no row begins")
    parser.add_argument("--batches", nargs="*", type=int, help="texts at once: 1 4 16 64")
    parser.add_argument("--miniature", action="store_true", help="tiny, on this machine's CPU")
    options = parser.parse_args()
    here = torch.accelerator.current_accelerator(check_available=True)
    if here is None and not options.miniature:
        parser.error("torch finds no accelerator: expected one, or --miniature")
    device = torch.device("cpu") if here is None or options.miniature else here
    until = time.monotonic() + 60 * options.minutes
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    results: dict[str, Any] = {"device": name, "torch": torch.__version__, "bench": []}
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        batches = options.batches or ((1, 2) if options.miniature else (1, 4, 16, 64))
        for row in benched(device, options.miniature, Path(folder), batches, until):
            results["bench"].append(row)
            print(row, file=sys.stderr, flush=True)
            # Each row is kept at once: the time on a card may end before the run does.
            (out / "gpu.json").write_text(json.dumps(results, indent=2))
            (out / "gpu.md").write_text(page(results))
    print(page(results))


if __name__ == "__main__":
    main()
