"""Folders of presets: that they exist, and that no file in them stands behind one of that name."""

import sys
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from outrider.base.errors import ANY_FAULT, ConfigError, PluginError, described
from outrider.plugins.registry import builtin, installed

CONFIG_DIR = "--config-dir"
"""Hydra's flag that names a folder of config files."""

OURS = "pkg://outrider.conf"
FIRST = ("pkg://hydra.conf", OURS)
"""What is searched before any other folder."""

SEARCH_PATH = ("hydra.searchpath", "+hydra.searchpath", "++hydra.searchpath")


def check_presets(path: str, before: tuple[str, ...], *, own: bool = False) -> None:
    """Looks at a folder of presets that a plugin or a user names.

    before: the plugins' folders that are searched before it.
    own: whether it is the user's, which is searched after the parts of all plugins.

    Raises `PluginError` if there is none, a plugin's holds no file, or a file in it has the name of
    one that is found before it.
    """
    folder = _folder(path)
    if not own and not _configs(path):
        expected = "expected config files such as drafter/NAME.yaml; are they part of the package?"
        raise PluginError(f"search path {path!r} holds none: {expected}")
    parts = (installed() if own else builtin()).entries
    names = {f"{entry.role}/{entry.name}.yaml": "that is built in" for entry in parts}
    for earlier in (*before, *FIRST):
        where = "that is built in" if earlier in FIRST else f"in {earlier!r}"
        names |= dict.fromkeys(_configs(earlier), where)
    for name, where in names.items():
        if (folder / name).is_file():
            line = f"search path {path!r}: {name} has the name of one {where}"
            raise PluginError(f"{line}: expected another")


@cache
def plugin_folders() -> tuple[str, ...]:
    """Returns the search paths of the installed plugins; one that is wrong is left out, and named.

    They do not change, and are searched at each composition.
    """
    found: list[str] = []
    for path, plugin in installed().search_paths.items():
        try:
            if path not in builtin().search_paths:
                check_presets(path, tuple(found))
        except PluginError as error:
            installed().leave_out(f"{plugin}: {error}")
        else:
            found.append(path)
    return tuple(found)


def config_files() -> dict[str, Path]:
    """Returns the config files of ours and of plugins, by name; the first of each name is read."""
    paths = reversed((OURS, *plugin_folders()))
    return {name: _folder(path) / name for path in paths for name in _configs(path)}


def check_own_presets(arguments: Sequence[str]) -> None:
    """Looks at the folders of presets that a command line names; their modules can be imported.

    Raises `ConfigError` as `check_presets` does for those of a plugin.
    """
    for folder in own_folders(arguments):
        try:
            check_presets(folder, plugin_folders(), own=True)
            if not folder.startswith("pkg://") and (place := str(_folder(folder))) not in sys.path:
                sys.path.insert(0, place)  # its presets name classes of the modules beside them
        except PluginError as error:
            raise ConfigError(str(error)) from error


def own_folders(arguments: Sequence[str]) -> list[str]:
    """Returns the search paths of the folders and packages that a command line names."""
    from hydra.core.override_parser.overrides_parser import OverridesParser  # which help need not

    found: list[str] = []
    for word in arguments:
        name, _, value = word.partition("=")
        if name == CONFIG_DIR:
            found.append(f"file://{value}")
        elif name in SEARCH_PATH:
            given = OverridesParser.create().parse_override(word).value()
            paths = given if isinstance(given, list) else []  # for others Hydra says what is wrong
            found += [path for path in paths if isinstance(path, str)]
    return [path for path in found if "://" not in path or path.startswith(("pkg://", "file://"))]


def _folder(path: str) -> Path:
    """Returns the folder of a search path; raises `PluginError` if there is none."""
    folder, reason = Path(path.removeprefix("file://")), ""
    try:
        if path.startswith("pkg://"):
            package = path.removeprefix("pkg://").strip("/").replace("/", ".")
            folder = Path(str(files(package)))
            if not (folder / "__init__.py").is_file():
                reason = "; in a package without __init__.py Hydra reads no file"
        if not reason and folder.is_dir():
            return folder
    except ANY_FAULT as error:  # what a package can raise when it is imported
        reason = f" ({described(error)})"
    raise PluginError(f"search path {path!r}: expected a package or a folder{reason}")


@cache
def _configs(path: str) -> tuple[str, ...]:
    """Returns the files of a search path, as they are named in it."""
    folder = _folder(path)
    return tuple(file.relative_to(folder).as_posix() for file in folder.rglob("*.yaml"))
