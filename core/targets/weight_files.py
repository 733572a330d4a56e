"""The files that a model's weights come from: what they are read and recognised by."""

import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any, final

from safetensors import SafetensorError, safe_open

from outrider.base.contents import fault_of, json_in, text_in
from outrider.base.errors import TargetError, is_int, message_of, refusing
from outrider.plugins.fingerprint import hash_files, hash_tensors
from outrider.targets.passes.placement import is_offloaded

SUFFIXES = (".safetensors", ".bin", ".py")
"""How the names of weights end in a folder, and of code that may come with them."""

ADAPTER = "adapter_config.json"
"""The file by which a folder of PEFT is known, which holds changes of a model's weights."""

INDEX = "model.safetensors.index.json"

READ = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "chat_template.json", "chat_template.jinja",
    ADAPTER,
)  # fmt: skip
"""The files beside the weights that transformers reads as text."""

MOST = 2048
"""The most layers, or experts, of a model."""

STEP = 1 << 20
"""The bytes that the system is asked for at once; Linux reads no more at a single request."""


def weight_files(name: str) -> list[Path]:
    """Returns the files with the weights of a hub id, a folder or a GGUF file.

    Those of an adapter and of its model are all of them. Returns none for a hub id that was not
    downloaded yet.
    """
    from huggingface_hub import try_to_load_from_cache

    folder = Path(name).expanduser()
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        config = try_to_load_from_cache(name, "config.json")
        if not isinstance(config, str):
            return []
        folder = Path(config).parent
    files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
    return [*files, *weight_files(base_of(folder))] if is_adapter(folder) else files


def check_files(folder: Path) -> None:
    """Raises `TargetError` for a damaged file of a model's folder, or a damaged GGUF file.

    Transformers passes over some, such as a damaged `generation_config.json`.
    """
    files = chain([folder], map(folder.joinpath, READ), _weights(folder))
    for path in filter(Path.is_file, files):
        try:
            _check_file(path)
        except (ValueError, SafetensorError) as error:
            line = f"{path.name}: {message_of(error)}"
            raise TargetError(f"model={str(folder)!r}: {line}") from error


def _weights(folder: Path) -> Iterator[Path]:
    """Yields the files with weights that transformers reads: one, or the parts in an index."""
    parts, index = [*folder.glob("*model*.safetensors")], folder / INDEX
    whole = [path for path in parts if path.stem.endswith("model")]
    if whole or not index.is_file():
        yield from whole or parts or folder.glob("*.bin")
        return
    yield index  # first, so that it has been checked before it is read
    named = text_in(index)
    yield from (path for path in parts if path.name in named)


def _check_file(path: Path) -> None:
    """Raises `ValueError` or `SafetensorError`, which say how a file is damaged."""
    if fault := fault_of(path):
        raise ValueError(fault)
    if path.suffix == SUFFIXES[0]:
        safe_open(path, "pt")
    if path.name not in (*READ, INDEX):
        return
    entries = json_in(path) if path.suffix == ".json" else text_in(path)
    if path.read_bytes().startswith(BOM_UTF8):
        raise ValueError("expected text in UTF-8 without a byte order mark")
    if path.name == "config.json":
        check_counts(entries)
    if path.name == INDEX and "weight_map" not in entries:
        raise ValueError("expected the file of each tensor in 'weight_map'")


def check_counts(config: Any) -> None:
    """Raises `ValueError` for more layers or experts in a config than any model has, or below 0.

    They are made before the weights are read, which would tell.
    """
    for key, value in config.items() if isinstance(config, Mapping) else ():
        # One that is counted from the last, as LLaVA's `vision_feature_layer`, is below 0.
        is_other = is_int(value) and (value > MOST or (value < 0 and str(key).startswith("n")))
        if is_other and re.search(r"(layers?|experts|blocks|(block|expert)_count)$", str(key)):
            raise ValueError(f"{key}={value}: expected at most {MOST}, and 0 at least")
        check_counts(value)


