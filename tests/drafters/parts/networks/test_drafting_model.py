"""Whatever drafter holds a model, the engine of the same settings runs it, and a report says so."""

from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from tiny.drafters import bound

from outrider import ConfigError, Drafter, Sampling, TargetError
from outrider.drafters.early_exit import EarlyExit
from outrider.drafters.hierarchy import Hierarchy
from outrider.drafters.hybrid import Hybrid
from outrider.drafters.pard import Pard
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.drafting_model import BUILT_IN
from outrider.drafters.parts.networks.student import MASK_ID, save_student
from outrider.drafters.small_lm import SmallLM
from outrider.drafters.swift import Swift
from outrider.extras.cpu.engine import PackedWeights
from outrider.targets.passes.engine import MODULES, engine_of
from outrider.targets.passes.placement import is_offloaded
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import draft_after
from tests.devices import ON_DISK

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2}


def hybrid(model: str, **settings: Any) -> Drafter:
    return Hybrid([{"drafter": "small_lm", "model": model, **settings}])


def hierarchy(model: str, **settings: Any) -> Drafter:
    return Hierarchy(model=model, **settings)


MAKERS: dict[str, Callable[..., Drafter]] = {
    "small_lm": SmallLM, "other_tokenizer": partial(SmallLM, vocabulary="shared"),
    "trees": partial(SmallLM, tree="2x2"), "pard": Pard, "hierarchy": hierarchy, "hybrid": hybrid,
}  # fmt: skip


@pytest.fixture
def target(llama: Any, words: Any) -> TransformersTarget:
    return TransformersTarget(llama(eos_token_id=None, **SIZES), words)


CASES = [
    pytest.param(make, kind, id=f"{name}-{kind}")
    for name, make in MAKERS.items()
    for kind in ("whole", "student")
    if (name, kind) != ("other_tokenizer", "student")  # which has the target's tokenizer
]


@pytest.fixture
def folder(request: Any, tmp_path: Path, llama: Any, words: Any) -> Path:
    model = llama(seed=3, **SIZES)
    if request.param == "student":
        save_student(model, tmp_path, mask=model.get_input_embeddings().weight[0].detach())
        return tmp_path
    model.config.update({MASK_ID: 7})
    model.save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    return tmp_path


def drafts(drafter: Drafter, target: Any) -> int:
    """Returns how many tokens it drafts after a text."""
    drafter.bind(target)
    return len(draft_after(drafter, target, [3, 4], 3, sampling=Sampling()))


ROUNDED = [
    pytest.param(*case.values, bits, id=f"{case.id}-{bits}")
    for case, bits in zip(CASES, cycle([None, "int8", "int4"]), strict=False)
]


@pytest.mark.parametrize(("make", "folder", "quantize"), ROUNDED, indirect=["folder"])
def test_an_engine_runs_the_model_of_every_drafter(
    make: Callable[..., Drafter], folder: Path, quantize: str | None, target: Any
) -> None:
    drafter = make(str(folder), optimize="packed", quantize=quantize)
    assert drafts(drafter, target)
    (model,) = drafter.models
    assert isinstance(engine_of(model), PackedWeights)
    stored = f"packed {quantize or 'float32'}"
    assert engine_of(model).runs_by(model) == f"the native library on {stored} weights"
    assert engine_of(target.model) is MODULES, "the target was prepared along with the drafter"


@pytest.mark.parametrize(("make", "folder"), CASES, indirect=["folder"])
def test_without_an_engine_the_modules_of_transformers_run_it(
    make: Callable[..., Drafter], folder: Path, target: Any
) -> None:
    drafter = make(str(folder), optimize="none")
    assert drafts(drafter, target)
    (model,) = drafter.models
    assert engine_of(model).runs_by(model) == "transformers' modules"


@pytest.mark.parametrize(
    ("make", "folder"), [it for it in CASES if it.values[1] == "whole"], indirect=["folder"]
)
def test_transformers_loads_the_model_as_the_settings_say(
    make: Callable[..., Drafter], folder: Path, target: Any
) -> None:
    drafter = make(str(folder), device_map=ON_DISK, attn_implementation="eager")
    assert drafts(drafter, target)
    (model,) = drafter.models
    assert is_offloaded(model)
    assert model.config._attn_implementation == "eager"
    assert engine_of(model).runs_by(model) == "transformers' modules"
    with pytest.raises(TargetError, match="Unknown quantization type, got three"):
        make(str(folder), quantization_config={"quant_method": "three"}).bind(target)
    with pytest.raises(ConfigError, match=r"drafter.device='cpu': expected auto with drafter.dev"):
        make(str(folder), device="cpu", device_map="auto")


@pytest.mark.parametrize("folder", ["student"], indirect=True)
def test_a_student_has_the_precision_and_device_of_the_target(folder: Path, target: Any) -> None:
    for setting in ({"device_map": "auto"}, {"dtype": "bfloat16"}, {"device": "meta"}):
        ((name, _),) = setting.items()
        with pytest.raises(ConfigError, match=rf"^drafter.{name}=.* shares the target's embed"):
            SmallLM(str(folder), **setting).bind(target)
    assert drafts(SmallLM(str(folder), dtype="float32", device="cpu"), target)


@pytest.mark.parametrize("folder", ["student"], indirect=True)
@pytest.mark.parametrize("make", [SmallLM, hierarchy])
def test_the_model_of_the_package_alone_is_rounded_unless_told_otherwise(
    make: Callable[..., Drafter], folder: Path, llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "built_in", lambda _: folder)
    for optimize, name, settings, expected in (
        ("packed", BUILT_IN, {}, "the native library on packed int8 weights"),
        ("packed", BUILT_IN, {"optimize": "none"}, "transformers' modules"),
        ("packed", BUILT_IN, {"quantize": None}, "the native library on packed float32 weights"),
        ("packed", str(folder), {}, "the native library on packed float32 weights"),
        ("none", BUILT_IN, {}, "transformers' modules"),
    ):
        target = TransformersTarget(llama(eos_token_id=None, **SIZES), optimize=optimize)
        drafter = make(name, **settings)
        assert drafts(drafter, target)
        (model,) = drafter.models
        assert engine_of(model).runs_by(model) == expected


def test_a_loaded_model_runs_by_the_engine_that_is_asked_for(llama: Any, target: Any) -> None:
    drafter = SmallLM(llama(seed=3, **SIZES), optimize="packed", quantize="int8")
    assert drafts(drafter, target)
    assert isinstance(engine_of(drafter.models[0]), PackedWeights)


@pytest.mark.parametrize("make", [EarlyExit, Swift, partial(SmallLM, layers=2)])
def test_the_targets_own_layers_run_by_its_engine(
    make: Callable[[], Drafter], deep_llama: Any
) -> None:
    target = TransformersTarget(deep_llama(**SIZES), optimize="packed")
    drafter = bound(make(), target)
    (model,) = drafter.models
    assert engine_of(model).runs_by(model) == "the native library on packed float32 weights"
