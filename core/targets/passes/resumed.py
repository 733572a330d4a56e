"""Passes that go on behind a model's first layers, and what they need of a pass of these."""

import copy
from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor

from outrider.base.pretrained import Cache, Model
from outrider.targets.passes.first_layers import replace_layers
from outrider.targets.passes.pass_input import Pass, PassInput, run_modules


def noting_output(model: Model, noted: list[Tensor]) -> Model:
    """Returns a model that appends its last layer's output to `noted` in each pass.

    It shares all tensors of `model`. No norm has been applied to the output [1, tokens, width].
    """

    def note(layer: Any) -> Any:
        def forward(*args: Any, **options: Any) -> Any:
            noted.append(layer.forward(*args, **options))
            return noted[-1]

        return _with_forward(layer, forward)

    return replace_layers(model, lambda layers: [*layers[:-1], note(layers[-1])])


def resume_pass(
    model: Model,
    cache: Cache,
    inputs: PassInput,
    layers: int,
    output: Float[Tensor, "batch tokens width"],
) -> Pass:
    """Appends tokens to the cache of all but the first layers, which do not run.

    The states behind those are all `output`. Their keys and values are left to the caller: masks
    and positions are made from the length of the cache before the pass.

    layers, output: how many of them were run elsewhere, and their output for the new tokens.
    """
    given: Callable[..., Any] = lambda *_, **__: output
    rest = replace_layers(
        model, lambda own: [*(_with_forward(it, given) for it in own[:layers]), *own[layers:]]
    )
    return run_modules(rest, cache, inputs)


def _with_forward(layer: Any, forward: Callable[..., Any]) -> Any:
    """Returns a layer that computes something else, and keeps all else that its model reads."""
    duplicate = copy.copy(layer)
    duplicate.forward = forward
    return duplicate
