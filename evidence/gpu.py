"""All that a card has to show, in one command: what is right on it, and how fast it is.

    python evidence/gpu.py --out build/gpu
    python evidence/gpu.py --miniature

Checks come first: rules and draws are those of the CPU, greedy texts of twelve architectures are
the same with drafts, sampled texts have their distribution, a round of a chain waits twice, and
texts leave no memory behind.
Then a model of the size of Qwen3-8B writes with random weights, alone, with an EAGLE-3 and a DFlash
of its size, and by transformers and vLLM. Time does not depend on what weights hold; which drafts
are accepted is scripted. The exit status is 1 if a check fails.
"""

import argparse
import copy
import gc
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tiny.learners import make_learner
from tiny.models import build, entries, prompts

from outrider import Context, Drafter, Pen, Sampling, Scores, Tokens, decode
from outrider.contract.chance import SampledChance, located, token_at
from outrider.contract.composition import apart
from outrider.contract.devices import widest
from outrider.decoding.decode import decode_together
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.bench.waits import counted
from outrider.plugins.registry import installed, make
from outrider.targets.passes.first_layers import depth
from outrider.targets.tabular import TabularTarget
from outrider.targets.transformers import TransformersTarget
from outrider.testing.chi_square import assert_sampled
from outrider.testing.exact import target_distribution
from outrider.testing.table_drafters import ChainDrafter
from outrider.testing.tiny_targets import tiny_target, write_draft
from outrider.verifiers.token import Token


@final
class Scripted(Drafter):
    """Takes a network's time for a draft, and writes what is to be accepted of it.

    inner: the drafter whose time it takes; what it drafts is thrown away.
    texts: what the target writes after each prompt.
    share: how many of its tokens are the target's.
    is_tree: whether a second token stands beside each one, up to the budget.
    """

    def __init__(
        self,
        inner: Drafter,
        texts: Mapping[tuple[int, ...], Sequence[int]],
        share: float,
        *,
        is_tree: bool,
    ) -> None:
        self._inner, self._texts, self._share, self._is_tree = inner, texts, share, is_tree
        self.needs: frozenset[str] = inner.needs
        self.kind: str = "deterministic" if is_tree else "chain"

    def bind(self, target: Any) -> None:
        self._inner.bind(target)
        self._size = target.vocab_size

    def open(self) -> "Scripted":
        text = copy.copy(self)
        text._inner = self._inner.open()
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        self._inner.propose(context, apart(pen, pen.gamma, pen.budget))
        length, prompt = len(context.tokens), context.prompt_length
        known = self._texts.get(tuple(context.tokens[:prompt]), ())
        while pen.open:
            place = length - prompt + pen.sheet.depth(pen.last)
            right = known[place] if place < len(known) else 0
            is_right = random.Random(f"{length}/{place}").random() < self._share
            token, parent = (right if is_right else (right + 1) % self._size), pen.last
            if self._is_tree and pen.room > 1:
                pen.write((token + 2) % self._size, after=parent)
            pen.write(token, after=parent)


ARCHITECTURES = (
    *("llama", "qwen3", "gemma3_text", "gpt2", "gpt_neox", "mistral", "qwen2", "gemma2", "phi3"),
    *("olmo2", "granite", "starcoder2"),
)
QWEN3_8B = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
}
MINIATURE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 96,
}
ACCEPTED = 0.75
"""The share of scripted tokens that the target agrees with."""
MODES = {
    "plain": ("none", None, "token"),
    "EAGLE-3 chain": ("eagle3", None, "token"),
    "EAGLE-3 tree": ("eagle3", "dynamic:8", "candidates"),
    "DFlash chain": ("dflash", None, "token"),
}
"""By name, the drafter's family, its tree and the rule."""

Check = Callable[[torch.device, bool], str]
"""Returns what was seen; raises AssertionError for what is wrong. The flag is for a miniature."""


