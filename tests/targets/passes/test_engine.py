"""A third-party engine is chosen by its name, runs what transformers would, and is tested."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar, final

import pytest
import torch
from tiny.drafters import tokens_of

from outrider import ConfigError, decode
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.drafters.small_lm import SmallLM
from outrider.extras.cpu.engine import PackedWeights
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.plugins.registry import registry_from
from outrider.targets.passes import engine
from outrider.targets.passes.engine import MODULES, Engine, Modules, engine_of, engines, use_engine
from outrider.targets.passes.first_layers import first_layers
from outrider.targets.passes.pass_input import Pass
from outrider.targets.transformers import TransformersTarget
from outrider.testing import parametrize_with_checks, run_checks
from outrider.verifiers.token import Token


class Counting(Engine):
    """Counts the passes of transformers' own modules."""

    automatic: ClassVar[bool] = True
    passes: ClassVar[int] = 0

    def refusal(self, model: Any) -> str:
        return "" if model.dtype is torch.float32 else "it counts in float32 alone"

    def prepare(self, model: Any, quantize: str | None = None) -> None:
        pass

    def run_pass(self, model: Any, cache: Any, inputs: Any) -> Pass:
        type(self).passes += 1
        return super().run_pass(model, cache, inputs)


@final
class Masked(Counting):
    """Loses the masks of trees and batches."""

    automatic: ClassVar[bool] = False

    def run_pass(self, model: Any, cache: Any, inputs: Any) -> Pass:
        mask = None if inputs.mask is None else torch.zeros_like(inputs.mask)
        object.__setattr__(inputs, "mask", mask)
        return super().run_pass(model, cache, inputs)


@pytest.fixture(autouse=True)
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A plugin that registers both."""

    @hookimpl
    def register_engines(register: Register) -> None:
        register("counting", Counting)
        register("masked", Masked)

    module: Any = SimpleNamespace(register_engines=register_engines)
    registry = registry_from([module], installed=False)
    monkeypatch.setattr(engine, "installed", lambda: registry)
    engines.cache_clear()
    yield
    engines.cache_clear()


def test_an_engine_runs_the_passes_of_a_target_and_of_its_first_layers(llama: Any) -> None:
    plain, counted = (TransformersTarget(llama(), optimize=name) for name in ("none", "counting"))
    assert {name: getattr(counted.tested, name) for name in ("trees", "batches")} == {
        "trees": "",
        "batches": "",
    }
    texts, before = [], Counting.passes
    for target in (plain, counted):
        for drafter in (PromptLookup(), SmallLM(layers=2)):
            rounds = [*decode(target, drafter, Token(), [3, 4, 3, 4], gamma=2, max_new_tokens=6)]
            texts.append(tokens_of(rounds))
    assert texts[0] == texts[1] == texts[2] == texts[3]
    assert Counting.passes - before >= 4
    assert isinstance(engine_of(first_layers(counted.model, 1)), Counting)
    assert engine_of(plain.model) is MODULES


@parametrize_with_checks([Counting, PackedWeights, Modules])
def test_conformance(make: Any, check: Any) -> None:
    assert check(make) is None


def test_the_kit_finds_an_engine_without_masks() -> None:
    faults = {outcome.check: outcome.fault for outcome in run_checks(Masked) if outcome.fault}
    assert set(faults) == {"the_self_test_holds"}


def test_auto_takes_the_first_engine_that_can_run_a_model(llama: Any) -> None:
    for dtype, name in ((torch.float32, "Counting"), (torch.bfloat16, "PackedWeights")):
        model = llama().to(dtype)
        use_engine(model)
        assert type(engine_of(model)).__name__ in (name, "Modules")  # where nothing packs bfloat16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimize": "counted"}, r"drafter.optimize='counted': expected one of auto, none, comp"),
        ({"quantize": "int8"}, r"drafter.quantize='int8': expected null, since this proc"),
    ],
)
def test_settings_that_no_engine_has_are_refused(options: Any, message: str, llama: Any) -> None:
    with pytest.raises(ConfigError, match=message):
        use_engine(llama().double(), **options, role="drafter")
