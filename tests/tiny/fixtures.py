"""Tiny models, texts and rounds that every test can have at once."""

import copy
import importlib
import inspect
import json
import logging
import os
import random
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tokenizers
import torch
from filelock import FileLock
from transformers import (
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from outrider import Context, Draft, Drafter, Pen
from outrider.cli import main as cli
from outrider.contract.round import Round
from outrider.drafters.parts.networks.weights import SMOLLM2_135M
from outrider.extras.cpu import native_pass
from outrider.extras.cpu.quantized import quantized
from outrider.extras.training.classifier import fit
from outrider.extras.view import figures, plotting
from outrider.plugins.parts import make
from outrider.policies.classifier import FEATURES, save_weights
from outrider.targets.passes.pass_input import Pass, PassInput
from outrider.targets.smollm2 import folder as smollm2_folder
from outrider.targets.smollm2 import smollm2 as load_smollm2
from outrider.targets.transformers import TransformersTarget
from tiny import forked

TESTS = Path(__file__).parent.parent
EDITS = TESTS.parent / "examples" / "edits"

WORDS = [
    "<unk>", "<eos>", "the", "a", "cat", "dog", "sat", "ran", "on", "mat", "and", "red", "blue",
    "big", "small", "one", "two", "three", ",", ".", "!", "?", "he", "she", "it", "was", "is",
    "not", "yes", "no", "so",
]  # fmt: skip

LINES = [
    {"question_id": 1, "category": "chat", "turns": ["the cat sat on the mat", "and the dog ?"]},
    {
        "question_id": 2,
        "category": "chat",
        "turns": ["one two three one two"],
        "reference": ["one two three"],
    },
    {"question_id": 3, "category": "code", "turns": ["red blue red blue red"]},
]


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test draws the same numbers each time, alone and among others."""
    random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def own_self_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Results of self-tests are kept for these tests alone."""
    folder = tmp_path_factory.mktemp("self-tests")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTRIDER_SELF_TESTS", str(folder))
        yield


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[None]:
    """Nobody waits for the disk: no test outlives the machine. tests/base has its own `fsync`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def words() -> Any:
    """A tokenizer of 32 words, with <eos> as its last."""
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<eos>", unk_token="<unk>", bos_token=None
    )


def maker(kind: Any, make_config: Any, **settings: Any) -> Callable[..., Any]:
    """Returns a function that makes random models of a class."""

    def make(seed: int = 0, **changes: Any) -> Any:
        config = make_config(**settings | changes)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return kind(config).eval()

    return make


@pytest.fixture(scope="session")
def llama() -> Callable[..., Any]:
    """Makes a random Llama of 31 tokens and three layers, far from uniform; more on request."""
    return maker(
        LlamaForCausalLM,
        LlamaConfig,
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=256,
        eos_token_id=1,
        bos_token_id=None,
        pad_token_id=1,
        initializer_range=0.4,
    )


@pytest.fixture(scope="session")
def deep_llama(llama: Callable[..., Any]) -> Callable[..., Any]:
    """Makes what `llama` makes, with five layers."""
    return partial(llama, num_hidden_layers=5)


@pytest.fixture(scope="session")
def t5() -> Callable[..., Any]:
    """Makes a random T5 of 31 tokens, far from uniform; more on request."""
    return maker(
        T5ForConditionalGeneration,
        T5Config,
        vocab_size=len(WORDS),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
        initializer_factor=3.0,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )


@pytest.fixture(scope="session")
def edits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's pair of T5 models, smaller and hardly trained, once: they have only to run."""
    base = tmp_path_factory.getbasetemp()  # with xdist each process has its own below one
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "edits"
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            sys.path.insert(0, str(EDITS))
            train: Any = importlib.import_module("train")
            sys.path.remove(str(EDITS))
            train.BATCH = 16
            train.make(
                folder.with_name("making-edits"),
                target={"width": 64, "layers": 2, "steps": 12},
                draft={"width": 32, "layers": 1, "steps": 12},
            )
            folder.with_name("making-edits").rename(folder)
    return folder


@pytest.fixture(scope="session")
def smollm2() -> Any:
    """SmolLM2-135M-Instruct, loaded once."""
    return make("target", "smollm2")


@pytest.fixture
def shared_smollm2(smollm2: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and scripts that load SmolLM2 as it comes, or round it, get what is there."""

    def shared(name: str, **settings: Any) -> Any:
        return smollm2 if settings == DEFAULTS else TransformersTarget(name, **settings)

    def rounded(model: Any, setting: str, bits: int | None) -> Any:
        if model is not smollm2.model:
            return quantized(model, setting, bits)
        if bits not in ROUNDED:
            ROUNDED[bits] = quantized(model, setting, bits)
        return ROUNDED[bits]

    monkeypatch.setattr("outrider.targets.smollm2.TransformersTarget", shared)
    monkeypatch.setattr("outrider.extras.cpu.quantized.quantized", rounded)


DEFAULTS = {each.name: each.default for each in inspect.signature(load_smollm2).parameters.values()}
"""The settings with which SmolLM2 comes."""
ROUNDED: dict[int | None, Any] = {}
"""SmolLM2 in rounded weights, by the bits that were asked for."""


@pytest.fixture(scope="session")
def shallow_smollm2(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """SmolLM2 with its first layers alone, for what has only to run."""
    path, whole = tmp_path_factory.mktemp("shallow") / "SmolLM2", smollm2_folder()
    config = LlamaConfig.from_pretrained(whole, num_hidden_layers=SHALLOW)
    LlamaForCausalLM.from_pretrained(whole, config=config).save_pretrained(path)
    AutoTokenizer.from_pretrained(whole).save_pretrained(path)
    return TransformersTarget(str(path))


SHALLOW = 4
"""The layers of `shallow_smollm2`."""


@pytest.fixture
def few_layers(
    request: pytest.FixtureRequest, shallow_smollm2: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that load SmolLM2, in whatever precision, get the one of few layers."""
    request.getfixturevalue("shared_smollm2")
    path, made = shallow_smollm2.model.name_or_path, {str(DEFAULTS): shallow_smollm2}

    def shallow(_: str, **settings: Any) -> Any:
        if (key := str(settings)) not in made:
            made[key] = TransformersTarget(path, **settings)
        return made[key]

    monkeypatch.setattr("outrider.targets.smollm2.TransformersTarget", shallow)
    monkeypatch.setitem(SMOLLM2_135M, "num_hidden_layers", SHALLOW)


@pytest.fixture
def prompts_read_once(smollm2: Any, shallow_smollm2: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """SmolLM2 remembers what it read at the beginning of a text: the docs have few prompts."""
    inner = native_pass.native_pass

    def remembered(model: Any, cache: Any, inputs: PassInput) -> Pass:
        is_plain = inputs.mask is None and inputs.positions is None
        is_known = model in (smollm2.model, shallow_smollm2.model)
        if not is_known or not is_plain or cache.get_seq_length():
            return inner(model, cache, inputs)
        key = str((model is smollm2.model, inputs.ids.tolist(), inputs.rows, sorted(inputs.states)))
        if key not in PROMPTS:
            result = inner(model, cache, inputs)
            layers = [(layer.keys.clone(), layer.values.clone()) for layer in cache.layers]
            PROMPTS[key] = copy.deepcopy(result), layers
            return result
        result, layers = copy.deepcopy(PROMPTS[key])
        for index, (keys, values) in enumerate(layers):
            cache.update(keys, values, index)
        return result

    monkeypatch.setattr(native_pass, "native_pass", remembered)


PROMPTS: dict[str, tuple[Pass, list[tuple[torch.Tensor, torch.Tensor]]]] = {}
"""What `prompts_read_once` remembers: the result of a pass, and each layer's keys and values."""


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers of a bench are forked, which spares them importing PyTorch."""
    stand_in = SimpleNamespace(
        Popen=forked.Program, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired
    )
    monkeypatch.setattr("outrider.extras.bench.worker.subprocess", stand_in)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, llama: Any, words: Any) -> Path:
    """A folder that holds such a model and tokenizer."""
    path = tmp_path_factory.mktemp("tiny-llama")
    llama().save_pretrained(path)
    words.save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def foresight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained classifier: a token is likely to be accepted where it was likely to be drawn."""
    x = -3 * torch.rand(200, FEATURES, generator=torch.Generator().manual_seed(0)).double()
    weights, _ = fit(x, x[:, 0] > -1, x, x[:, 0] > -1)
    path = tmp_path_factory.mktemp("classifier") / "foresight.safetensors"
    save_weights(weights, path, {})
    return path


@pytest.fixture
def outcome() -> Any:
    """Makes a round with a chain of which so much was accepted. draft: seconds a token."""

    def make(
        drafted: int, accepted: int, *, draft: float = 0.0, score: float = 1.0, verify: float = 0.0
    ) -> Round:
        tokens = tuple(range(accepted + 1))
        return Round(
            tokens=tokens,
            origins=("x",) * len(tokens),
            pieces=("",) * len(tokens),
            draft=tuple(range(drafted)),
            parents=tuple(range(-1, drafted - 1)),
            path=tuple(range(accepted)),
            drafted=drafted,
            tested=min(drafted, accepted + 1),
            accepted=accepted,
            seconds={"draft": draft * drafted, "score": score, "verify": verify},
        )

    return make


@pytest.fixture
def sure() -> Any:
    """Makes a draft whose token 0 the drafter gave those probabilities."""

    def make(*probabilities: float) -> Draft:
        logits = tuple(torch.tensor([p, (1 - p) / 2, (1 - p) / 2]).log() for p in probabilities)
        count = len(probabilities)
        return Draft((0,) * count, tuple(range(-1, count - 1)), (None,) * count, logits)

    return make


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


class Scripted(Drafter):
    """Proposes the continuation of the text that it was given."""

    def __init__(self, text: list[int]) -> None:
        self.text = text

    def propose(self, context: Context, pen: Pen) -> None:
        position = len(context.tokens)
        while pen.open and position < len(self.text):
            pen.write(self.text[position])
            position += 1


@pytest.fixture
def scripted() -> type[Scripted]:
    """A drafter that is told what to draft."""
    return Scripted


PICTURES: dict[str, Any] = {}
PNG, SVG = cache(plotting.as_png), cache(plotting.as_svg)


@pytest.fixture
def drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws each kind of figure of a single run once: the others only have other numbers.

    Figures of several runs are drawn once for the same numbers. What is drawn is tested in
    tests/lab.
    """
    inner = figures.drawn

    def drawn(plot: Any, rows: Any) -> Any:
        is_partial = isinstance(plot, partial)
        kind = str((plot.func, plot.keywords.get("rate"))) if is_partial else str(plot)
        if len(rows) > 1:  # of several runs
            kind = str((plot, rows))
        if kind not in PICTURES:
            PICTURES[kind] = inner(plot, rows=rows)
        return PICTURES[kind]

    monkeypatch.setattr(figures, "drawn", drawn)
    monkeypatch.setattr("outrider.extras.view.report.as_png", PNG)
    monkeypatch.setattr("outrider.extras.view.page.contents.as_svg", SVG)


@pytest.fixture
def failing() -> Any:
    """A context in which writing fails, as on a full disk: to files with a name, after some that
    succeeded.
    """

    @contextmanager
    def fails(name: str, number: int, after: int = 0) -> Iterator[None]:
        inner, opened = Path.open, list[Path]()

        def open_file(self: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if name in self.name and mode[0] in "wa":
                opened.append(self)
                if len(opened) > after:
                    raise OSError(number, os.strerror(number))
            return inner(self, mode, *rest, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "open", open_file)
            yield

    return fails


class Runs:
    """Runs a program with arguments; returns (exit status, stdout, stderr)."""

    def __init__(self, start: Callable[..., tuple[int, str, str]]) -> None:
        self._start = start

    def __call__(self, *arguments: Any) -> tuple[int, str, str]:
        return self._start(*arguments)

    def done(self, *arguments: Any) -> str:
        """Returns what a run prints that succeeds."""
        status, out, err = self._start(*arguments)
        assert status == 0, out + err
        return out

    def refused(self, *arguments: Any) -> str:
        """Returns what a run that fails says of it."""
        status, out, err = self._start(*arguments)
        assert status == 1, out + err
        return err


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Runs:
    """Runs a command in a fresh folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)

    def go(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["outrider", *arguments])
        return finished(cli.main, capsys)

    return Runs(go)


@pytest.fixture
def script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Runs:
    """Runs a Python file as `run` runs a command."""
    monkeypatch.chdir(tmp_path)

    def go(path: Path, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [str(path), *arguments])
        monkeypatch.syspath_prepend(str(path.parent))  # as Python does
        return finished(partial(runpy.run_path, str(path), run_name="__main__"), capsys)

    return Runs(go)


def finished(
    main: Callable[[], object], capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """Returns the exit status of a program and what it printed."""
    status = 0
    try:
        main()
    except SystemExit as stop:
        status = int(stop.code or 0)
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, logging.FileHandler):  # Hydra's; a later record would open it again
            root.removeHandler(handler)
            handler.close()
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def vllm(tmp_path: Path) -> Callable[..., Path]:
    """Makes a stand-in for the python of an environment with vLLM: `fake_vllm.py`."""

    def make(
        texts: dict[str, list[int]] | None = None, version: str = "0.32.0", **more: Any
    ) -> Path:
        fake = TESTS / "extras" / "serving" / "fake_vllm.py"
        script, python = tmp_path / "fake.json", tmp_path / "python"
        script.write_text(json.dumps({"texts": texts or {}, "version": version, **more}))
        variables = f"PYTHONPATH={TESTS} FAKE_VLLM={script}"
        python.write_text(f'#!/bin/sh\n{variables} exec {sys.executable} {fake} "$@"\n')
        python.chmod(0o755)
        return python

    return make
