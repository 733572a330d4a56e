"""Config files of users and plugins: what is wrong in one is a line with its name."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from hydra._internal.sources_registry import SourcesRegistry
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf

from outrider.base.errors import ConfigError, OutriderError

SCHEMES = ("file", "pkg")
"""How search paths of folders and packages begin."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

NO_MAPPING = "expected settings, as NAME: VALUE"
NO_DEFAULTS = "defaults: expected a list of names, or of GROUP: NAME"


def name_config_files() -> None:
    """Has Hydra name a file that it can't read; calling it again changes nothing."""
    types = SourcesRegistry.instance().types  # which `register` would leave as they are
    for scheme in SCHEMES:
        types[scheme] = _naming(types[scheme])


@cache
def _naming(source: Any) -> Any:
    """Returns a source of configs, such as folders are, whose errors name the file."""
    if hasattr(source, "names_files"):
        return source

    class Naming(source):  # type: ignore[misc]
        names_files = True

        def load_config(self, config_path: str) -> ConfigResult:
            file = f"{self.path}/{config_path.removesuffix('.yaml')}.yaml"
            try:
                result: ConfigResult = super().load_config(config_path)
            except OutriderError:
                raise
            except Exception as error:  # of YAML, of the file system, of OmegaConf's grammar
                raise ConfigError(_line(file, error)) from error
            if not isinstance(result.config, DictConfig) or self._is_text(config_path):
                raise ConfigError(f"{file}: {NO_MAPPING}")
            if not _are_defaults(result.config):
                raise ConfigError(f"{file}: {NO_DEFAULTS}")
            return result

        def _is_text(self, config_path: str) -> bool:
            """Returns whether a file holds a text, which OmegaConf takes as a name."""
            folder: Any = Path(self.path) if self.scheme() == "file" else files(self.path)
            file = folder.joinpath(self._normalize_file_name(config_path))
            return isinstance(yaml.load(file.read_bytes(), LOADER), str)

    Naming.__name__ = source.__name__  # by which Hydra tells them apart, in a job's process too
    return Naming


def _line(file: str, error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    where = file if mark is None else f"{file}:{mark.line + 1}"
    if isinstance(error, UnicodeError):
        return f"{where}: expected text in UTF-8"
    full = str(error).partition("full_key:")[0]  # what follows is of OmegaConf
    reason = getattr(error, "problem", None) or getattr(error, "reason", None)
    return " ".join(f"{where}: {reason or getattr(error, 'strerror', None) or full}".split())


def _are_defaults(config: DictConfig) -> bool:
    """Returns whether the defaults list of a config is one, if it has any."""
    items = OmegaConf.to_container(config, resolve=False).get("defaults", [])  # type: ignore[union-attr]
    if not isinstance(items, list):
        return False
    for item in items:
        chosen = [*item.values()] if isinstance(item, Mapping) and len(item) == 1 else [item]
        names = chosen[0] if isinstance(chosen[0], list) else chosen
        is_null = isinstance(item, Mapping) and names == [None]
        if not is_null and not all(isinstance(name, str) for name in names):
            return False
    return True
