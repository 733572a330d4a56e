"""The reports of a run: all that are installed, or those that a setting names."""

import sys
from pathlib import Path
from typing import Any

import pytest


def test_no_report_is_told_of_a_run_where_none_is_wanted(compared: Any, tmp_path: Path) -> None:
    printed, report = compared("protocol=overlap", "turns=1", "reports=[]")
    assert report["rows"]
    assert not list((tmp_path / "out").glob("*.html")) + list((tmp_path / "out").glob("*.parquet"))
    assert "report.html" not in printed


def test_a_report_without_its_dependency_names_the_installation(
    compared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]
    for name in ("matplotlib", *loaded):
        monkeypatch.setitem(sys.modules, name, None)
    printed, _ = compared("protocol=overlap", "turns=1")
    assert "report=page needs matplotlib: pip install 'outrider[view]'" in printed
    assert (tmp_path / "out" / "comparison.parquet").is_file()
