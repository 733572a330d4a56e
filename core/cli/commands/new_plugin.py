"""`outrider new-plugin`: writes the package of a plugin, with tests that prove it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from jinja2 import Environment, PackageLoader, StrictUndefined

from outrider.base.errors import ConfigError, nearest, require
from outrider.base.terminal import plain, remarks
from outrider.cli.usage import argument_parser
from outrider.plugins.registry import installed

PREFIX = "outrider-"
"""How the names of the packages begin."""

POINTS = "[project.entry-points.outrider]"
"""What a package's entry points stand below."""


@final
@dataclass(frozen=True, slots=True)
class Template:
    """What the template of a role holds.

    title: the part, in words. makes: what its tests check. example: a command that uses it.
    helper: what its tests need from functools, if anything.
    symbol: the name of what it registers, a class if nothing else is said.
    """

    title: str
    makes: str
    example: str
    helper: str = ""
    symbol: str = "{class_name}"


TEMPLATES = {
    "drafter": Template(
        "A drafter",
        "{class_name}, partial({class_name}, reach=2)",
        "outrider compare drafters=[none,{name},prompt_lookup]",
        "partial",
    ),
    "verifier": Template(
        "An acceptance rule",
        "{class_name}",
        "outrider compare drafters=[bigram] verifiers=[token,{name}] sampling=standard",
    ),
    "policy": Template(
        "A policy",
        "{class_name}, partial({class_name}, start=1)",
        "outrider compare drafters=[bigram] policies=[fixed,{name}]",
        "partial",
    ),
    "target": Template(
        "A target",
        "cache({class_name})",
        "outrider generate target={name} prompt=[0,1] drafter=bigram",
        "cache",
    ),
    "engine": Template("An engine", "{class_name}", "outrider generate target.optimize={name}"),
    "constraint": Template(
        "A constraint",
        "{class_name}",
        'outrider generate prompt="List the numbers to 30." constraint={name}',
    ),
    "data": Template(
        "A data source",
        "partial({name}, limit=3)",
        "outrider compare data={name} data.limit=4",
        "partial",
        "{name}",
    ),
    "recipe": Template(
        "A recipe of training",
        "partial({class_name}, texts=4)",
        "outrider train recipe={name} data=demo",
        "partial",
    ),
    "report": Template(
        "A logger of runs", "{class_name}", "outrider compare reports=[page,{name}]"
    ),
    "score": Template(
        "A score of answers",
        "{class_name}, partial({class_name}, least=3)",
        "outrider compare data=jsonl data.path=summaries.jsonl protocol=decode quality={name}",
        "partial",
    ),
    "command": Template("A command", "", "outrider {name} demo", symbol="{name}"),
}
"""By role, what is in its package."""


def new_plugin(arguments: Sequence[str]) -> None:
    """Writes the package, or more parts into one, and prints what to do next.

    Raises:
        ConfigError: the name is not valid, or is taken, or the folder exists.
    """
    parser = argument_parser(
        "new-plugin",
        description="Writes a package with a drafter, or parts of other roles, and tests that"
        " prove them. Change the code and run the tests again.",
        epilog="example: outrider new-plugin my-bigram --role drafter,policy",
    )
    parser.add_argument("name", help="of the part, such as my-bigram; the package is outrider-NAME")
    roles = f"of {', '.join(TEMPLATES)}: one, or several with commas; default: drafter"
    parser.add_argument("--role", metavar="ROLE", default="drafter", help=roles)
    parser.add_argument("--add", action="store_true", help="write into a package that is there")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder to write it into")
    options = parser.parse_args(arguments)
    wanted = list(dict.fromkeys(options.role.split(",")))
    folder = write_plugin(options.name, wanted, options.out, add=options.add)
    notes = remarks(stderr=False)
    line = f"{folder} is a package with a {' and a '.join(wanted)}. Next:"
    notes.print(plain(line), soft_wrap=True)
    steps = ("pip install --editable '.[test]'", "pytest")
    name = part_name(options.name)
    for line in (f"cd {folder}", *steps, *(it for role in wanted for it in _steps(role, name))):
        notes.print(plain(f"  {line}"), soft_wrap=True)


def write_plugin(name: str, roles: Sequence[str], parent: Path, *, add: bool = False) -> Path:
    """Returns the folder of a package below `parent` with a part of each role, all of one name.

    add: whether the package is there already. Its first part is the package itself, each other one
        a module of it with the name of its role.

    Raises:
        ConfigError: a role or the name is not valid, or is taken, or the folder exists, or with
            `add` is no package.
    """
    part = part_name(name)
    folder, package = parent / f"{PREFIX}{part.replace('_', '-')}", f"outrider_{part}"
    project = folder / "pyproject.toml"
    for role in roles:
        if role not in TEMPLATES:
            raise ConfigError(f"--role={role!r}: {nearest(role, TEMPLATES)}")
        require(part not in installed().of(role), "name", name, f"another: it is a {role} already")
        module = folder / package / f"{role}.py"
        require(not module.exists(), "--role", role, f"another role, {module} exists")
    if add:
        is_package = project.is_file() and POINTS in project.read_text(encoding="utf-8")
        expected = f"{project} with [project.entry-points.outrider], which `new-plugin` writes"
        require(is_package, "--add", name, expected)
    else:
        require(not folder.exists(), "name", name, f"another name, {folder} exists; or --add")
    for number, role in enumerate(roles):
        _write_part(folder, package, part, role, is_first=not add and number == 0)
    return folder


def _write_part(folder: Path, package: str, part: str, role: str, *, is_first: bool) -> None:
    template = TEMPLATES[role]
    point = part if is_first else f"{part}_{role}"
    values = {
        "name": part,
        "role": role,
        "class_name": "".join(word.title() for word in part.split("_")),
        "distribution": folder.name,
        "package": package,
        "module": package if is_first else f"{package}.{role}",
        "title": template.title,
        "helper": template.helper,
        "usage": f"outrider {part}" if role == "command" else f"{role}={part}",
        "steps": _steps(role, part),
    }
    values["makes"] = template.makes.format(**values)
    values["symbol"] = template.symbol.format(**values)
    environment = Environment(
        loader=PackageLoader("outrider.cli", "template"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    tests = "tests_command.py" if role == "command" else "tests.py"
    module = f"{package}/{'__init__' if is_first else role}.py"
    files = {tests: f"test_{point}.py", f"{role}.py": module}
    if is_first:
        files |= {"pyproject.toml": "pyproject.toml", "README.md": "README.md"}
    else:
        project = folder / "pyproject.toml"
        line = f'{POINTS}\n{point} = "{values["module"]}"'
        project.write_text(project.read_text(encoding="utf-8").replace(POINTS, line, 1), "utf-8")
    for source, path in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(environment.get_template(f"{source}.jinja").render(values), "utf-8")


def _steps(role: str, name: str) -> list[str]:
    """Returns what to run when the package is installed and its tests have passed."""
    example = TEMPLATES[role].example.format(name=name)
    return [example] if role == "command" else [f"outrider check {role}={name}", example]


def part_name(name: str) -> str:
    """Returns the name of the part, an identifier: `outrider-my-bigram` gives `my_bigram`.

    Raises:
        ConfigError: it is not a valid name.

    >>> part_name("outrider-my-bigram")
    'my_bigram'
    """
    part = name.removeprefix(PREFIX).replace("-", "_")
    is_name = re.fullmatch(r"[a-z][a-z0-9_]*", part) is not None
    require(is_name, "name", name, "lower-case letters, digits and hyphens, such as my-bigram")
    return part