def rules_decide_as_on_the_cpu(device: torch.device, small: bool) -> str:
    count = 0
    for name in installed().of("verifier"):
        rule, target = make("verifier", name), TabularTarget(4)
        for seed in range(5 if small else 200):
            drafter, sampling = ChainDrafter(target, "mixed"), Sampling(temperature=1.0)
            context = Context(Tokens([0, 1]))
            draft = write_draft(drafter, target, context, gamma=3, sampling=sampling, seed=seed)
            logits = target.open([0, 1]).score(draft)
            far = logits.to(widest(device)).to(device)
            verdicts = [
                rule.verify(draft, Scores(rows, sampling), SampledChance.seeded(seed))
                for rows in (logits, far)
            ]
            assert verdicts[0] == verdicts[1], f"{name}, seed {seed}: {verdicts}"
            count += 1
    return f"{count} verdicts of {len(installed().of('verifier'))} rules are the CPU's"


def tokens_are_those_of_the_cpu(device: torch.device, small: bool) -> str:
    size = 2000 if small else QWEN3_8B["vocab_size"]
    probs = torch.randn(size, generator=torch.Generator().manual_seed(0)).mul(3).softmax(-1)
    shares = torch.rand(200, generator=torch.Generator().manual_seed(1)).double().tolist()
    far = probs.to(device)
    differ = sum(int(located(far, share)) != token_at(probs, share) for share in shares)
    allowed = 0 if widest(device) == torch.float64 else 2
    assert differ <= allowed, f"{differ} of {len(shares)} tokens differ: at most {allowed}"
    return f"{differ} of {len(shares)} tokens of {size} differ"


def greedy_texts_do_not_depend_on_drafts(device: torch.device, small: bool) -> str:
    known = {entry.name: entry for entry in entries()}
    names = ARCHITECTURES[:2] if small else ARCHITECTURES
    for name in names:
        model = build(known[name]).to(device)
        target = TransformersTarget(model, optimize="none")
        layers = max(1, depth(model) - 1)
        for prompt in prompts()[: 1 if small else 3]:
            texts = [
                written(target, drafter, rule, prompt, Sampling(), 12 if small else 48)
                for drafter, rule in (
                    ("none", "token"),
                    ({"drafter": "small_lm", "layers": layers}, "token"),
                    (
                        {"drafter": "small_lm", "layers": layers, "tree": "2x1"},
                        "without_replacement",
                    ),
                )[: None if target.trees else 2]
            ]
            assert all(text == texts[0] for text in texts), f"{name}: {texts}"
    return f"the texts of {len(names)} architectures are the same with chains and trees"


def sampled_texts_have_their_distribution(device: torch.device, small: bool) -> str:
    target, sampling, count = tiny_target(4), Sampling(temperature=1.0), 60 if small else 3000
    exact = target_distribution(target, [1, 2], 2, sampling, Token())
    target.model = target.model.to(widest(device)).to(device)
    drafter = make("drafter", {"drafter": "small_lm", "layers": 1})
    texts = [
        tuple(written(target, drafter, "token", [1, 2], sampling, 2, number=number))
        for number in range(count)
    ]
    assert_sampled(texts, exact)
    return f"{count} texts: no sign that they have another distribution"


def a_round_of_a_chain_waits_twice(device: torch.device, small: bool) -> str:
    target = tiny_target(600)
    target.model = target.model.to(widest(device)).to(device)
    drafter = make("drafter", {"drafter": "small_lm", "layers": 2})
    sampling = Sampling(temperature=1.0, top_p=0.9)
    loop = decode(target, drafter, Token(), [1, 2, 3], sampling=sampling, max_new_tokens=40)
    next(loop)
    with counted(device.type) as waits:
        rounds = len(list(loop))
    seen = f"{waits.waits / rounds:.2f} waits a round; " + ", ".join(
        f"{count / rounds:.2f} {kind}" for kind, count in sorted(waits.kinds.items())
    )
    if device.type == "cpu":
        return "nothing is waited for on a CPU"
    assert waits.waits <= 2 * rounds, seen
    return seen


def texts_leave_no_memory_behind(device: torch.device, small: bool) -> str:
    target, sampling = tiny_target(600), Sampling(temperature=1.0)
    target.model = target.model.to(widest(device)).to(device)
    drafter = make("drafter", {"drafter": "small_lm", "layers": 2})
    held = []
    for number in range(4 if small else 20):
        written(target, drafter, "token", [1, 2, 3], sampling, 24, number=number)
        held.append(held_bytes(device))
    assert held[-1] <= held[1], f"bytes held after each text: {held}"
    return f"{held[-1]:,} bytes are held after {len(held)} texts, {held[1]:,} after two"


