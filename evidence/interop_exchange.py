"""Training data and checkpoints that go to other libraries and come from them.

evidence/interop.py prints it below its table of layouts.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from outrider.base.terminal import QUIET, switched_on
from outrider.drafters.dflash.network import DFlashNetwork
from outrider.drafters.mtp.drafter import MtpNetwork
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.drafters.parts.networks.student import read_student, save_student
from outrider.drafters.parts.networks.vocabulary import Vocabulary, frequent
from outrider.drafters.peagle.drafter import PEagleNetwork
from outrider.extras.serving.checkpoints import write_parallel_model, write_stitched
from outrider.extras.training.rows import read_rows
from outrider.extras.training.speculators_data import (
    FREQUENCIES,
    find_state_files,
    read_frequencies,
    read_state_files,
    write_data,
)
from outrider.extras.training.states import states_of
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.passes.first_layers import first_layers
from outrider.targets.transformers import TransformersTarget

LAYERS, KNOWN, CLOSE = (2, 4, 5), 128, 1e-5
NAMES = (HIDDEN, *(f"{HIDDEN}.{layer}" for layer in LAYERS))
THEIRS = {"their-data": ("", CLOSE), "their-data-fp8": (" of eight bits", 0.1)}
"""The library's data, by folder: what is special about their states, and how close these are."""

OWN = "written-here"
"""How the names of our own drafters' folders end."""

STITCHED = "qwen3_5_text"
"""A kind of targets that speculators fine-tunes the layer of."""

DATA = Path(__file__).with_name("interop_data.py")


class Line(NamedTuple):
    """What was exchanged, what came of it, and whether that is as it should be."""

    what: str
    found: str
    is_right: bool


def exchanged(root: Path, targets: Mapping[str, Any], python: str) -> Iterator[Line]:
    """Yields the lines of the table. python: of an environment that has the library."""
    yield from data(root, targets["llama"], python)
    yield from trained(root, targets["llama"])
    write_own(root, targets, python)
    yield from checkpoints(root, targets["llama"], python)


def trained(root: Path, target: Any) -> Iterator[Line]:
    """Yields how a drafter learns here from their rows and states."""
    _words(target.vocab_size).save_pretrained(root / "target-llama")
    run, out = root / "training", root / f"eagle3-llama-{OWN}"
    words = [
        "drafter=eagle3", "target=transformers", f"target.model={root / 'target-llama'}",
        f"recipe.rows={root / 'their-data'}", "recipe.texts=4", "recipe.held_out=2",
        f"recipe.vocabulary={KNOWN}", f"recipe.options.layers={[*LAYERS]}",
        "recipe.options.steps=2", "recipe.schedule.epochs=8", "recipe.schedule.evaluate=4",
        "recipe.schedule.warmup=0", f"hydra.run.dir={run}", f"out={out}",
    ]  # fmt: skip
    command = [sys.executable, "-m", "outrider", "train", *words]
    subprocess.run(command, check=True, capture_output=True, cwd=root)
    curve = [json.loads(line) for line in (run / "curve.jsonl").read_text().splitlines()]
    before, after = curve[0]["loss"], curve[-1]["loss"]
    line = f"loss {before:.4f}, then {after:.4f}"
    yield Line(f"{curve[-1]['step']:.0f} steps of EAGLE-3 here, on its data", line, after < before)


def write_own(root: Path, targets: Mapping[str, Any], python: str) -> None:
    """Writes drafters of our own, and what the library makes of them."""
    llama, qwen = targets["llama"], targets["qwen3"]
    known = Vocabulary(llama.vocab_size, torch.arange(0, llama.vocab_size, 2))
    PEagleNetwork.untrained(llama, known).save_checkpoint(root / f"peagle-llama-{OWN}", llama)
    network = DFlashNetwork.untrained(qwen, Vocabulary(qwen.vocab_size))
    network.save_checkpoint(root / f"dflash-{OWN}", qwen)
    _run(python, "outputs", root)


