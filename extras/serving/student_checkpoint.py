"""Small models that borrow their target's tables, written as models of their own."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from outrider.base.errors import ConfigError
from outrider.contract.target import Target
from outrider.drafters.parts.networks import student


def write_small_model(path: Path, target: Target, folder: Path) -> None:
    """Writes a student with the target's embeddings and head, so that engines can load it."""
    model: Any = student.read_student(path, target)
    model.set_output_embeddings(target.model.get_output_embeddings())  # all rows, for vLLM
    _save(model, target, folder)


@torch.no_grad()
def write_parallel_model(path: Path, target: Target, folder: Path) -> None:
    """Writes a student that drafts in parallel as AMD's PARD models are published.

    They have as many tokens as the target, which vLLM insists on, and their config's `pard_token`
    is one that texts don't have. So the mask's embedding replaces that of such a token. The head
    stays the target's, and is no longer tied to the embeddings.

    Raises:
        ConfigError: the target's tokenizer has no token to spare.
    """
    model: Any = student.read_student(path, target)
    *known, mask = model.get_input_embeddings().weight.split([target_rows(target), 1])
    table, place = known[0].clone(), spare_token(target)
    table[place] = mask[0]
    model.set_input_embeddings(
        nn.Embedding(len(table), table.shape[1], _weight=table, _freeze=True)
    )
    head = nn.Linear(table.shape[1], len(table), bias=False, device="meta")
    head.weight = nn.Parameter(target.model.get_output_embeddings().weight.detach().clone())
    model.set_output_embeddings(head)
    model.config.tie_word_embeddings = False
    model.config.update({student.MASK_ID: place})
    _save(model, target, folder)


def _save(model: Any, target: Target, folder: Path) -> None:
    delattr(model.config, student.MARK)  # its tables are its own now
    model.save_pretrained(folder)
    if target.tokenizer is not None:
        target.tokenizer.save_pretrained(folder)


def target_rows(target: Target) -> int:
    """Returns the number of rows of the target's embeddings, which may be more than its tokens."""
    return int(target.model.get_input_embeddings().weight.shape[0])


def spare_token(target: Target) -> int:
    """Returns a token that texts don't have: one that no text is encoded to, or a special one.

    Raises:
        ConfigError: there is none, or the target has no tokenizer.
    """
    tokenizer: Any = target.tokenizer
    if tokenizer is not None:
        known = set(tokenizer.get_vocab().values())
        outside = [token for token in range(target_rows(target)) if token not in known]
        if outside:
            return outside[0]
        used = {tokenizer.bos_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id, *target.eos}
        special = [
            token
            for token, added in tokenizer.added_tokens_decoder.items()
            if added.special
            and token not in used
            and str(added.content) not in str(tokenizer.chat_template)
        ]
        if special:
            return int(max(special))
    raise ConfigError(
        "drafter pard: expected a target whose tokenizer has a token to spare for the mask, as vLLM"
        " takes no model with more tokens than the target"
    )
