"""The engine: what runs the passes of a model, chosen by name when the model is loaded."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, ClassVar, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from outrider.base.errors import ConfigError, require
from outrider.base.pretrained import Cache, Model
from outrider.contract.programs import Programs
from outrider.plugins.registry import installed
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import Pass, PassCache, PassInput, run_modules
from outrider.targets.passes.placement import weight_at_home

AUTO, NONE = "auto", "none"
"""The settings that name no engine: the first that takes the model by itself, and none at all."""

Table = Literal["input_embeddings", "output_embeddings"]


class Engine(ABC):
    """Runs the passes of models that were prepared for it, in its own way.

    What a subclass does not override is done by transformers' own modules. An engine holds nothing
    of a model: `prepare` changes it in place, and copies that share its modules, such as its first
    layers, have the same engine.

    automatic: whether `optimize=auto` takes it for every model that it can run; of several, the
        first by name.
    quantizes: the settings of `quantize` that it knows.
    spreads: whether each of several processes has only a part of a model and of its caches.
    checks: where the conformance kit finds its checks.
    """

    automatic: ClassVar[bool] = False
    quantizes: ClassVar[tuple[str, ...]] = ()
    spreads: ClassVar[bool] = False
    checks: ClassVar[str] = "outrider.testing.engines:CHECKS"

    @abstractmethod
    def refusal(self, model: Model) -> str:
        """Returns why it can't run a model, worded to follow "since"; "" if it can."""

    def load_options(self, config: Any) -> dict[str, Any]:
        """Returns options of transformers' `from_pretrained`, for an engine that spreads a model.

        config: that of the model to be loaded.
        """
        return {}

    @abstractmethod
    def prepare(self, model: Model, quantize: str | None = None) -> None:
        """Prepares a model that it can run, in place.

        Raises `ConfigError` if its weights can't be quantized like that.
        """

    def prepare_network(self, network: nn.Module, *, may_round: bool = False) -> None:
        """Prepares the layers of a drafter's network for passes without gradients, in place.

        may_round: whether the weights may be rounded where that makes passes faster.
        """

    def run_pass(self, model: Model, cache: Cache, inputs: PassInput) -> Pass:
        """Appends tokens to one of transformers' caches, and returns their logits and states."""
        return run_modules(model, cache, inputs)

    def run_layer(
        self,
        layer: nn.Module,
        inputs: Float[Tensor, "batch tokens input"],
        residual: Float[Tensor, "batch tokens hidden"],
        **options: Any,
    ) -> Float[Tensor, "batch tokens hidden"] | None:
        """Returns the output of a layer of a drafter's network; None leaves it to its modules.

        What it is given is described in `outrider.drafters.parts.networks.layer.layer_output`.
        """
        return None

    def new_cache(self, model: Model) -> "GrowingCache | PassCache":
        """Returns an empty cache for one sequence."""
        return GrowingCache()

    def programs(self, network: nn.Module) -> Programs | None:
        """Returns what records the programs of a drafter's network; None if nothing does."""
        return None

    def table(self, model: Model, name: Table) -> Float[Tensor, "vocab width"]:
        """Returns a model's input or output embeddings, as a whole."""
        return weight_at_home(model, getattr(model, f"get_{name}")())

    def cache_dtype(self, model: Model) -> torch.dtype:
        """Returns the precision of the keys and values in a model's cache."""
        return model.dtype

    def threads(self, model: Model) -> AbstractContextManager[None]:
        """Returns a context in which passes run, and all that is computed between them."""
        return nullcontext()

    def is_cut_off(self) -> bool:
        """Returns whether other processes are gone, so that what fails says nothing of a model."""
        return False

    def layout(self, model: nn.Module) -> str:
        """Returns in a word how a model's passes are computed, where that changes last digits."""
        return "plain"

    def runs_by(self, model: Model) -> str:
        """Returns in a few words what computes a model's passes, for reports."""
        return "transformers' modules"

    def vouches(self, model: Model) -> bool:
        """Returns whether a model's passes are proved elsewhere, so that loading skips their test.

        By default the self-test reads a short text through the engine: chains, trees, batches,
        rollbacks and early exits.
        """
        return False

    def can_repeat_test(self, model: Model) -> bool:
        """Returns whether the self-test can run on request; it has passes of many sizes."""
        return True

    def facts(self) -> Mapping[str, Any]:
        """Returns what the engine found on this machine, as plain values for reports."""
        return {}


