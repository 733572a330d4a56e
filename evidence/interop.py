"""Published layouts of drafters: which load, and how far logits are from their library's.

python evidence/interop.py --python .venv-interop/bin/python

`make interop` sets up that environment, which has speculators, dflash and specforge. Drafters that
are written here are compared likewise. A second table is for training data and checkpoints that go
there and come from there. The exit status is 1 if a layout loads and its logits differ by more than
1e-5 of the largest, if one is refused without the name of an entry of its config, or if what was
exchanged is not the same here and there.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from interop_exchange import exchanged
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from outrider import ConfigError
from outrider.drafters.dflash.network import DFlashNetwork
from outrider.drafters.eagle3.drafter import Eagle3Network
from outrider.drafters.parts.networks.decoder_layers import LayerCaches
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.drafters.peagle.drafter import PEagleNetwork
from outrider.targets.passes.masks import causal
from outrider.targets.transformers import TransformersTarget

WRITER = Path(__file__).with_name("interop_others.py")
NETWORKS: dict[str, Any] = {"eagle3": Eagle3Network, "peagle": PEagleNetwork}
ANCHOR, MASKS, CLOSE = 12, 3, 1e-5


@torch.no_grad()
def outputs(network: Any, features: list[torch.Tensor], tokens: torch.Tensor) -> list[Any]:
    """Returns our logits where the library's were recorded."""
    if isinstance(network, Eagle3Network):
        return _two_steps(network, features, tokens)
    known, caches = ANCHOR + 1, LayerCaches(len(network.layers))
    if isinstance(network, PEagleNetwork):
        states = network.states([rows[:, :known] for rows in features], MASKS)
        masks = torch.full((1, MASKS), network.config.mask)
        positions = torch.arange(known + MASKS)[None]
        rows = torch.cat([tokens[:, :known], masks], dim=1)
        return [network.logits(network(states, rows, positions, None, caches)[0])]
    positions, size = torch.arange(ANCHOR)[None], network.config.block
    network.read([rows[:, :ANCHOR] for rows in features], positions, caches)
    block = torch.full((1, size), network.config.mask)
    block[0, 0] = tokens[0, ANCHOR]
    every = torch.ones(1, 1, size, ANCHOR + size, dtype=torch.bool)
    after = network(block, torch.arange(ANCHOR, ANCHOR + size)[None], every, caches)
    if network.corrector is None:
        return [network.logits(after[0])]
    made_of = network.block(after, torch.zeros_like(after[:, 0]), tokens[:, ANCHOR - 1])
    before = tokens[:, ANCHOR : ANCHOR + network.config.drafted]
    return [network.corrector(made_of)(before, 0)[0]]


def _two_steps(network: Eagle3Network, features: list[Any], tokens: torch.Tensor) -> list[Any]:
    count, cache = tokens.shape[1], KeysAndValues()
    positions = torch.arange(count)[None]
    first = network(network.states(features), tokens, positions, None, cache)
    itself = torch.eye(count, dtype=torch.bool)
    sees = torch.cat([causal(count, count), itself], dim=-1)[None, None]
    shifted = torch.cat([tokens[:, 1:], torch.zeros_like(tokens[:, :1])], dim=1)
    second = network(first, shifted, positions + 1, sees, cache)
    return [network.logits(first[0]), network.logits(second[0])]


def compared(folder: Path, target: Any, inputs: dict[str, torch.Tensor]) -> tuple[str, bool]:
    """Returns what a checkpoint does here, in words, and whether that is as it should be."""
    family = folder.name.partition("-")[0]
    try:
        network = NETWORKS.get(family, DFlashNetwork).read_checkpoint(folder, target)
    except ConfigError as error:
        reason = str(error).removeprefix(f"{folder}: ").partition(": expected")[0]
        named = f'"{reason.partition("=")[0]}"'
        return f"refused: {reason}", named in (folder / "config.json").read_text()
    right = load_file(folder / "outputs.safetensors")
    own = outputs(network, list(inputs["states"].chunk(3, dim=-1)), inputs["tokens"])
    exact = [right[str(step)] for step in range(len(own))]
    gap = max(_gap(one, other[-len(one) :]) for one, other in zip(own, exact, strict=True))
    scale = max(rows[rows.isfinite()].abs().max().item() for rows in exact)
    return f"{gap:.1e} of {scale:.1f}", gap <= CLOSE * max(1.0, scale)


def _gap(one: torch.Tensor, other: torch.Tensor) -> float:
    """Returns the largest difference; infinite if other tokens are excluded."""
    kept = one.isfinite()
    same = torch.equal(kept, other.isfinite())
    return (one[kept] - other[kept]).abs().max().item() if same else torch.inf


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=".venv-interop/bin/python")
    parser.add_argument("--verbose", action="store_true", help="show what the library prints")
    options = parser.parse_args()
    disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        root, hold = Path(folder), True
        subprocess.run(
            [options.python, WRITER, root], check=True, capture_output=not options.verbose
        )
        inputs = load_file(root / "inputs.safetensors")
        targets = {
            kind: TransformersTarget(AutoModelForCausalLM.from_pretrained(root / f"target-{kind}"))
            for kind in ("llama", "qwen3")
        }
        lines = list(exchanged(root, targets, options.python))
        print("| layout | tensors | entries | largest difference of logits | as it should be |")
        print("|---|---:|---:|---|---|")
        for layout in sorted(path.parent for path in root.glob("*/outputs.safetensors")):
            is_llama = "llama" in layout.name or layout.name.startswith("eagle3-of")
            text, is_right = compared(layout, targets["llama" if is_llama else "qwen3"], inputs)
            tensors = sum(
                len(load_file(file))
                for file in layout.glob("*.safetensors")
                if file.name != "outputs.safetensors"
            )
            entries = len(json.loads((layout / "config.json").read_text()))
            verdict = "yes" if is_right else "NO"
            print(f"| {layout.name} | {tensors} | {entries} | {text} | {verdict} |")
            hold = hold and is_right
        print("\n| exchanged | found | as it should be |")
        print("|---|---|---|")
        for line in lines:
            print(f"| {line.what} | {line.found} | {'yes' if line.is_right else 'NO'} |")
            hold = hold and line.is_right
    return 0 if hold else 1


if __name__ == "__main__":
    sys.exit(main())
