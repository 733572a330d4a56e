"""What has to be right on a card."""

import copy
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tiny.models import build, entries, prompts

from outrider import Context, Sampling, Scores, TargetError, Tokens, decode
from outrider.contract.chance import SampledChance, located, token_at
from outrider.contract.devices import widest
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

ROOT = Path(__file__).parents[1]
VOCABULARY = 151936
"""The size of Qwen3's vocabulary."""

ARCHITECTURES = (
    *("llama", "qwen3", "gemma3_text", "gpt2", "gpt_neox", "mistral", "qwen2", "gemma2", "phi3"),
    *("olmo2", "granite", "starcoder2"),
)
FOLDERS = ("tests/contract", "tests/extras/bench", "tests/verifiers")
GRAPHS = ("llama", "gemma3_text", "gpt2")
TREE = ({"drafter": "small_lm", "layers": 1, "tree": "2x1"}, "without_replacement")

Check = Callable[[torch.device, bool], str]
"""Returns what was seen; raises AssertionError for what is wrong. The flag is for a miniature."""


def rules_decide_as_on_the_cpu(device: torch.device, small: bool) -> str:
    count = 0
    for name in installed().of("verifier"):
        rule, target = make("verifier", name), TabularTarget(4)
        for seed in range(5 if small else 40):
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
    size = 2000 if small else VOCABULARY
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
    target, sampling, count = tiny_target(4), Sampling(temperature=1.0), 60 if small else 1500
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


def tests_of_devices_pass(device: torch.device, small: bool) -> str:
    if device.type == "cpu":
        return "they run in `make test`, on make-believe devices"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "device", "-W", "default", *FOLDERS],
        cwd=ROOT,
        env=os.environ | {"OUTRIDER_ACCELERATOR": device.type},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert ran.returncode == 0, "; ".join([*ran.stdout.splitlines()[-1:], *lines]) or ran.stderr
    return ran.stdout.splitlines()[-1]


def passes_are_cuda_graphs(device: torch.device, small: bool) -> str:
    if device.type != "cuda":
        return "only CUDA has such graphs"
    from torch._dynamo.utils import counters

    known, replays = {entry.name: entry for entry in entries()}, []
    for name in GRAPHS:
        model, texts = build(known[name]).to(device), []
        for optimize in ("none", "graphs", "compile"):
            target = TransformersTarget(copy.copy(model), optimize=optimize)
            texts.append(
                [
                    written(target, drafter, rule, prompt, Sampling(), 48)
                    for prompt in prompts()[:2]
                    for drafter, rule in (("prompt_lookup", "token"), TREE)
                ]
            )
            if optimize != "none":
                with torch.profiler.profile() as seen:
                    written(target, "prompt_lookup", "token", prompts()[2], Sampling(), 24)
                launched = [it.count for it in seen.key_averages() if it.key == "cudaGraphLaunch"]
                assert sum(launched), f"{name}, {optimize}: no graph was replayed"
                replays.append(sum(launched))
        assert all(text == texts[0] for text in texts), f"{name}: {texts}"
        skips = dict(counters["inductor"]).get("cudagraph_skips", 0)
        assert not skips, f"{name}: {skips} passes were not recorded"
    seen = f"{replays} replays in 24 tokens, of recorded and compiled ones"
    return f"texts of {', '.join(GRAPHS)} are the same; {seen}"


def trees_by_flex_attention_are_those_of_eager(device: torch.device, small: bool) -> str:
    if device.type == "cpu":
        return "`make test` compares them: torch compiles for a minute and a half on a CPU"
    for name in ("llama", "qwen3"):
        texts = []
        for attention in ("eager", "flex_attention"):
            model = wide_heads(name).to(device)
            model.set_attn_implementation(attention)
            target = TransformersTarget(model, optimize="none")
            texts += [
                written(target, drafter, rule, prompts()[0], Sampling(), 24)
                for drafter, rule in (("none", "token"), TREE)
            ]
        assert all(text == texts[0] for text in texts), f"{name}: {texts}"
    return "texts of llama, qwen3 are the same, plain and with trees"


def rounded_weights_keep_their_texts(device: torch.device, small: bool) -> str:
    if device.type != "cuda" or not find_spec("torchao"):
        return "wants CUDA and torchao"
    import torchao.quantization as torchao
    from torchao.core.config import config_to_dict

    weights = torchao.Float8WeightOnlyConfig
    activations = torchao.Float8DynamicActivationFloat8WeightConfig
    with tempfile.TemporaryDirectory() as folder:
        wide_heads("qwen3").bfloat16().save_pretrained(folder)

        def load(rounding: Any) -> TransformersTarget:
            options = {"quant_type": {"default": config_to_dict(rounding)}}
            return TransformersTarget(
                folder,
                device=str(device),
                optimize="none",
                quantization_config={"quant_method": "torchao", **options},
            )

        for rounding in (weights(), activations(granularity=torchao.PerRow())):
            target = load(rounding)
            texts = [
                written(target, drafter, rule, [5, 6, 7], Sampling(), 32)
                for drafter, rule in (("none", "token"), ("prompt_lookup", "token"), TREE)
            ]
            assert all(text == texts[0] for text in texts), f"{rounding}: {texts}"
        try:
            load(activations(granularity=torchao.PerTensor()))
        except TargetError as error:
            return f"FP8 by token keeps its texts; by tensor it is refused: {error}"
    raise AssertionError("activations with one scale for a pass are not refused")


def wide_heads(kind: str) -> Any:
    """Returns a tiny model whose heads have the width that kernels of a GPU want."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 512}
    config = AutoConfig.for_model(kind, **shape, **heads, eos_token_id=None)
    return AutoModelForCausalLM.from_config(config).eval()


CHECKS: tuple[Check, ...] = (
    rules_decide_as_on_the_cpu,
    tokens_are_those_of_the_cpu,
    greedy_texts_do_not_depend_on_drafts,
    sampled_texts_have_their_distribution,
    a_round_of_a_chain_waits_twice,
    texts_leave_no_memory_behind,
    tests_of_devices_pass,
    passes_are_cuda_graphs,
    trees_by_flex_attention_are_those_of_eager,
    rounded_weights_keep_their_texts,
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
