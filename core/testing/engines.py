"""Checks of an engine: each takes a callable that makes one, and raises AssertionError."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from outrider.targets.passes.cached_model import CachedModel, CachedSession
from outrider.targets.passes.engine import Engine, engine_of, note_engine
from outrider.targets.passes.first_layers import first_layers
from outrider.targets.readings import Text, chain_rounds, read, rows_of
from outrider.targets.self_test import run_self_test
from outrider.targets.self_test_text import differ
from outrider.testing.tiny_targets import tiny_llama

Make = Callable[[], Engine]

TEXT = (3, 14, 15, 9, 2, 6, 5, 35, 8, 9, 7)


def check_passes_have_the_logits_of_the_modules(make: Make) -> str | None:
    """A text read in several passes, with a rollback between them, has the logits that
    transformers' own modules compute in one.
    """
    plain, model, refusal = _models(make())
    if refusal:
        return refusal
    _assert_reads_alike(model, plain)
    return None


def check_first_layers_run_too(make: Make) -> str | None:
    """A model of the first layers has the same engine, and the logits of those layers."""
    plain, model, refusal = _models(make())
    if refusal:
        return refusal
    short = first_layers(model, 1)
    assert engine_of(short) is engine_of(model), "the first layers have another engine"
    _assert_reads_alike(short, first_layers(plain, 1))
    return None


def check_the_self_test_holds(make: Make) -> str | None:
    """Trees, batches and first layers are read as the self-test of a target expects."""
    engine = make()
    _, model, refusal = _models(engine)
    if refusal or not engine.can_repeat_test(model):
        return refusal or "its passes have few sizes"
    tested = run_self_test(model)
    faults = [reason for reason in (tested.trees, tested.batches, tested.layers) if reason]
    assert not faults, "; ".join(faults)
    return None


def check_prepared_weights_can_be_read(make: Make) -> str | None:
    """The state of a prepared model holds the weights that it had, under their names."""
    plain, model, refusal = _models(make())
    if refusal:
        return refusal
    state = model.state_dict()
    for name, weight in plain.state_dict().items():
        assert name in state, f"{name} is missing"
        assert torch.equal(state[name], weight), f"{name} differs"
    return None


def check_networks_are_what_they_were(make: Make) -> str | None:
    """A prepared network of a drafter gives the output that it gave before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(32, 48), nn.SiLU(), nn.Linear(48, 32, bias=False))
        rows = torch.randn(5, 32)
    with torch.no_grad():
        before = network(rows)
        make().prepare_network(network)
        torch.testing.assert_close(network(rows), before, rtol=1e-4, atol=1e-5)
    return None


CHECKS = (
    check_passes_have_the_logits_of_the_modules,
    check_first_layers_run_too,
    check_the_self_test_holds,
    check_prepared_weights_can_be_read,
    check_networks_are_what_they_were,
)


def _models(engine: Engine) -> tuple[Any, Any, str]:
    """Returns a tiny decoder, the same one prepared for an engine, and why it refuses it."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    plain, model = (tiny_llama(0, vocab_size=48, **sizes) for _ in range(2))
    refusal = engine.refusal(model)
    if not refusal:
        engine.prepare(model)
        note_engine(model, engine)
    return plain, model, refusal


@torch.no_grad()
def _assert_reads_alike(model: Any, plain: Any) -> None:
    """Asserts that a model reads a text in parts as another one does at once."""
    other = (*TEXT[:4], 1, 2, *TEXT[6:])
    logits = plain(torch.tensor([TEXT, other]), use_cache=False).logits
    text = Text(CachedSession(CachedModel(model), TEXT[:1]), TEXT[:1])
    rounds = chain_rounds(TEXT[1:], other[1:], [(5, 3), (0, 0), (4, 3)])
    for reading in read([text], rounds, rows_of([TEXT, other], logits)):
        fault = f"the engine has other logits than the modules ({reading.case})"
        assert not differ(reading.rows, reading.expected), fault
