"""Pages of the site that are generated; mkdocs calls the hooks, see mkdocs.yml.

These are the README as the first page, the other pages of the repository's root, the settings, the
API reference, and the picture of the architecture.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import architecture
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from models import searched
from settings import settings_page

import outrider.public
import outrider.testing

ROOT = Path(__file__).parents[2]
COPIED = ("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
"""What the pages link to outside of docs/."""

FOUND_FIRST = ("plugins/drafter.md", "plugins/rule.md", "measures.md", "glossary.md")

TASKS = {
    "Write texts": "generate generate_together Generation TokenLogprob Sampling Penalties",
    "Constrain texts": "json_schema regex grammar Constraint AllOf",
    "Decode round by round": "decode decode_together Round Counts",
    "Compare drafters": "compare Comparison",
    "Write a drafter": "Drafter CompositeDrafter Pen Context Tokens Draft DrafterExample",
    "Write an acceptance rule": "Verifier Scores Verdict Budget Chance SampledChance"
    " VerifierExample",
    "Write a policy": "Policy Fixed PolicyExample",
    "Write a target": "Target Session BatchTarget",
    "Register and configure parts": "hookimpl Command build compose",
    "Catch errors": "OutriderError ConfigError DrafterError TargetError PluginError",
}
"""By task, the names of `outrider` that it takes."""

PROOFS = {
    "Check a part": "parametrize_with_checks run_checks checks_of check_drafter check_verifier"
    " check_policy check_target Outcome Setup VOCAB_SIZE",
    "Compare distributions": "EnumeratedChance output_distribution target_distribution"
    " loop_distribution chi_square",
}
"""By task, the names of `outrider.testing` that it takes."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Takes the address of the repository from pyproject.toml, if it has one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.repo_url = project.get("urls", {}).get("Repository")
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    pages = {"index.md": home(), "settings.md": settings_page()} | api()
    pages["architecture.svg"] = architecture.picture()
    for name in COPIED:
        pages[name] = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Links to copies of the root's files on the site, and puts in the table of models.

    A search finds first what explains a thing, and then what mentions it.
    """
    if page.file.src_uri in FOUND_FIRST:
        page.meta["search"] = {"boost": 4}
    names = "|".join(map(re.escape, COPIED))
    return searched(re.sub(rf"\]\(\.\./({names})\)", r"](\1)", markdown))


def on_page_content(html: str, **_: object) -> str:
    """Makes headings of tables that are empty plain cells."""
    return re.sub(r"<th([^>]*)></th>", r"<td\1></td>", html)


def home() -> str:
    """Returns the README, with the addresses of the site."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.replace("](docs/", "](").replace('src="docs/', 'src="')


def api() -> dict[str, str]:
    """Returns the pages of the API reference: the names that stay stable."""
    package = "These names [stay stable](api-stability.md)."
    kit = "The checks that prove a part; [write a plugin](plugins/index.md) shows them at work."
    return {
        "api.md": reference("The package `outrider`", package, outrider, TASKS),
        "testing.md": reference("The kit `outrider.testing`", kit, outrider.testing, PROOFS),
    }


def place(module: Any, name: str) -> str:
    """Returns where the docs find a public name: one that is a plugin's is in its own module."""
    if name in vars(outrider.public if module is outrider else module):
        return f"{module.__name__}.{name}"
    return f"{getattr(module, name).__module__}.{name}"


def reference(title: str, text: str, module: Any, tasks: Mapping[str, str]) -> str:
    """Returns a page with the docstring of each public name, below the task that it is for."""
    placed = [name for names in tasks.values() for name in names.split()]
    if sorted(placed) != sorted(module.__all__):
        raise ValueError(f"{title}: without a task: {set(placed) ^ set(module.__all__)}")
    sections = [
        "\n\n".join([f"## {task}", *(f"::: {place(module, name)}" for name in names.split())])
        for task, names in tasks.items()
    ]
    return "\n\n".join([f"# {title}", text, *sections])
