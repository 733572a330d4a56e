"""Training data and checkpoints as the speculators library reads and writes them.

Run by evidence/interop.py in an environment that has the speculators library, and not Outrider:

.venv-interop/bin/python evidence/interop_data.py write|read|outputs|exports FOLDER
"""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from hs_connectors.fp8_utils import SCALES_KEY, quantize_tensor_to_fp8
from interop_layouts import KNOWN, LAYERS, layer, speculators_config
from interop_layouts import outputs as outputs_of
from safetensors.torch import load_file, save_file
from speculators import SpeculatorModel, SpeculatorModelConfig
from speculators.convert.mtp import MTPConverter
from speculators.data_generation.preprocessing import build_speculator_training_dataset
from speculators.losses import resolve_loss_config
from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig
from speculators.models.eagle3.data import shift_batch
from speculators.models.mtp import MTPDraftModel
from speculators.train.data import ArrowDataset, CollateFn
from speculators.train.vocab_mapping import (
    build_vocab_mappings_from_distribution,
    save_token_frequency_distribution,
)
from transformers import AutoModelForCausalLM

ROWS, LONGEST = 6, 64


def write(root: Path, target: Any) -> None:
    """Writes rows, states and counts by the library's own functions, and what it makes of them.

    The states are those that vLLM's connector writes: before each layer, and before the last norm.
    """
    rows = []
    for number in range(ROWS):
        ids = torch.randint(4, target.config.vocab_size, (20 + number,)).tolist()
        mask = [int(6 <= place < 10 or place >= 14) for place in range(len(ids))]
        rows.append({"input_ids": ids, "loss_mask": mask})
    with (root / "rows.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    data = build_speculator_training_dataset(Dataset.from_list(rows), None, num_proc=1)
    plain = lambda states: {"hidden_states": states}
    for name, make in {"their-data": plain, "their-data-fp8": _rounded}.items():
        data.save_to_disk(root / name)
        save_token_frequency_distribution(data, root / name / "token_freq.pt")
        (root / name / "hidden_states").mkdir()
        for number, row in enumerate(rows):
            tensors = {"token_ids": torch.tensor(row["input_ids"])}
            tensors |= make(_states(target, row["input_ids"]))
            save_file(tensors, root / name / "hidden_states" / f"hs_{number}.safetensors")


def _states(target: Any, ids: list[int]) -> torch.Tensor:
    """Returns the states [tokens, layers, width] that vLLM extracts."""
    found: list[torch.Tensor] = []
    parts = [*(target.model.layers[number] for number in LAYERS), target.model.norm]
    hooks = [part.register_forward_pre_hook(lambda _, x: found.append(x[0][0])) for part in parts]
    with torch.no_grad():
        target(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    return torch.stack(found, dim=1)


def _rounded(states: torch.Tensor) -> dict[str, torch.Tensor]:
    rounded, scales = quantize_tensor_to_fp8(states)
    return {"hidden_states": rounded, SCALES_KEY: scales}


def read(root: Path, target: Any) -> None:
    """Reads a folder of ours as `speculators train` does, learns a step, and saves what it read."""
    data = ArrowDataset(
        LONGEST, root / "our-data", on_missing="raise", hidden_states_dtype=torch.float32
    )
    rows: dict[str, torch.Tensor] = {}
    for number in range(len(data)):
        rows |= {f"{number}.{name}": tensor for name, tensor in data[number].items()}
    counts = torch.load(root / "our-data" / "token_freq.pt", weights_only=True)
    offsets, known = build_vocab_mappings_from_distribution(counts, KNOWN, target.config.vocab_size)
    width = target.config.hidden_size
    collate = partial(CollateFn, LONGEST, width, dtype=torch.float32, preprocess=shift_batch)
    batch = collate()([data[number] for number in range(2)])
    model = _drafter(root)
    model.load_vocab_mappings(known, offsets)
    model.load_verifier_weights()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        kept = {name: value for name, value in batch.items() if isinstance(value, torch.Tensor)}
        _, loss, _ = model(**kept, ttt_steps=2, loss_config=resolve_loss_config("kl_div", "eager"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    rows |= {"known": known, "losses": torch.stack(losses)}
    save_file({name: rows.contiguous() for name, rows in rows.items()}, root / "read.safetensors")


def _drafter(root: Path) -> Any:
    config = Eagle3SpeculatorConfig(
        speculators_config=speculators_config(root, "eagle3", "llama"),
        transformer_layer_config=layer("llama"),
        draft_vocab_size=KNOWN,
        eagle_aux_hidden_state_layer_ids=LAYERS,
    )
    return Eagle3DraftModel(config=config)


def outputs(root: Path, _: Any) -> None:
    """Reads drafters of ours with the verifier that they name, and saves what is computed."""
    given = load_file(root / "inputs.safetensors")
    for folder in root.glob("*-written-here"):
        config = SpeculatorModelConfig.from_pretrained(folder)
        config.transformer_layer_config._attn_implementation = "eager"
        model = SpeculatorModel.from_pretrained(folder, config=config).float().eval()
        saved = load_file(folder / "model.safetensors")
        for name in ("embed_tokens", "lm_head"):
            if f"{name}.weight" not in saved:  # the target's are read once more, unrounded
                torch.nn.init.constant_(getattr(model, name).weight, torch.nan)
        model.load_verifier_weights()
        family = folder.name.partition("-")[0]
        found = outputs_of(model, family, given["states"], given["tokens"])
        saved = {str(step): rows for step, rows in found.items()}
        save_file(saved, folder / "outputs.safetensors")


@torch.no_grad()
def exports(root: Path, _: Any) -> None:
    """Reads checkpoints of ours, and saves what the library and transformers make of them."""
    given = load_file(root / "given.safetensors")
    MTPConverter().convert(root / "stitched", root / "converted", str(root / "stitched"), 1)
    draft = MTPDraftModel.from_pretrained(root / "converted").eval()
    (logits,), *_ = draft(input_ids=given["tokens"], hidden_states=given["states"])
    whole = AutoModelForCausalLM.from_pretrained(root / "pard", dtype=torch.float32).eval()
    masks = torch.full((1, 3), whole.config.pard_token)
    rows = whole(torch.cat([given["tokens"], masks], dim=1)).logits
    save_file({"mtp": logits, "pard": rows}, root / "made.safetensors")


def main(action: str, root: Path) -> None:
    torch.manual_seed(0)
    target = AutoModelForCausalLM.from_pretrained(root / "target-llama", dtype=torch.float32)
    actions = {"write": write, "read": read, "outputs": outputs, "exports": exports}
    actions[action](root, target.eval())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