@torch.no_grad()
def data(root: Path, target: Any, python: str) -> Iterator[Line]:
    """Yields what becomes of training data: theirs here, and ours there."""
    _run(python, "write", root)
    texts = read_rows(str(root / "rows.jsonl"), target, 99)
    for name, (bits, close) in THEIRS.items():
        own = read_rows(str(root / name), target, 99)
        files = find_state_files([str(root / name)])
        assert files is not None
        examples = read_state_files(target, own, NAMES, files)
        pairs = [
            (examples.read(number), states_of(target, text.ids, NAMES))
            for number, text in enumerate(own)
        ]
        gap = max(_gap(read[state], right[state]) for read, right in pairs for state in NAMES)
        is_right = own == texts and gap <= close
        yield Line(f"its rows and states{bits}, read here", f"states within {gap:.1e}", is_right)
    counts = read_frequencies(root / "their-data" / FREQUENCIES, target.vocab_size)
    total = sum(len(run) for text in texts for run in text.written)
    yield Line("its token_freq.pt, read here", f"{counts.sum()} tokens", int(counts.sum()) == total)
    with switched_on(QUIET, True):
        write_data(root / "our-data", target, texts, LAYERS)
    _run(python, "read", root)
    yield from _read_there(load_file(root / "read.safetensors"), root, target)


def _read_there(read: dict[str, torch.Tensor], root: Path, target: Any) -> Iterator[Line]:
    texts = read_rows(str(root / "rows.jsonl"), target, 99)
    gap, same = 0.0, True
    for number, text in enumerate(texts):
        right = states_of(target, text.ids, NAMES)
        states = torch.cat([right[name] for name in NAMES[1:]], dim=-1)
        last = target.model.get_decoder().norm(read[f"{number}.verifier_last_hidden_states"])
        gap = max(gap, _gap(read[f"{number}.hidden_states"], states), _gap(last, right[HIDDEN]))
        same = same and read[f"{number}.input_ids"].tolist() == text.ids
        same = same and read[f"{number}.loss_mask"].tolist() == [int(own) for own in text.own]
    same = same and gap <= CLOSE
    yield Line("our rows and states, read there", f"states within {gap:.1e}", same)
    vocabulary = frequent(read_frequencies(root / "our-data" / FREQUENCIES, 256), KNOWN)
    chosen = read["known"].nonzero()[:, 0].tolist()
    assert vocabulary.ids is not None
    same = chosen == vocabulary.ids.tolist()
    yield Line("our token_freq.pt: the tokens chosen there", f"{len(chosen)} tokens", same)
    before, after = read["losses"].tolist()
    line = f"loss {before:.4f}, then {after:.4f}"
    yield Line("a step of EAGLE-3 there, on our data", line, after < before)


@torch.no_grad()
def checkpoints(root: Path, target: Any, python: str) -> Iterator[Line]:
    """Yields whether checkpoints of ours have the same logits there."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 64}
    config = AutoConfig.for_model(STITCHED, **sizes, **heads, eos_token_id=1, pad_token_id=0)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    model.save_pretrained(root / "target-mtp")
    reader = TransformersTarget(type(model).from_pretrained(root / "target-mtp"))
    vocabulary = Vocabulary(reader.vocab_size)
    layer = MtpNetwork.untrained(reader, vocabulary, seed=3)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    write_stitched(layer, reader, root / "stitched")
    width = model.config.hidden_size
    tokens, states = torch.randint(4, vocabulary.size, (1, 12)), torch.randn(1, 12, width)
    save_file({"tokens": tokens, "states": states}, root / "given.safetensors")
    student = first_layers(target.model, 2)
    save_student(student, root / "pard-trained", mask=torch.randn(target.model.config.hidden_size))
    target.tokenizer = _words(target.vocab_size - 1)  # one token is to spare
    write_parallel_model(root / "pard-trained", target, root / "pard")
    _run(python, "exports", root)
    found = load_file(root / "made.safetensors")
    known = found["mtp"].shape[1]  # each predicts the token after the next one
    positions = torch.arange(known)[None]
    inputs = states[:, :known], tokens[:, 1 : known + 1]
    right = layer.logits(layer(*inputs, positions, None, KeysAndValues()))
    yield _logits("mtp, stitched: converted and run there", found["mtp"], right)
    small = read_student(root / "pard-trained", target)
    masked = torch.cat([tokens, torch.full((1, 3), small.config.pard_token)], dim=1)
    yield _logits("pard: a model of transformers there", found["pard"], small(masked).logits)


def _words(count: int) -> PreTrainedTokenizerFast:
    vocabulary = {f"word{number}": number for number in range(count)}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="word0")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(model))


def _logits(what: str, found: torch.Tensor, right: torch.Tensor) -> Line:
    gap = _gap(found, right)
    return Line(what, f"logits within {gap:.1e}", gap <= CLOSE)


def _run(python: str, action: str, root: Path) -> None:
    subprocess.run([python, DATA, action, root], check=True, capture_output=True)


def _gap(one: torch.Tensor, other: torch.Tensor) -> float:
    """Returns the largest difference, as a share of the largest entry."""
    return float((one.float() - other.float()).abs().max() / other.float().abs().max())