def held_bytes(device: torch.device) -> int:
    """Returns the bytes of all tensors on a device, by its own account if it keeps one."""
    gc.collect()
    if device.type != "cpu":
        return int(torch.accelerator.memory_allocated(device))
    tensors = [it for it in gc.get_objects() if type(it) is torch.Tensor and not it.is_meta]
    storages = {it.data_ptr(): it.untyped_storage().nbytes() for it in tensors}
    return sum(storages.values())


CHECKS: tuple[Check, ...] = (
    rules_decide_as_on_the_cpu,
    tokens_are_those_of_the_cpu,
    greedy_texts_do_not_depend_on_drafts,
    sampled_texts_have_their_distribution,
    a_round_of_a_chain_waits_twice,
    texts_leave_no_memory_behind,
)


def written(  # noqa: PLR0917  what a text depends on
    target: Any,
    drafter: Any,
    rule: str,
    prompt: Sequence[int],
    sampling: Sampling,
    tokens: int,
    number: int = 0,
) -> list[int]:
    """Returns a text by a drafter and a rule, each by its name or settings."""
    part = make("drafter", drafter) if isinstance(drafter, str | dict) else drafter
    loop = decode(
        target,
        part,
        make("verifier", rule),
        prompt,
        gamma=3,
        budget=6,
        sampling=sampling,
        number=number,
        max_new_tokens=tokens,
    )
    return [token for round in loop for token in round.tokens]


def sized(device: torch.device, small: bool) -> TransformersTarget:
    """Returns a target of the size of Qwen3-8B, or a miniature, with random weights."""
    from transformers import AutoModelForCausalLM, Qwen3Config

    config = Qwen3Config(**(MINIATURE if small else QWEN3_8B), eos_token_id=None)
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    model.generation_config.eos_token_id = None
    return TransformersTarget(model, optimize="none")


def trained(family: str, target: TransformersTarget, folder: Path) -> Path:
    """Returns the folder of a network of a family that fits a target, with random weights."""
    if not folder.exists():
        network = make_learner(family, target, Vocabulary(target.vocab_size), 0, {})
        network.save_checkpoint(folder)
    return folder


def benched(
    device: torch.device, small: bool, folder: Path, until: float
) -> Iterator[dict[str, Any]]:
    """Yields a row for each mode and size of batch, while there is time."""
    target = sized(device, small)
    tokens, batches = (6, (1, 2)) if small else (64, (1, 4, 16, 64))
    length = 8 if small else 512
    for batch in batches:
        ids = [
            [(17 * text + 7 * place) % 90 + 3 for place in range(length)] for text in range(batch)
        ]
        texts: dict[tuple[int, ...], list[int]] = {}
        for mode, (family, tree, rule) in MODES.items():
            if time.monotonic() > until:
                yield {"mode": mode, "batch": batch, "skipped": "no time was left"}
                continue
            drafter: Any = make("drafter", "none")
            if family != "none":
                path = trained(family, target, folder / family)
                inner = make("drafter", {"drafter": family, "path": str(path), "tree": tree})
                drafter = Scripted(inner, texts, ACCEPTED, is_tree=tree is not None)
            yield {"mode": mode, "batch": batch} | timed(target, drafter, rule, ids, tokens, texts)
        if time.monotonic() < until:
            yield {"mode": "transformers", "batch": batch} | by_transformers(target, ids, tokens)
    if find_spec("vllm") and device.type == "cuda":
        config = target.model.config
        del target
        gc.collect()
        torch.cuda.empty_cache()
        yield from by_vllm(config, folder, batches, length, tokens)


