"""Folders of presets: each file in them is one that is read."""

from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider import ConfigError, PluginError
from outrider.plugins.entry import Registry
from outrider.plugins.presets import check_presets, own_folders, plugin_folders

BUILT_IN = ("drafter/bigram", "sampling/greedy", "hydra/job_logging/default", "generate")
"""Configs that are found before those of other folders: parts, and files of ours and of Hydra."""


def preset(folder: Path, name: str, content: str = "") -> str:
    """Writes a preset; returns the search path of its folder."""
    path = folder / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return f"file://{folder}"


@pytest.mark.parametrize(
    "path",
    ["pkg://nowhere.conf", "file:///nowhere", "pkg://bare"],
)
def test_search_paths_have_to_exist(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset(tmp_path / "bare", "drafter/mine")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match="expected a package or a folder"):
        check_presets(path, ())


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_preset_of_a_built_in_name_is_refused(tmp_path: Path, name: str) -> None:
    check_presets(preset(tmp_path / "good", f"{name}_of_mine"), ())
    path = preset(tmp_path / "bad", name)
    with pytest.raises(PluginError, match=f"{name}.yaml has the name of one that is built in"):
        check_presets(path, ())


def test_a_preset_of_an_earlier_folder_is_not_hidden_by_another(tmp_path: Path) -> None:
    first, second = (preset(tmp_path / name, "drafter/mine") for name in ("first", "second"))
    with pytest.raises(PluginError, match=r"drafter/mine\.yaml has the name of one in"):
        check_presets(second, (first,))


def test_folders_of_plugins_that_hold_no_presets_are_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "without_presets"
    package.mkdir()
    (package / "__init__.py").touch()
    good = preset(tmp_path / "good", "drafter/mine")
    paths = ["pkg://without_presets", "pkg://nowhere.conf", good, preset(tmp_path, "good/a/b")]
    registry = Registry(search_paths=dict.fromkeys(paths[:3], "plugin 'mine' of my-dist"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("outrider.plugins.presets.installed", lambda: registry)
    plugin_folders.cache_clear()
    try:
        assert plugin_folders() == plugin_folders() == (good,)
    finally:
        plugin_folders.cache_clear()
    named = "plugin 'mine' of my-dist: search path"
    assert registry.faults == capsys.readouterr().err.splitlines()
    empty, missing = registry.faults
    assert empty.startswith(f"{named} 'pkg://without_presets' holds none: expected config files")
    assert missing.startswith(f"{named} 'pkg://nowhere.conf': expected a package or a folder")


def test_own_presets_are_read(run: Any, tmp_path: Path) -> None:
    preset(tmp_path / "own", "drafter/mine", "_target_: outrider.drafters.none.NoDraft")
    words = ("target=tabular", "prompt=[0]", "drafter=mine", "max_new_tokens=1", "--quiet")
    assert run("generate", *words, "hydra.searchpath=[file://own]")[0] == 0
    status, printed, complaint = run("generate", *words, "--config-dir=own", "--cfg=job")
    assert (status, complaint) == (0, "") and "outrider.drafters.none.NoDraft" in printed


def test_a_search_path_in_python_is_checked_too(tmp_path: Path) -> None:
    path = preset(tmp_path, "drafter/bigram")
    with pytest.raises(ConfigError, match=r"drafter/bigram\.yaml has the name of one"):
        outrider.compose("generate", [f"hydra.searchpath=[{path}]"])


@pytest.mark.parametrize(
    ("words", "folders"),
    [
        (
            ["--config-dir=/a", "hydra.searchpath=[/b,pkg://c,s3://d]"],
            ["file:///a", "/b", "pkg://c"],
        ),
        (["hydra.searchpath=/b", "hydra.searchpath=[3]"], []),  # Hydra says what is wrong
    ],
)
def test_own_folders_are_those_that_hydra_will_read(words: list[str], folders: list[str]) -> None:
    assert own_folders(words) == folders
