"""Writes learned drafters in vLLM's own formats, to run there without Outrider."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import ConfigError, require
from outrider.contract.drafter import Drafter
from outrider.contract.target import Target
from outrider.drafters import medusa
from outrider.drafters.eagle3.drafter import Eagle3
from outrider.drafters.medusa import Medusa, MedusaNetwork
from outrider.drafters.mtp.drafter import Mtp, MtpNetwork
from outrider.drafters.pard import Pard
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import student, weights
from outrider.drafters.parts.networks.drafting_model import BUILT_IN, located
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.drafters.small_lm import SmallLM
from outrider.extras.serving.checkpoints import (
    write_parallel_model,
    write_small_model,
    write_stitched,
)


def exported(
    drafter: Drafter, config: Mapping[str, Any], target: Callable[[], Target], folder: Path
) -> dict[str, Any] | None:
    """Returns the config that makes vLLM run its own drafter with the same weights, if it has one.

    config: the settings of the run: `drafter` and `gamma`.
    target: makes the target; called only if its tensors are needed.
    folder: where to write weights that vLLM wants in another format; created only then.

    Raises `ConfigError` if vLLM's format can't hold the weights.
    """
    settings, gamma = config["drafter"], int(config["gamma"])
    found: dict[str, Any]
    if isinstance(drafter, Eagle3):  # the folder already has vLLM's format
        found = {"method": "eagle3", "model": str(weights.folder("eagle3", settings["path"]))}
    elif isinstance(drafter, Medusa):
        _write_medusa(MedusaNetwork.load(settings["path"], target()), gamma, folder)
        found = {"method": "medusa", "model": str(folder)}
    elif isinstance(drafter, SmallLM) and (name := _small_name(settings, target)) is not None:
        found = {"method": "draft_model", "model": _whole(name, target, folder, write_small_model)}
    elif isinstance(drafter, Pard) and isinstance(name := settings["model"], str):
        model = _whole(name, target, folder, write_parallel_model)
        found = {"method": "draft_model", "model": model, "parallel_drafting": True}
    elif isinstance(drafter, Mtp):
        found = {"method": "mtp"}
        if settings["path"] is not None:  # otherwise the target has a layer
            made = target()
            write_stitched(MtpNetwork.load(settings["path"], made), made, folder)
            found["model"] = str(folder)
    else:
        return None
    return found | {"num_speculative_tokens": gamma}


def _small_name(settings: Mapping[str, Any], target: Callable[[], Target]) -> str | None:
    """Returns the name of `small_lm`'s own model; None for first layers or another tokenizer."""
    if settings["vocabulary"] != "same":
        return None
    if settings["model"] is None and settings["layers"] is None:
        return BUILT_IN if weights.is_smollm2(target()) else None
    return settings["model"] if isinstance(settings["model"], str) else None


def _whole(
    name: str,
    target: Callable[[], Target],
    folder: Path,
    write: Callable[[Path, Target, Path], None],
) -> str:
    """Returns a small model's folder or hub id; has a student that borrows tables written out."""
    path = located(name)
    if student.borrows(path):  # its embedding and head are the target's
        write(path, target(), folder)
        path = folder
    return str(path) if path.is_dir() else name


def _write_medusa(network: MedusaNetwork, gamma: int, folder: Path) -> None:
    """Writes the first `gamma` heads under vLLM's names, with the target's head that they share.

    All in float32, since the rows of that head are the target's own.
    """
    heads: Any = network.heads
    require(gamma <= len(heads), "gamma", gamma, f"at most the {len(heads)} heads that there are")
    stacks = [list(head) for head in heads[:gamma]]
    own = isinstance(stacks[0][-1], torch.nn.Linear)  # each head ends with its own matrix
    blocks = [stack[: len(stack) - own] for stack in stacks]
    if not all(isinstance(block, medusa.Residual) for stack in blocks for block in stack):
        raise ConfigError("drafter medusa: vLLM has no block but the residual one")
    tensors: dict[str, Tensor] = {}
    for head, stack in enumerate(blocks):
        for layer, block in enumerate(stack):
            for name, tensor in block.linear.state_dict().items():
                tensors[f"blocks.{head}.layers.{layer}.{name}"] = tensor
        if own:
            matrix = stacks[head][-1].weight
            tensors[f"lm_heads.{head}.weight"] = _for_all_tokens(matrix, network.vocabulary)
    if not own:
        tensors["lm_head.weight"] = _for_all_tokens(network.shared, network.vocabulary)
    config = {
        "model_type": "medusa",
        "architectures": ["MedusaModel"],
        "hidden_size": network.shared.shape[1],
        "vocab_size": network.vocabulary.size,
        "num_heads": gamma,
        "num_hidden_layers": len(blocks[0]),
        "medusa_fc_bias": True,
        "original_lm_head": not own,
    }
    checkpoint.write_checkpoint(folder, tensors, config, torch.float32)


def _for_all_tokens(matrix: Float[Tensor, "some width"], vocabulary: Vocabulary) -> Tensor:
    """Returns a row for each of the target's tokens, so that the likeliest token stays the same.

    vLLM 0.32 has a `token_map` for heads on some of the tokens, but then mistakes it for a weight
    that was not loaded. So a token that the heads do not know repeats the row of the last known
    token before it. Both score the same, and of equals vLLM takes the first.
    """
    if vocabulary.ids is None:
        return matrix
    rows = torch.searchsorted(vocabulary.ids.cpu(), torch.arange(vocabulary.size), right=True) - 1
    return matrix[rows.clamp(min=0).to(matrix.device)]
