"""A CUDA graph's meaning on a CPU, or on the make-believe accelerator."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only
from waits import READS

from outrider.drafters.parts.networks import student
from outrider.extras.graphs import engines
from outrider.plugins.parts import make
from outrider.targets.passes.engine import note_engine
from outrider.targets.self_test import self_test
from outrider.testing.tiny_targets import tiny_target
from tests.devices import FarTensor, moved


class GraphReplayer:
    """Records operations with the very tensors and numbers they have, and replays them in place.

    So a number that a graph would freeze is frozen, and what the host would wait for, or bring, is
    refused. Before a replay all that the last one computed is overwritten, by NaN where possible.

    recorded, replays: how many functions were recorded, and how often any was replayed.
    """

    def __init__(self) -> None:
        self.recorded = self.replays = 0

    def __call__(self, run: Any) -> Any:
        self.recorded += 1
        run()
        with _Recording() as recording:
            outputs = run()

        def replay() -> None:
            self.replays += 1
            with torch.no_grad(), _disable_current_modes(), torch._C.DisableTorchFunction():
                for old in recording.made:
                    old.fill_(float("nan") if old.is_floating_point() else 0)
                for call, args, kwargs, old in recording.steps:
                    for there, here in zip(old, tree_leaves(call(*args, **kwargs)), strict=True):
                        if there.data_ptr() != here.data_ptr():
                            there.copy_(here)

        return outputs, replay


class _Recording(TorchDispatchMode):
    """steps: each operation, on the values of its tensors. made: what is no view of anything."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Any] = []
        self.made: list[Tensor] = []

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = call(*args, **(kwargs or {}))
        whole = args, kwargs or {}, tree_leaves(result)
        leaves = [leaf for leaf in tree_leaves(whole) if isinstance(leaf, Tensor)]
        sides = {isinstance(leaf, FarTensor) for leaf in leaves}
        assert call.overloadpacket not in READS and len(sides) == 1, f"captured {call}"
        if not call.is_view:
            args, named, results = tree_map_only(FarTensor, lambda it: it.near, whole)
            named = {**named, "device": "cpu"} if named.get("device") else named
            self.steps.append((call, args, named, results))
            known = {it.data_ptr() for it in tree_leaves((args, named)) if isinstance(it, Tensor)}
            self.made += [it for it in results if it.data_ptr() not in known]
        return result


def run_by(engine: Any, model: Any) -> None:
    """Has an engine record the passes of a model without a trial, which would read numbers."""
    model.__dict__[engines._NOTE] = engines._Graphs(model, engine.faster(model))
    note_engine(model, engine)


def drafter_of(settings: Any, size: int, engine: Any = None, device: Any = "cpu") -> Any:
    """Returns an untrained drafter; a model that drafts is on a device, and run by an engine.

    size: that of the vocabulary.
    """
    if settings["drafter"] not in ("small_lm", "pard"):
        return make("drafter", {"path": "untrained", **settings})
    model: Any = tiny_target(size, seed=1).model
    model.config.update({student.MASK_ID: 9})
    self_test(model)  # which reads numbers, so where there are any
    moved(model, device)
    if engine is not None:
        run_by(engine, model)
    return make("drafter", {**settings, "model": model})
