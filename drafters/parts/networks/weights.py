"""Where a drafter's weights are, whether they fit, and the target's tables to borrow."""

from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from outrider.base.errors import ConfigError, require
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint, gguf_files
from outrider.drafters.parts.networks.vocabulary import TENSOR, Vocabulary
from outrider.targets.passes.engine import Engine, engine_of
from outrider.targets.passes.placement import home

EMBEDDING = "embed_tokens.weight"
"""The tensor of a network's embeddings, if its checkpoint has any."""

UNTRAINED = "untrained"
"""The path that stands for random weights."""

SMOLLM2_135M: dict[str, str | int] = {
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "vocab_size": 49152,
}
"""Config entries by which SmolLM2-135M and its fine-tunes are recognised."""

Network = TypeVar("Network", bound=nn.Module)


@final
class BorrowedHead:
    """Rows of the target's output matrix, which a network uses but does not own.

    It is not a module, so the rows are neither trained nor saved with the network.
    """

    def __init__(self, matrix: Float[Tensor, "rows width"]) -> None:
        self.matrix = matrix
        self._prepared: nn.Module | None = None

    @classmethod
    def of(cls, target: Target, vocabulary: Vocabulary) -> "BorrowedHead":
        """Returns the target's rows for the tokens of a vocabulary; raises what `head` does."""
        return cls(vocabulary.rows(head(target).detach()))

    def __call__(self, states: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch rows"]:
        if self._prepared is None:
            return linear(states, self.matrix)
        logits: Tensor = self._prepared(states)
        return logits

    def prepare(self, engine: Engine) -> None:
        """Has an engine prepare the rows for passes without gradients."""
        rows, width = self.matrix.shape
        layer = nn.Linear(width, rows, bias=False, device="meta")
        layer.weight = nn.Parameter(self.matrix, requires_grad=False)
        self._prepared = nn.Sequential(layer)  # an engine replaces layers inside of a module
        engine.prepare_network(self._prepared)


def folder(family: str, path: str | None) -> Path:
    """Returns the folder of a family's weights, those for SmolLM2 if `path` is None.

    A GGUF file stands for the folder that it is converted into. Raises `ConfigError` for no folder.
    """
    location = built_in(family) if path is None else Path(path).expanduser()
    if location.suffix == gguf_files.SUFFIX and location.is_file():
        return gguf_files.folder(location)
    if not location.is_dir():
        raise ConfigError(f"drafter.path={str(path or location)!r}: expected a folder that exists")
    return location


def built_in(family: str) -> Path:
    """Returns the folder of the weights for SmolLM2 that come with the package."""
    return Path(str(files("outrider.drafters"))) / "weights" / family


def is_smollm2(target: Target) -> bool:
    """Returns whether the target is SmolLM2-135M, which the built-in weights are for."""
    config = target.model.config.get_text_config().to_dict()
    return all(config.get(name) == value for name, value in SMOLLM2_135M.items())


def require_fit(folder: Path, config: Mapping[str, Any], target: Target) -> None:
    """Raises `ConfigError` if a config's hidden size or vocabulary differs from the target's."""
    for name, expected in target_sizes(target).items():
        size = config.get(name, expected)
        if int(size) != expected:
            raise ConfigError(
                f"drafter.path={str(folder)!r}: its {name} is {size}, the target's {expected}"
            )


def read_config(folder: Path, target: Target) -> dict[str, Any]:
    """Returns the contents of a folder's `config.json`; raises what `require_fit` does."""
    config = checkpoint.read_config(folder)
    require_fit(folder, config, target)
    return config


def read_tensors(
    folder: Path, size: int, keep: checkpoint.Keep = bool
) -> tuple[Path, dict[str, Tensor], Vocabulary]:
    """Returns the file of a checkpoint's tensors, the network's own ones, and its vocabulary.

    size: of the target's vocabulary. keep: the names that are read. Defaults to all.

    Raises `ConfigError` if they can't be read, or the vocabulary makes no sense.
    """
    file, tensors = checkpoint.find_tensors(folder, keep)
    ids, shifts, kept = (tensors.pop(name, None) for name in (TENSOR, "d2t", "t2d"))
    if shifts is not None:  # as the speculators library stores ids
        ids = torch.arange(len(shifts)) + shifts.long()
        distinct = {*ids.tolist()}
        is_valid = len(distinct) == len(ids) and distinct <= {*range(size)}
        is_same = kept is None or torch.equal(kept.nonzero()[:, 0], ids.sort().values)
        expected = "shifts to ids of the target, those of t2d"
        require(is_valid and is_same, f"{file}: d2t", shifts[:3].tolist(), expected)
    vocabulary = Vocabulary(size, None if ids is None else ids.long())
    known = checkpoint.read_config(folder).get("draft_vocab_size")
    is_valid = known in (None, len(vocabulary))
    expected = f"{len(vocabulary)}, the size of its vocabulary"
    require(is_valid, f"{folder}: draft_vocab_size", known, expected)
    own = {name: rows for name, rows in tensors.items() if not name.startswith("verifier_")}
    return file, own, vocabulary


def target_sizes(target: Target) -> dict[str, int]:
    """Returns the sizes of the target that a drafter's weights depend on."""
    model = target.model.config.get_text_config()
    return {"hidden_size": int(model.hidden_size), "vocab_size": int(target.vocab_size)}


def embedding(target: Target) -> Float[Tensor, "vocab width"]:
    """Returns the target's input embeddings."""
    return engine_of(target.model).table(target.model, "input_embeddings")


def own_embedding(tensors: dict[str, Tensor], file: Path, target: Target) -> Tensor | None:
    """Removes a network's embeddings from its tensors; returns them if they are not the target's.

    Raises `ConfigError` if they have other sizes. file: where they come from.
    """
    own, table = tensors.pop(EMBEDDING, None), embedding(target)
    if own is None:
        return None
    # Up to the rounding of half precision.
    if own.shape == table.shape and torch.allclose(own.to(table), table, rtol=0.01, atol=1e-4):
        return None
    expected = [target.vocab_size, table.shape[1]]
    is_valid = own.shape[0] >= expected[0] and own.shape[1] == expected[1]
    require(is_valid, f"{file}: {EMBEDDING}", list(own.shape), f"a tensor of {expected}")
    return own.to(table)


def head(target: Target) -> Float[Tensor, "vocab width"]:
    """Returns the output matrix; raises `ConfigError` unless the head is one without bias."""
    module = target.model.get_output_embeddings()
    if not hasattr(module, "weight") or getattr(module, "bias", None) is not None:
        raise ConfigError("target: expected a head that is one matrix without bias")
    return engine_of(target.model).table(target.model, "output_embeddings")


def with_random_weights(make: Callable[[], Network], target: Target, seed: int) -> Network:
    """Returns the network that `make` builds, in eval mode on the target's device and precision.

    PyTorch's global random state is left unchanged.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = make()
    return network.to(home(target.model), target.model.dtype).eval()
