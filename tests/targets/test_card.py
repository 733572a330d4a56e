"""What has to be right on an accelerator: `OUTRIDER_ACCELERATOR=cuda pytest -m device`."""

import copy
import gc
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.models import ENTRIES, build, prompts

from outrider import Sampling, TargetError, decode
from outrider.contract.chance import located, token_at
from outrider.contract.devices import widest
from outrider.plugins.parts import make
from outrider.targets.passes.first_layers import depth
from outrider.targets.transformers import TransformersTarget
from outrider.testing.chi_square import assert_sampled
from outrider.testing.exact import target_distribution
from outrider.testing.tiny_targets import tiny_target
from outrider.verifiers.token import Token
from tests.devices import FAR

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(FAR.type == "meta", reason="there is no accelerator"),
]
ARCHITECTURES = (
    *("llama", "qwen3", "gemma3_text", "gpt2", "gpt_neox", "mistral", "qwen2", "gemma2", "phi3"),
    *("olmo2", "granite", "starcoder2"),
)
TREE = ({"drafter": "small_lm", "layers": 1, "tree": "2x1"}, "without_replacement")
SAMPLED = Sampling(temperature=1.0)
cuda = pytest.mark.skipif(FAR.type != "cuda", reason="there is no CUDA")


def written(
    target: Any, drafter: Any, rule: str, prompt: Sequence[int], tokens: int, **options: Any
) -> list[int]:
    """Returns a text by a drafter and a rule, each by its name or settings."""
    parts = make("drafter", drafter), make("verifier", rule)
    options = {"gamma": 3, "budget": 6, "max_new_tokens": tokens} | options
    return [token for round in decode(target, *parts, prompt, **options) for token in round.tokens]


def on_card(vocab_size: int) -> TransformersTarget:
    target = tiny_target(vocab_size)
    target.model = target.model.to(widest(FAR)).to(FAR)
    return target


def wide_heads(kind: str) -> Any:
    """Returns a tiny model whose heads have the width that kernels of a GPU want."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 512}
    config = AutoConfig.for_model(kind, **shape, **heads, eos_token_id=None)
    return AutoModelForCausalLM.from_config(config).eval()


def test_tokens_are_those_of_the_cpu() -> None:
    """At the size of Qwen3's vocabulary."""
    probs = torch.randn(151_936, generator=torch.Generator().manual_seed(0)).mul(3).softmax(-1)
    shares = torch.rand(200, generator=torch.Generator().manual_seed(1)).double().tolist()
    far = probs.to(FAR)
    differ = sum(int(located(far[None], [share])) != token_at(probs, share) for share in shares)
    assert differ <= (0 if widest(FAR) == torch.float64 else 2)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_greedy_texts_do_not_depend_on_drafts(name: str) -> None:
    model = build(ENTRIES[name]).to(FAR)
    target = TransformersTarget(model, optimize="none")
    small = {"drafter": "small_lm", "layers": max(1, depth(model) - 1)}
    modes: list[Any] = [("none", "token"), (small, "token")]
    modes += [({**small, "tree": "2x1"}, "without_replacement")] if target.trees else []
    for prompt in prompts():
        texts = [written(target, *mode, prompt, 48) for mode in modes]
        assert all(text == texts[0] for text in texts)


def test_sampled_texts_have_their_distribution() -> None:
    exact = target_distribution(tiny_target(4), [1, 2], 2, SAMPLED, Token())
    target, drafter = on_card(4), {"drafter": "small_lm", "layers": 1}
    texts = [
        tuple(written(target, drafter, "token", [1, 2], 2, sampling=SAMPLED, number=number))
        for number in range(1500)
    ]
    assert_sampled(texts, exact)


def test_texts_leave_no_memory_behind() -> None:
    target, drafter, held = on_card(600), {"drafter": "small_lm", "layers": 2}, []
    for number in range(20):
        written(target, drafter, "token", [1, 2, 3], 24, sampling=SAMPLED, number=number)
        gc.collect()
        held.append(torch.accelerator.memory_allocated(FAR))
    assert held[-1] <= held[1], f"bytes held after each text: {held}"


@cuda
@pytest.mark.parametrize("name", ["llama", "gemma3_text", "gpt2"])
def test_passes_are_cuda_graphs(name: str) -> None:
    from torch._dynamo.utils import counters

    model, texts = build(ENTRIES[name]).to(FAR), []
    modes: list[Any] = [("prompt_lookup", "token"), TREE]
    for optimize in ("none", "graphs", "compile"):
        target = TransformersTarget(copy.copy(model), optimize=optimize)
        texts.append(
            [written(target, *mode, prompt, 48) for prompt in prompts()[:2] for mode in modes]
        )
        if optimize != "none":
            with torch.profiler.profile() as seen:
                written(target, "prompt_lookup", "token", prompts()[2], 24)
            launched = [it.count for it in seen.key_averages() if it.key == "cudaGraphLaunch"]
            assert sum(launched), f"{optimize}: no graph was replayed"
    assert all(text == texts[0] for text in texts)
    assert not dict(counters["inductor"]).get("cudagraph_skips", 0)


@cuda
@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_trees_by_flex_attention_are_those_of_eager(name: str) -> None:
    texts = []
    for attention in ("eager", "flex_attention"):
        model = wide_heads(name).to(FAR)
        model.set_attn_implementation(attention)
        target = TransformersTarget(model, optimize="none")
        texts += [written(target, *mode, prompts()[0], 24) for mode in (("none", "token"), TREE)]
    assert all(text == texts[0] for text in texts)


@cuda
@pytest.mark.skipif(not find_spec("torchao"), reason="torchao is not installed")
def test_weights_of_eight_bits_keep_their_texts(tmp_path: Path) -> None:
    """Activations with one scale for a whole pass are refused."""
    import torchao.quantization as torchao
    from torchao.core.config import config_to_dict

    wide_heads("qwen3").bfloat16().save_pretrained(tmp_path)
    activations = torchao.Float8DynamicActivationFloat8WeightConfig

    def load(rounding: Any) -> TransformersTarget:
        options = {"quant_type": {"default": config_to_dict(rounding)}, "quant_method": "torchao"}
        return TransformersTarget(
            str(tmp_path), device=str(FAR), optimize="none", quantization_config=options
        )

    modes: list[Any] = [("none", "token"), ("prompt_lookup", "token"), TREE]
    for rounding in (torchao.Float8WeightOnlyConfig(), activations(granularity=torchao.PerRow())):
        target = load(rounding)
        texts = [written(target, *mode, [5, 6, 7], 32) for mode in modes]
        assert all(text == texts[0] for text in texts)
    with pytest.raises(TargetError):
        load(activations(granularity=torchao.PerTensor()))
