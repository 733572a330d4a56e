"""`outrider new-plugin`: writes the package of a plugin, with tests that prove it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from outrider.base.errors import ConfigError, nearest, require
from outrider.base.terminal import remark
from outrider.cli.usage import argument_parser
from outrider.plugins.registry import installed
from outrider.plugins.roles import ROLES

PREFIX = "outrider-"
"""How the names of the packages begin."""

POINTS = "[project.entry-points.outrider]"
"""What a package's entry points stand below."""

TEMPLATES = (*ROLES, "command")
"""The roles whose part a package can have. `template/ROLE.py.jinja` is the part, and says its
title, what its tests make, and a command that uses it."""

FUNCTIONS = ("data", "command")
"""The roles whose part is a function; that of others is a class."""

ENVIRONMENT = Environment(
    loader=PackageLoader("outrider.cli", "template"),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
    autoescape=False,
)


def new_plugin(arguments: Sequence[str]) -> None:
    """Writes the package, or more parts into one, and prints what to do next.

    Raises `ConfigError` if the name is not valid, or is taken, or the folder exists.
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
    remark(f"{folder} is a package with a {' and a '.join(wanted)}. Next:", stderr=False)
    steps = ("pip install --editable '.[test]'", "pytest")
    name = part_name(options.name)
    for line in (f"cd {folder}", *steps, *(it for role in wanted for it in _steps(role, name))):
        remark(f"  {line}", stderr=False)


def write_plugin(name: str, roles: Sequence[str], parent: Path, *, add: bool = False) -> Path:
    """Returns the folder of a package below `parent` with a part of each role, all of one name.

    add: whether the package is there already. Each part is a module with the name of its role.

    Raises `ConfigError` if a role or the name is not valid, or is taken, or the folder exists, or
    with `add` is no package.
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
    filled = _filled(role, part)
    makes = getattr(filled, "makes", "")
    values = {
        "name": part,
        "role": role,
        "hook": ROLES[role].hook if role in ROLES else "register_commands",
        "symbol": part if role in FUNCTIONS else _class_name(part),
        "distribution": folder.name,
        "package": package,
        "module": f"{package}.{role}",
        "is_first": is_first,
        "title": filled.title,
        "makes": makes,
        "helper": next((it for it in ("partial", "cache") if f"{it}(" in makes), ""),
        "usage": f"outrider {part}" if role == "command" else f"{role}={part}",
        "steps": _steps(role, part),
    }
    tests = "tests_command.py" if role == "command" else "tests.py"
    files = {"__init__.py": f"{package}/__init__.py", tests: f"test_{part}_{role}.py"}
    if is_first:
        files |= {"pyproject.toml": "pyproject.toml", "README.md": "README.md"}
    (folder / package).mkdir(parents=True, exist_ok=True)
    (folder / package / f"{role}.py").write_text(str(filled), encoding="utf-8")
    for source, path in files.items():
        with (folder / path).open("a", encoding="utf-8") as file:  # one more hook, or a new file
            file.write(ENVIRONMENT.get_template(f"{source}.jinja").render(values))


def _filled(role: str, part: str) -> Any:
    """Returns the code of a part as a jinja module, whose attributes are what it says of itself."""
    template = ENVIRONMENT.get_template(f"{role}.py.jinja")
    return template.make_module({"name": part, "class_name": _class_name(part)})


def _class_name(part: str) -> str:
    return "".join(word.title() for word in part.split("_"))


def _steps(role: str, part: str) -> list[str]:
    """Returns what to run when the package is installed and its tests have passed."""
    example: str = _filled(role, part).example
    return [example] if role == "command" else [f"outrider check {role}={part}", example]


def part_name(name: str) -> str:
    """Returns the name of the part, an identifier: `outrider-my-bigram` gives `my_bigram`.

    Raises `ConfigError` if it is not a valid name.

    >>> part_name("outrider-my-bigram")
    'my_bigram'
    """
    part = name.removeprefix(PREFIX).replace("-", "_")
    is_name = re.fullmatch(r"[a-z][a-z0-9_]*", part) is not None
    require(is_name, "name", name, "lower-case letters, digits and hyphens, such as my-bigram")
    return part
