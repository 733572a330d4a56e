"""Students: small language models that borrow the target's embeddings and head."""

import json
from functools import partial
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from outrider.base.pretrained import Model, read_pretrained
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.entries import ANY, read_entries
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.targets.passes.engine import AUTO, engine_of, use_engine

MARK = "tables"
"""The entry of a student's config that says that its embeddings and head are the target's."""
MASK = "mask"
"""The tensor with the embedding of a student's mask token, if it has one."""
MASK_ID = "pard_token"
"""The entry of a config with the id of the mask token, as in AMD's PARD models."""


def borrows(folder: Path) -> bool:
    """Returns whether a folder holds a student, which lacks embeddings and a head of its own."""
    path = folder / checkpoint.CONFIG
    return path.is_file() and checkpoint.read_config(folder).get(MARK) == "target"


def save_student(
    student: Model,
    folder: Path,
    dtype: torch.dtype = torch.float16,
    *,
    mask: Float[Tensor, "width"] | None = None,
    vocabulary: Vocabulary | None = None,
) -> None:
    """Writes a model without its embeddings and head, and a config that says so.

    mask: the embedding of the mask token, for a student that drafts in parallel.
    vocabulary: the tokens that it writes. Defaults to all.
    """
    tables = tuple(f"{name}." for name in _table_names(student))
    tensors = {
        name: tensor for name, tensor in student.state_dict().items() if not name.startswith(tables)
    }
    if vocabulary is not None:
        tensors |= vocabulary.tensors()
    config: dict[str, Any] = json.loads(student.config.to_json_string())
    config.pop("_name_or_path", None)
    if mask is not None:
        tensors[MASK] = mask
        config[MASK_ID] = int(config["vocab_size"])
    checkpoint.write_checkpoint(folder, tensors, {**config, MARK: "target"}, dtype)


def read_student(
    folder: Path, target: Target, optimize: str = AUTO, quantize: str | None = None
) -> Model:
    """Returns the model in a folder with the target's embeddings and head, ready to draft.

    If it has a mask token, its embedding follows the target's last one. If it has a vocabulary of
    its own, its head has those rows of the target's alone, and the logits of all other tokens are
    -inf.

    optimize, quantize: as for a target; "auto" means the target's own engine, and weights of eight
        bits where it has them. The head stays that of the target.

    Raises `ConfigError` if its sizes are not the target's, or a tensor does not fit; the message
    names it.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    entries = weights.read_config(folder, target)
    own = {*target.model.config.to_dict(), MARK, MASK_ID}
    read_entries(folder, entries, "small_lm", dict.fromkeys(own, ANY))
    auto: Any = AutoModelForCausalLM
    config = read_pretrained(AutoConfig, folder)
    make = partial(auto.from_config, config, trust_remote_code=False)
    file, tensors, vocabulary = weights.read_tensors(folder, target.vocab_size)
    mask = tensors.pop(MASK, None)
    with torch.device("meta"):
        names = [f"{name}.weight" for name in _table_names(make())]
    tables = (weights.embedding(target).detach(), weights.head(target).detach())
    model: Any = weights.with_random_weights(make, target, 0)
    checkpoint.load_tensors(model, {**tensors, **dict(zip(names, tables, strict=True))}, file)
    if not engine_of(target.model).spreads:  # share the target's tables instead of copying them
        model.set_input_embeddings(target.model.get_input_embeddings())
        model.set_output_embeddings(target.model.get_output_embeddings())
    if mask is not None:
        model.set_input_embeddings(with_mask(model.get_input_embeddings(), mask))
    if vocabulary.ids is not None:
        model.set_output_embeddings(FrequentHead(vocabulary.rows(tables[1]), vocabulary))
    if optimize == AUTO and quantize in (AUTO, None):
        engine_of(target.model).prepare_network(model, may_round=quantize == AUTO)
    else:
        use_engine(model, optimize, None if quantize == AUTO else quantize, role="drafter")
    student: Model = model
    return student


@final
class FrequentHead(nn.Module):
    """A head with the rows of some tokens, which gives logits for all: -inf for the others.

    So a token outside is never drafted, and its probability in a draft is 0.

    rows: of the target's head, for the tokens of the vocabulary.
    """

    def __init__(self, rows: Float[Tensor, "known width"], vocabulary: Vocabulary) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.known: nn.Module = nn.Linear(rows.shape[1], len(rows), bias=False, device="meta")
        self.known.weight = nn.Parameter(rows, requires_grad=False)

    def forward(self, states: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        return self.vocabulary.spread(self.known(states))


def with_mask(embeddings: nn.Module, mask: Float[Tensor, "width"]) -> nn.Embedding:
    """Returns a copy of embeddings, with that of the mask token after the last one."""
    table: Any = embeddings.weight
    rows = torch.cat([table.detach(), mask[None].to(table)])
    return nn.Embedding(len(rows), rows.shape[1], _weight=rows, _freeze=True)


def _table_names(model: Model) -> list[str]:
    """Returns the names of the embeddings and the head among a model's tensors."""
    untyped: Any = model
    tables = (untyped.get_input_embeddings(), untyped.get_output_embeddings())
    names = {id(module): name for name, module in model.named_modules()}
    return [names[id(table)] for table in tables]
