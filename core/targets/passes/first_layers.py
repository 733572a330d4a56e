"""Early exit and skipped layers: a model of some of another's layers, sharing all its tensors."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from threading import get_ident
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from outrider.base.errors import ConfigError, OutriderError, require
from outrider.base.pretrained import Model
from outrider.targets.passes.engine import engine_of
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassInput
from outrider.targets.passes.placement import home

COUNTS = ("decoder_layers", "num_hidden_layers", "num_layers")
"""The fields of a config that may count layers."""


def first_layers(model: Model, layers: int | None) -> Model:
    """Returns a model of the first `layers` layers of `model`, which shares all of its tensors.

    A short pass proves that exactly these layers run. A model that is spread over ranks can't be
    run here, and is not tested.

    layers: defaults to four fifths of them.

    Raises `ConfigError` if `model` does not have more layers than that, or can't be cut after them.
    """
    field, total = _layer_count(model)
    layers = total * 4 // 5 if layers is None else layers
    require(layers < total, "drafter.layers", layers, f"fewer than the target's {total} layers")
    # Each module keeps its own config, which also sizes the tensors that it owns.
    short = replace_layers(model, lambda own: own[:layers])
    is_cut = short is not model
    if is_cut:
        short.config = _shorter_config(model, field, range(layers))
    is_spread = engine_of(model).spreads
    if not is_cut or not (is_spread or _runs_only(model, short, layers)):
        raise ConfigError(
            f"drafter.layers={layers}: {type(model).__name__} can't be cut after its first layers"
        )
    return short


def without_final_norm(model: Model, layers: int) -> Model:
    """Returns the first `layers` layers of `model`, whose states no norm follows.

    It shares all of its tensors. A short pass proves that the states are the same.

    Raises `ConfigError` if `model` does not have more layers than that, or can't be cut there.
    """
    norm = last_norm(model)
    cut: Model = replace_modules(
        first_layers(model, layers), lambda module: nn.Identity() if module is norm else None
    )
    expected, states = _states(model, layers), _states(cut, -1)
    if not torch.allclose(states, expected, atol=0.01 * float(expected.std())):
        name = type(model).__name__
        raise ConfigError(f"drafter.layers={layers}: {name} can't be cut there for an adapter")
    return cut


@torch.no_grad()
def _states(model: Model, number: int) -> Float[Tensor, "1 tokens width"]:
    """Returns the states of a short text, by the number that transformers gives them."""
    size = int(model.config.get_text_config().vocab_size)
    ids = torch.tensor([[size // 2, size // 3]], device=home(model))
    inputs = PassInput(ids, 0, states={number})
    return engine_of(model).run_pass(model, GrowingCache(), inputs).states[number]


def last_norm(model: Model) -> nn.Module:
    """Returns the norm between a model's last layer and its head.

    Raises `ConfigError` if its decoder does not call it `norm`, as most do.
    """
    untyped: Any = model
    decoder = untyped.get_decoder()
    if not hasattr(decoder, "norm"):
        raise ConfigError(
            f"target: {type(decoder).__name__} has no norm after its layers: expected a decoder"
            " such as Llama's for a drafter with an adapter"
        )
    norm: nn.Module = decoder.norm
    return norm


def some_layers(model: Model, kept: Sequence[int]) -> Model:
    """Returns a model of the layers of `model` in `kept`, which shares all of its tensors.

    Its layers are renumbered, since its cache has no gaps. Whether they work as a model is not
    tested here, but by `self_test`.

    kept: the numbers of the layers, ascending.

    Raises `ConfigError` if `model` has no list of layers.
    """
    field = _layer_count(model)[0]
    short = replace_layers(
        model, lambda own: (_numbered(own[old], new) for new, old in enumerate(kept))
    )
    require(short is not model, "target", type(model).__name__, "a model with a list of layers")
    short.config = _shorter_config(model, field, kept)
    return short


def _numbered(module: Any, number: int) -> Any:
    """Returns a copy of a layer with another number, in all its parts that store the number."""
    duplicate = copy.copy(module)
    duplicate._modules = {
        name: child and _numbered(child, number) for name, child in module._modules.items()
    }
    if hasattr(module, "layer_idx"):
        duplicate.layer_idx = number
    return duplicate


def depth(model: Model) -> int:
    """Returns the number of a model's layers; of its decoder, if it has an encoder too."""
    return _layer_count(model)[1]


