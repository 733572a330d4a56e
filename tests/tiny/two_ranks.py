"""What a tiny model writes when torchrun's agent has spread it over two processes."""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from outrider import OutriderError
from outrider.targets.passes.engine import engine_of
from outrider.targets.transformers import TransformersTarget
from tiny.forked import on_ranks
from tiny.tokenizer_makers import byte_level

Answer = TypeVar("Answer")
Calls = Mapping[str, Callable[[TransformersTarget], Answer]]
"""What is called on the first rank, by name."""


def has_plan(model: Any) -> bool:
    """Returns whether transformers says how to spread a model over ranks."""
    return bool(model.config.get_text_config(decoder=True).base_model_tp_plan)


def run_spread(model: Any, calls: Calls[Answer]) -> dict[str, Answer | Exception]:
    """Returns what each call returns of the model spread over two ranks, or the error it raises."""
    folder = tempfile.mkdtemp()  # a `TemporaryDirectory` would be removed by the first rank to end
    try:
        model.save_pretrained(folder)
        byte_level(b"abcdefgh").save_pretrained(folder)
        answers: dict[str, Answer | Exception] = on_ranks(2, _called, folder, calls)[0]
    finally:
        shutil.rmtree(folder)
    return answers


def _called(folder: str, calls: Calls[Answer]) -> dict[str, Answer | Exception]:
    """Returns the answers on the first rank; the other ends inside `TransformersTarget`."""
    try:
        target = TransformersTarget(folder, tensor_parallel=True)
        assert engine_of(target.model).spreads, "each rank has the whole model"
        return {name: _answer(call, target) for name, call in calls.items()}
    except OutriderError as error:
        return dict.fromkeys(calls, error)
    except SystemExit:
        return {}
    finally:
        atexit._run_exitfuncs()  # which a process that was forked leaves out


def _answer(
    call: Callable[[TransformersTarget], Answer], target: TransformersTarget
) -> Answer | Exception:
    try:
        return call(target)
    except Exception as error:  # noqa: BLE001  that none escapes is what is measured
        return error