def read_ahead(files: Sequence[Path]) -> None:
    """Lets the system read files from the disk into its memory, while something else is done.

    Does nothing for more than half of the machine's memory, or where there is no such request.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if 2 * sum(path.stat().st_size for path in files) < memory:
        Thread(target=ask_for, args=(files,), daemon=True).start()


def ask_for(files: Sequence[Path]) -> None:
    """Asks the system for files, part by part."""
    for path in files:
        with suppress(OSError), path.open("rb") as file:
            for start in range(0, path.stat().st_size, STEP):
                os.posix_fadvise(file.fileno(), start, STEP, os.POSIX_FADV_WILLNEED)


def is_adapter(folder: Path) -> bool:
    """Returns whether a folder holds an adapter, and no model."""
    return (folder / ADAPTER).is_file() and not (folder / "config.json").is_file()


def base_of(folder: Path) -> str:
    """Returns the hub id or the folder of the model that an adapter belongs to.

    Raises:
        ConfigError: PEFT is not installed.
        TargetError: the adapter does not name its model, or one that is gone, or the model has its
            layers several times, whose weights can't hold different changes.
    """
    found = json_in(folder / ADAPTER)
    base = found.get("base_model_name_or_path") if isinstance(found, dict) else None
    if not isinstance(base, str) or not base:
        raise TargetError(f"model={str(folder)!r}: expected base_model_name_or_path in {ADAPTER}")
    if Path(base).is_absolute() and (not Path(base).exists() or folder.samefile(base)):
        raise TargetError(f"model={str(folder)!r}: there is no {base}, which {ADAPTER} names")
    if found.get("layer_replication"):
        raise TargetError(f"model={str(folder)!r}: {ADAPTER} replicates layers: expected none")
    line = f"model={str(folder)!r} is an adapter of {base}: it needs: pip install peft"
    with refusing(line, ImportError):
        import peft  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    return base


def adapted(model: Any, folder: Path, size: int) -> Any:
    """Returns the model with an adapter's changes added to its weights, a model of its own kind.

    size: how many tokens the adapter was trained with, which may be more than the model has.

    Raises:
        TargetError: the adapter changes no weights: it is a prompt, or a part beside the layers.
    """
    from peft import PeftModel  # type: ignore[import-not-found,unused-ignore]

    if size > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(size, mean_resizing=False)
    whole = PeftModel.from_pretrained(model, str(folder))
    if not hasattr(whole, "merge_and_unload"):
        raise TargetError(f"model={str(folder)!r}: an adapter without changes of weights")
    return whole.merge_and_unload()


@final
class WeightsOrigin:
    """Recognises a model's weights by the files that they were loaded from, or by their values.

    files: those that the model was just loaded from, or none.
    quantize: how its weights were rounded since.
    """

    def __init__(self, model: Any, files: Sequence[Path], quantize: str | None) -> None:
        self._model, self._files = model, files
        self._how = f"{model.dtype} {quantize}"
        self._loaded = self._state()

    def hash(self) -> str:
        """Returns a hash of the files; of all weights if there are none, or something has changed.

        A change that PyTorch does not count, such as one of `weight.data`, is not noticed.
        """
        if self._files and self._loaded == self._state():
            return f"{hash_files(self._files)} {self._how}"
        return hash_tensors(self._model.state_dict().items())

    def is_known(self) -> bool:
        """Returns whether there are files, or all values are at hand."""
        return bool(self._files) or not is_offloaded(self._model)

    def _state(self) -> list[tuple[int, int]]:
        stats = (path.stat() for path in self._files)
        return [
            *(
                (id(weight), weight._version)
                for weight in self._model.parameters()
                if not weight.is_meta  # one that is elsewhere is another after each pass
            ),
            *((stat.st_size, stat.st_mtime_ns) for stat in stats),
        ]