def timed(  # noqa: PLR0917  what a run depends on
    target: TransformersTarget,
    drafter: Any,
    rule: str,
    ids: Sequence[Sequence[int]],
    tokens: int,
    texts: dict[tuple[int, ...], list[int]],
) -> dict[str, Any]:
    """Returns the figures of a run, without its first rounds, which read the prompts.

    texts: what the target writes after each prompt; a plain run fills it in.
    """
    found: dict[int, list[int]] = {index: [] for index in range(len(ids))}
    rounds: list[Any] = []
    began = time.perf_counter()
    loop = decode_together(
        target,
        drafter,
        make("verifier", rule),
        ids,
        gamma=5,
        budget=16 if rule == "candidates" else 5,
        max_new_tokens=tokens,
    )
    for index, round in loop:
        if not found[index]:
            began = time.perf_counter()
        else:
            rounds.append(round)
        found[index] += round.tokens
    seconds = time.perf_counter() - began
    texts.update(
        {tuple(prompt): found[index] for index, prompt in enumerate(ids)} if not texts else {}
    )
    emitted = sum(len(round.tokens) for round in rounds)
    spent = {
        phase: sum(round.seconds[phase] for round in rounds)
        for phase in ("draft", "score", "verify")
    }
    return {
        "tokens_per_second": emitted / seconds,
        "tokens_per_call": emitted / max(1, len(rounds)),
        "seconds": spent,
        "gigabytes": peak(target.model.device),
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


def by_vllm(
    config: Any, folder: Path, batches: Sequence[int], length: int, tokens: int
) -> Iterator[dict[str, Any]]:
    """Yields the figures of vLLM, which makes up weights for a config by itself."""
    import vllm

    config.architectures = ["Qwen3ForCausalLM"]
    config.save_pretrained(folder / "config")
    engine = vllm.LLM(
        str(folder / "config"), load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16"
    )
    for batch in batches:
        given = [{"prompt_token_ids": [text + 3] * length} for text in range(batch)]
        spent = []
        for count in (1, tokens):
            limits = vllm.SamplingParams(
                temperature=0, max_tokens=count, ignore_eos=True, detokenize=False
            )
            began = time.perf_counter()
            engine.generate(given, limits)
            spent.append(time.perf_counter() - began)
        rate = batch * (tokens - 1) / max(1e-9, spent[1] - spent[0])
        yield {"mode": "vLLM", "batch": batch, "tokens_per_second": rate, "tokens_per_call": 1.0}


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
    lines += ["| check | | seen |", "|---|---|---|"]
    for check in results["checks"]:
        lines.append(
            f"| {check['check']} | {'yes' if check['holds'] else '**NO**'} | {check['seen']} |"
        )
    lines += ["", "| mode | batch | tokens/s | tokens a call | draft, score, verify (s) | GB |"]
    lines.append("|---|--:|--:|--:|---|--:|")
    for row in results["bench"]:
        if "skipped" in row:
            lines.append(f"| {row['mode']} | {row['batch']} | {row['skipped']} | | | |")
            continue
        phases = ", ".join(f"{value:.2f}" for value in row.get("seconds", {}).values())
        held = "" if row.get("gigabytes") is None else f"{row['gigabytes']:.1f}"
        speed = f"{row['tokens_per_second']:.1f} | {row['tokens_per_call']:.2f}"
        lines.append(f"| {row['mode']} | {row['batch']} | {speed} | {phases} | {held} |")
    return "\n".join([*lines, ""])


def checked(check: Check, device: torch.device, small: bool) -> dict[str, Any]:
    """Returns whether a check holds, and what was seen; an error of any kind is seen too."""
    holds = True
    try:
        seen = check(device, small)
    except Exception as error:  # noqa: BLE001  a card has errors of its own
        holds, seen = False, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"

    return {"check": check.__name__.replace("_", " "), "holds": holds, "seen": seen}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="build/gpu", help="the folder of gpu.json and gpu.md")
    parser.add_argument("--minutes", type=float, default=10.0, help="after which no row begins")
    parser.add_argument("--miniature", action="store_true", help="tiny, on this machine's CPU")
    options = parser.parse_args()
    here = (
        None if options.miniature else torch.accelerator.current_accelerator(check_available=True)
    )
    if here is None and not options.miniature:
        parser.error("torch finds no accelerator: expected one, or --miniature")
    device, until = here or torch.device("cpu"), time.monotonic() + 60 * options.minutes
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    results: dict[str, Any] = {"device": name, "torch": torch.__version__, "bench": []}
    results["checks"] = [checked(check, device, options.miniature) for check in CHECKS]
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for row in benched(device, options.miniature, Path(folder), until):
            results["bench"].append(row)
            # Each row is kept at once: the time on a card may end before the run does.
            (out / "gpu.json").write_text(json.dumps(results, indent=2))
            (out / "gpu.md").write_text(page(results))
    print(page(results))
    return not all(check["holds"] for check in results["checks"])


if __name__ == "__main__":
    sys.exit(main())
