"""`outrider new-plugin`: writes the package of a plugin, with tests that prove it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from jinja2 import Environment, PackageLoader, StrictUndefined

from outrider.base.errors import require
from outrider.base.terminal import plain, remarks
from outrider.cli.usage import argument_parser
from outrider.plugins.registry import installed

PREFIX = "outrider-"
"""How the names of the packages begin."""


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
    """Writes the package, and prints what to do next.

    Raises:
        ConfigError: the name is not valid, or is taken, or the folder exists.
    """
    parser = argument_parser(
        "new-plugin",
        description="Writes a package with a drafter, or a part of another role, and tests that"
        " prove it. Change its code and run the tests again.",
        epilog="example: outrider new-plugin my-bigram --role drafter",
    )
    parser.add_argument("name", help="of the part, such as my-bigram; the package is outrider-NAME")
    roles = f"one of {', '.join(TEMPLATES)}; default: drafter"
    parser.add_argument("--role", choices=TEMPLATES, metavar="ROLE", default="drafter", help=roles)
    parser.add_argument("--out", type=Path, default=Path(), help="the folder to write it into")
    options = parser.parse_args(arguments)
    folder = write_plugin(options.name, options.role, options.out)
    notes = remarks(stderr=False)
    line = f"{folder} is a package with a {options.role}. Next:"
    notes.print(plain(line), soft_wrap=True)
    name = part_name(options.name)
    for line in (
        f"cd {folder}",
        "pip install --editable '.[test]'",
        f"pytest test_{name}.py",
        *_steps(options.role, name),
    ):
        notes.print(plain(f"  {line}"), soft_wrap=True)


def write_plugin(name: str, role: str, parent: Path) -> Path:
    """Returns the folder of a new package, written below `parent`.

    Raises:
        ConfigError: the name is not valid, or is taken, or the folder exists.
    """
    part = part_name(name)
    taken = installed().of(role)
    require(part not in taken, "name", name, f"another name, there is a {role} {part}")
    folder = parent / f"{PREFIX}{part.replace('_', '-')}"
    require(not folder.exists(), "name", name, f"another name, {folder} exists")
    template, package = TEMPLATES[role], f"outrider_{part}"
    values = {
        "name": part,
        "role": role,
        "class_name": "".join(word.title() for word in part.split("_")),
        "distribution": folder.name,
        "package": package,
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
    for source, path in (
        ("pyproject.toml", "pyproject.toml"),
        ("README.md", "README.md"),
        ("tests_command.py" if role == "command" else "tests.py", f"test_{part}.py"),
        (f"{role}.py", f"{package}/__init__.py"),
    ):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            environment.get_template(f"{source}.jinja").render(values), encoding="utf-8"
        )
    return folder


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
