"""Pages of the site that are generated; mkdocs calls the hooks, see mkdocs.yml.

These are the README as the first page, the other pages of the repository's root, the settings, and
the API reference.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from models import searched
from settings import settings_page

import outrider
import outrider.testing

ROOT = Path(__file__).parents[2]
COPIED = ("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
"""What the pages link to outside of docs/."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    pages = {"index.md": home(), "settings.md": settings_page()} | api()
    for name in COPIED:
        pages[name] = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Links to copies of the root's files on the site, and puts in the table of models."""
    names = "|".join(map(re.escape, COPIED))
    return searched(re.sub(rf"\]\(\.\./({names})\)", r"](\1)", markdown))


def home() -> str:
    """Returns the README, with the addresses of the site."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.replace("](docs/", "](").replace('src="docs/', 'src="')


def api() -> dict[str, str]:
    """Returns the pages of the API reference: the names that stay stable."""
    package = "These names [stay stable](api-stability.md)."
    kit = "The checks that prove a part; [write a plugin](plugins/index.md) shows them at work."
    return {
        "api.md": reference("The package `outrider`", package, outrider),
        "testing.md": reference("The kit `outrider.testing`", kit, outrider.testing),
    }


def reference(title: str, text: str, module: Any) -> str:
    """Returns a page with the docstring of each public name, in alphabetical order."""
    names = sorted(module.__all__, key=str.lower)
    return "\n\n".join([f"# {title}", text, *(f"::: {module.__name__}.{name}" for name in names)])