@final
class Modules(Engine):
    """Runs a model by transformers' own modules; there is nothing to prepare."""

    def refusal(self, model: Model) -> str:
        return ""

    def prepare(self, model: Model, quantize: str | None = None) -> None:
        """Leaves the model as it is."""


MODULES = Modules()
"""The engine of every model that no other was chosen for."""

_NOTE = "_outrider_engine"
"""The attribute of a module that holds its engine: copies of the module have it too."""


def note_engine(module: nn.Module, engine: Engine) -> None:
    """Notes on a module that an engine has prepared it."""
    module.__dict__[_NOTE] = engine


def engine_of(module: nn.Module) -> Engine:
    """Returns the engine that runs a model, or a layer of a drafter's network."""
    engine: Engine = module.__dict__.get(_NOTE, MODULES)
    return engine


@torch.no_grad()
def run_pass(model: Model, cache: Cache | PassCache, inputs: PassInput) -> Pass:
    """Appends tokens to a cache, and returns their logits and states."""
    if isinstance(cache, PassCache):
        return cache.feed(inputs)
    return engine_of(model).run_pass(model, cache, inputs)


@cache
def engines() -> dict[str, Engine]:
    """Returns the installed engines by name."""
    return {name: entry.factory() for name, entry in sorted(installed().of("engine").items())}


def is_cut_off() -> bool:
    """Returns whether processes that run a part of a model are gone: what fails, fails for that."""
    return any(engine.is_cut_off() for engine in engines().values())


def spreading_engine() -> str:
    """Returns the name of the engine that spreads models over processes.

    Raises `ConfigError` if no plugin brings one.
    """
    names = [name for name, engine in engines().items() if engine.spreads]
    require(bool(names), "target.tensor_parallel", True, "false, no engine spreads a model")
    return names[0]


def require_engine(optimize: str, setting: str) -> None:
    """Raises `ConfigError` unless a setting is "auto", "none" or the name of an engine."""
    if optimize not in (AUTO, NONE):
        known = (AUTO, NONE, *engines())
        require(optimize in known, setting, optimize, f"one of {', '.join(known)}")


def use_engine(
    model: Model, optimize: str = AUTO, quantize: str | None = None, *, role: str = "target"
) -> None:
    """Prepares a model for the engine that a setting names.

    optimize: the name; "auto" takes the first that runs the model by itself, if there is any, and
        "none" leaves the model unchanged.
    quantize: the type to round the weights to. Defaults to None: they stay as they are.
    role: the part whose settings these are, for messages.

    Raises:
        ConfigError: there is no such engine, it can't run the model, or it can't quantize it.
    """
    require_engine(optimize, f"{role}.optimize")
    if optimize == AUTO:
        can_run = (
            name
            for name, engine in engines().items()
            if engine.automatic and not engine.refusal(model)
        )
        optimize = next(can_run, NONE)
    if quantize is not None:
        _require_quantizer(model, quantize, optimize, role)
    if optimize == NONE:
        return
    engine = engines()[optimize]
    if reason := engine.refusal(model):
        raise ConfigError(f"{role}.optimize={optimize!r}: expected none, since {reason}")
    engine.prepare(model, quantize)
    note_engine(model, engine)


def _require_quantizer(model: Model, quantize: str, optimize: str, role: str) -> None:
    """Raises `ConfigError` unless the chosen engine knows a type of rounded weights.

    "none" may have been chosen for want of an engine; then why there is none is said.
    """
    able = {name: engine.quantizes for name, engine in engines().items() if engine.quantizes}
    types = sorted({kind for kinds in able.values() for kind in kinds})
    expected = f"{', '.join(types)} or null"
    require(quantize in types, f"{role}.quantize", quantize, expected)
    able_names = [name for name, kinds in able.items() if quantize in kinds]
    reasons = [engines()[name].refusal(model) for name in able_names]
    if optimize == NONE and all(reasons):
        raise ConfigError(f"{role}.quantize={quantize!r}: expected null, since {reasons[0]}")
    expected = f"null, or {role}.optimize={' or '.join(able_names)} in place of {optimize}"
    require(optimize in able_names, f"{role}.quantize", quantize, expected)
