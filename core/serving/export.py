"""Export: learned drafters in the forms that vLLM has for them, which run there without Outrider."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.drafter import Drafter
from outrider.contract.target import Target
from outrider.drafter_parts import checkpoint, student, weights
from outrider.drafter_parts.vocabulary import Vocabulary
from outrider.drafters import medusa
from outrider.drafters.eagle3 import Eagle3
from outrider.drafters.medusa import Medusa, MedusaNetwork
from outrider.drafters.small_lm import BUILT_IN, SmallLM
from outrider.errors import ConfigError, require


def exported(
    drafter: Drafter, config: Mapping[str, Any], target: Callable[[], Target], folder: Path
) -> dict[str, Any] | None:
    """Returns the speculative config of vLLM's own drafter with the same weights; None for others.

    config: the drafter's, and `gamma`. target: makes it, where its tensors are needed.
    folder: where weights go that vLLM wants in another form, made where needed.

    Raises:
        ConfigError: the weights have no such form.
    """
    given, gamma = config["drafter"], int(config["gamma"])
    found: dict[str, Any] | None = None
    if isinstance(drafter, Eagle3):  # the folder is in vLLM's form as it is
        found = {"method": "eagle3", "model": str(weights.folder("eagle3", given["path"]))}
    elif isinstance(drafter, Medusa):
        _medusa(MedusaNetwork.load(given["path"], target()), gamma, folder)
        found = {"method": "medusa", "model": str(folder)}
    elif isinstance(drafter, SmallLM) and isinstance(given["model"], str):
        built_in = given["model"] == BUILT_IN
        place = weights.built_in("small_lm") if built_in else Path(given["model"]).expanduser()
        if student.borrows(place):  # its tables are the target's
            student.read_student(place, target()).save_pretrained(folder)
            place = folder
        found = {"method": "draft_model", "model": str(place) if place.is_dir() else given["model"]}
    return found if found is None else found | {"num_speculative_tokens": gamma}


def _medusa(network: MedusaNetwork, gamma: int, folder: Path) -> None:
    """Writes the first `gamma` heads as vLLM names them, with the target's head that they share.

    In full precision: its rows are the target's own.
    """
    heads: Any = network.heads
    require(gamma <= len(heads), "gamma", gamma, f"at most the {len(heads)} heads that there are")
    stacks = [list(head) for head in heads[:gamma]]
    own = isinstance(stacks[0][-1], torch.nn.Linear)  # a matrix to the vocabulary
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
            tensors[f"lm_heads.{head}.weight"] = _everywhere(matrix, network.vocabulary)
    if not own:
        tensors["lm_head.weight"] = _everywhere(network.shared, network.vocabulary)
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


def _everywhere(matrix: Float[Tensor, "some width"], vocabulary: Vocabulary) -> Tensor:
    """Returns a row for each of the target's tokens, such that the likeliest is the same one.

    vLLM 0.32 has a `token_map` for heads on some of the tokens, and then takes it for a weight that
    was not loaded. So a token that the heads do not know scores as the last before it that they do:
    of equals vLLM takes the first.
    """
    if vocabulary.ids is None:
        return matrix
    places = torch.searchsorted(vocabulary.ids, torch.arange(vocabulary.size), right=True) - 1
    return matrix[places.clamp(min=0).to(matrix.device)]
