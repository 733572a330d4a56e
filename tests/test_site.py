"""The documentation site: each page has its place, and the reference has every setting."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from omegaconf import OmegaConf

import outrider
import outrider.testing
from outrider import public
from outrider.cli.usage import read_settings
from outrider.plugins.config import compose
from outrider.plugins.options import option_schema
from outrider.plugins.registry import installed

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Returns the module that makes pages, loaded from its folder as mkdocs does."""
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    import site_pages

    return site_pages


def in_navigation(entries: list[Any]) -> Iterator[str]:
    """Yields the pages of a navigation, from its folders too."""
    for entry in entries:
        content = next(iter(entry.values())) if isinstance(entry, dict) else entry
        yield from in_navigation(content) if isinstance(content, list) else [content]


def test_every_page_is_in_the_navigation_once(site: ModuleType) -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav: Any = OmegaConf.create(text[text.index("nav:") : text.index("validation:")])
    written = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    made = ["index.md", "settings.md", *site.api(), *site.COPIED]
    listed = list(in_navigation(OmegaConf.to_container(nav.nav)))
    assert sorted(listed) == sorted(name for name in [*written, *made] if name.endswith(".md"))


def test_every_name_of_the_reference_is_found_without_running_code(site: ModuleType) -> None:
    """mkdocstrings reads the sources: it does not see what a `__getattr__` finds."""
    places = re.findall(r"^::: (\S+)\.(\w+)$", "\n".join(site.api().values()), re.MULTILINE)
    assert len(places) > 50
    for module, name in places:
        own = public.__all__ if module == "outrider" else vars(import_module(module))
        assert name in own, f"{module}.{name}"


SIGNED = ("target", "drafter", "verifier", "policy", "constraint", "data")
"""The roles whose settings are read from signatures; recipes have files."""


def test_every_setting_has_a_line_with_its_meaning(site: ModuleType) -> None:
    page = site.settings_page()
    assert not re.findall(r"^\| .*\|  \|$", page, re.MULTILINE)
    assert page.count("\n</details>") == page.count("<details markdown>") == page.count("\n|---|")
    sections = dict(re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    for command in (name for name, each in installed().commands.items() if not each.plain):
        for name in compose(command):
            assert re.search(rf"^\| `{name}(\..+)?` \|", sections[command], re.MULTILINE), name
    for entry in installed().entries:
        if entry.role in SIGNED and entry.distribution == "outrider":
            for name in option_schema(entry):
                line = f"| `{name}` |"
                assert name == "_target_" or line in sections[f"{entry.role}={entry.name}"]
    for folder in (ROOT / "conf", *ROOT.glob("extras/*/conf")):
        for file in folder.glob("*/**/*.yaml"):
            group = file.parent.relative_to(folder).as_posix()
            assert group in ("sampling", "training") or f"{group}={file.stem}" in sections
    for name in read_settings("training/layers").values.keys() - {"_target_"}:
        assert f"| `{name}` |" in sections["recipe=eagle"]


def test_the_reference_has_every_name_that_stays_stable(site: ModuleType) -> None:
    for module, page in ((outrider, "api.md"), (outrider.testing, "testing.md")):
        named = re.findall(r"^::: (\S+)$", site.api()[page], re.MULTILINE)
        assert set(named) == {site.place(module, name) for name in module.__all__}
    with pytest.raises(ValueError, match="without a task"):
        site.reference("API", "", outrider, {"All": "generate"})


def test_the_picture_of_losslessness_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    import lossless

    assert (DOCS / "lossless.svg").read_text(encoding="utf-8") == lossless.picture()
    assert sum(lossless.TARGET) == pytest.approx(1) == sum(lossless.DRAFT)