def _layer_count(model: Model) -> tuple[str, int]:
    """Returns the config's field that counts a model's (or its decoder's) layers, and their number.

    It is the field whose number is the length of a list of layers. The `num_hidden_layers` of
    LongCat-Flash counts layers of the cache, of which each layer of the model fills two.
    """
    config: Any = model.config.get_text_config()
    for field in COUNTS:
        count = getattr(config, field, None)
        if isinstance(count, int) and any(_layer_lists(model, count)):
            return field, count
    return COUNTS[1], int(config.num_hidden_layers)


def _shorter_config(model: Any, field: str, kept: Sequence[int]) -> Any:
    """Returns a copy of a model's config for the layers in `kept`.

    field: the name of the entry that holds their number.
    """
    config = copy.deepcopy(model.config)
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    if kinds:
        with suppress(AttributeError):  # some configs compute it
            text.layer_types = [kind for layer, kind in enumerate(kinds) if layer in kept]
    setattr(text, field, len(kept))
    if field == "decoder_layers":
        with suppress(NotImplementedError):  # in some configs this name is the encoder's
            text.num_hidden_layers = len(kept)
    return config


def _layer_lists(module: nn.Module, total: int) -> Iterator[nn.ModuleList]:
    """Yields the outermost lists of `total` layers."""
    if isinstance(module, nn.ModuleList) and len(module) == total:
        yield module
        return
    for child in module.children():
        yield from _layer_lists(child, total)


@torch.no_grad()
def _runs_only(model: Any, short: Any, layers: int) -> bool:
    """Returns whether `short` runs just the first layers of `model`, with other logits than it."""
    lists, thread = [*_layer_lists(model, depth(model))], get_ident()
    runs = [set[int]() for _ in lists]
    size = int(model.config.get_text_config().vocab_size)
    ids = torch.tensor([[size // 2, size // 3]], device=home(model))  # the first may be padding

    def note(ran: set[int], index: int, *_: Any) -> None:
        if get_ident() == thread:  # others may run the same layers
            ran.add(index)

    with ExitStack() as hooks:
        for ran, modules in zip(runs, lists, strict=True):
            for index, layer in enumerate(modules):
                hook = layer.register_forward_pre_hook(partial(note, ran, index))
                hooks.enter_context(hook)
        try:
            cut_logits = short(input_ids=ids, use_cache=False).logits
        except OutriderError:
            raise
        except Exception:  # noqa: BLE001  a model that was not made to be cut can fail in any way
            return False
    kept = set(range(layers))
    if kept not in runs or not all(ran <= kept for ran in runs):
        return False
    return not torch.equal(cut_logits, model(input_ids=ids, use_cache=False).logits)


def replace_layers(model: Model, replace: Callable[[Any], Iterable[Any]]) -> Model:
    """Returns a model with other layers, which shares all other parts; itself if it has no list.

    replace: returns the layers in place of a list of them.
    """
    total = depth(model)

    def replaced(module: nn.Module) -> nn.Module | None:
        is_list = isinstance(module, nn.ModuleList) and len(module) == total
        return nn.ModuleList(replace(module)) if is_list else None

    result: Model = replace_modules(model, replaced)
    return result


def replace_modules(module: Any, replace: Callable[[nn.Module], nn.Module | None]) -> Any:
    """Returns a module with some of its parts replaced, or the module itself if none is.

    Modules that lead to such a part are copied, without their tensors. All others are shared.

    replace: returns the replacement of a module, or None to look at its parts.
    """
    replacement = replace(module)
    if replacement is not None:
        return replacement
    children = {
        name: None if child is None else replace_modules(child, replace)
        for name, child in module._modules.items()
    }
    if all(child is module._modules[name] for name, child in children.items()):
        return module
    duplicate = copy.copy(module)
    duplicate._modules = children
    return duplicate
