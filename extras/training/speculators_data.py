"""The recipe that writes no drafter, but the data that speculators trains one from."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from outrider.base.bounds import checked
from outrider.base.errors import ConfigError, is_int, message_of, require
from outrider.base.folders import replacing, write_whole
from outrider.base.terminal import plain
from outrider.contract.target import Target
from outrider.drafters.parts.networks.features import default_layers
from outrider.drafters.parts.networks.vocabulary import count_tokens
from outrider.extras.training.corpus import TextRecipe
from outrider.extras.training.generated_texts import Text
from outrider.extras.training.recipe import Job
from outrider.extras.training.rows import SAVED
from outrider.extras.training.state_files import FOLDER, state_path, write_state_file

ARROW = "data-00000-of-00001.arrow"
INFO = "dataset_info.json"
FREQUENCIES = "token_freq.pt"
"""How often the target wrote each token, by id."""


@final
@checked("recipe")
@dataclass(frozen=True, kw_only=True)
class SpeculatorsData(TextRecipe):
    """Writes texts and states as speculators 0.9 prepares them for `speculators train`.

    The folder is a data set of the datasets library with `input_ids`, `loss_mask` and `seq_len`,
    the number of times that each token was written, and each row's states. `recipe.rows` reads it.

    layers: the states that precede the last ones. Defaults to those that EAGLE-3 reads.
    """

    checks: ClassVar[str] = "outrider.extras.training.data_checks:CHECKS"

    layers: list[int] | None

    def __call__(self, job: Job) -> Mapping[str, Any]:
        layers = sorted(set(self.layers or default_layers(job.target)))
        count = int(job.target.model.config.get_text_config().num_hidden_layers)
        is_valid = all(0 <= layer < count for layer in layers)
        require(is_valid, "recipe.layers", layers, f"numbers from 0 to {count - 1}")
        split = self.split(job)
        texts = [*split.held_out, *split.learned]
        write_data(job.out, job.target, texts, layers, job.console)
        job.console.print(plain(job.out), soft_wrap=True)
        return {"recipe.rows": str(job.out)}


def write_data(
    folder: Path, target: Target, texts: Sequence[Text], layers: Sequence[int], console: Console
) -> None:
    """Writes texts, token counts and states. layers: of the states that precede the last ones."""
    places = folder / FOLDER
    places.mkdir(parents=True, exist_ok=True)
    write_rows(folder, texts)
    write_frequencies(folder / FREQUENCIES, texts, target.vocab_size)
    for number, text in enumerate(track(texts, "The target reads", console=console)):
        write_state_file(target, text.ids, layers, state_path(places, number))


def write_rows(folder: Path, texts: Sequence[Text]) -> None:
    """Writes texts as the datasets library saves a data set to a folder."""
    import pyarrow

    columns = {
        "input_ids": [text.ids for text in texts],
        "loss_mask": [[int(own) for own in text.own] for text in texts],
        "seq_len": [len(text.ids) for text in texts],
    }
    numbers = pyarrow.list_(pyarrow.int64())
    kinds = {"input_ids": numbers, "loss_mask": numbers, "seq_len": pyarrow.int64()}
    table = pyarrow.table(columns, schema=pyarrow.schema(kinds))
    with (
        replacing(folder / ARROW) as scratch,
        pyarrow.OSFile(str(scratch), "wb") as file,
        pyarrow.ipc.new_stream(file, table.schema) as stream,
    ):
        stream.write_table(table)
    write_whole(folder / INFO, "{}\n")
    state: dict[str, Any] = {
        "_data_files": [{"filename": ARROW}],
        "_fingerprint": "outrider",
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": "torch",
        "_output_all_columns": False,
        "_split": None,
    }
    write_whole(folder / SAVED, json.dumps(state, indent=1) + "\n")


def write_frequencies(path: Path, texts: Sequence[Text], size: int) -> None:
    """Writes how often each token was written, of those that were. size: of the vocabulary."""
    counts = count_tokens([run for text in texts for run in text.written], size)
    found = {token: int(counts[token]) for token in counts.nonzero()[:, 0].tolist()}
    with replacing(path) as scratch:
        torch.save(found, scratch)


def read_frequencies(path: Path, size: int) -> Tensor:
    """Returns how often each token of the vocabulary was written. size: of the vocabulary.

    Raises:
        ConfigError: the file is damaged, or does not hold counts by token.
    """
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling raises errors of many kinds
        line = message_of(error)[:200]
        raise ConfigError(f"{path}: expected the counts of tokens ({line})") from error
    is_valid = isinstance(found, Mapping) and all(
        is_int(token) and 0 <= token < size and is_int(count) for token, count in found.items()
    )
    if not is_valid:
        raise ConfigError(f"{path}: expected counts by token, below {size} as the target's are")
    counts = torch.zeros(size, dtype=torch.long)
    counts[torch.tensor([*found], dtype=torch.long)] = torch.tensor([*found.values()])
    return counts
