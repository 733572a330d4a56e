"""How a command line can go on, found without importing what it names."""

from collections.abc import Iterator
from pathlib import PurePath

from outrider.cli.usage import read_settings
from outrider.plugins.presets import config_files
from outrider.plugins.registry import installed
from outrider.plugins.roles import ROLES
from outrider.plugins.source import parameters_of


def completions(line: str) -> list[str]:
    """Returns what the last word of a command line can become.

    >>> completions("outrider check verifier=bl")
    ['verifier=block']
    """
    words = line.split()
    word = "" if len(words) < 2 or line.endswith(" ") else words.pop()
    commands = installed().commands
    if len(words) < 2:
        choices: Iterator[str] = iter(commands)
    elif words[1] not in commands or commands[words[1]].plain:
        choices = iter(())
    else:
        choices = _settings(words[1], words[2:], word)
    return sorted({choice for choice in choices if choice.startswith(word)})


def _settings(command: str, before: list[str], word: str) -> Iterator[str]:
    """Yields the settings of a command as far as a word has come: to a group, a part or a name."""
    settings = read_settings(command)
    group, is_chosen, _ = word.partition("=")
    part, is_inside, _ = word.partition(".")
    if is_chosen:
        yield from (f"{group}={name}" for name in _options(group.lstrip("+")))
    elif is_inside and part in settings.groups:
        given = [setting for setting in before if setting.startswith(f"{part}=")]
        name = given[-1].partition("=")[2] if given else settings.groups[part]
        settings_of_part = (each for each in _parameters(part, name) if each != "_target_")
        yield from (f"{part}.{setting}=" for setting in settings_of_part)
    else:
        for name in settings.groups:
            yield from (f"{name}=", f"{name}.")
        yield from (f"{name}=" for name in settings.values)


def _options(group: str) -> Iterator[str]:
    """Yields the names in a config group: of registered parts, and of files."""
    yield from installed().of(group)
    files = map(PurePath, config_files())
    yield from (file.stem for file in files if str(file.parent) == group)


def _parameters(group: str, name: str | None) -> list[str]:
    """Returns the settings of a part: those of its file, if it has one, or its signature."""
    entry = installed().of(group).get(name or "")
    try:
        return list(read_settings(f"{group}/{name}").values)
    except FileNotFoundError:
        return list(parameters_of(entry)) if entry is not None and group in ROLES else []
