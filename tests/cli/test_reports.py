"""The reports of a run: all that are installed, or those that a setting names."""

from pathlib import Path
from typing import Any


def test_no_report_is_told_of_a_run_where_none_is_wanted(compared: Any, tmp_path: Path) -> None:
    printed, report = compared("protocol=overlap", "turns=1", "reports=[]")
    assert report["rows"]
    assert not list((tmp_path / "out").glob("*.html")) + list((tmp_path / "out").glob("*.parquet"))
    assert "report.html" not in printed


def test_a_report_that_lacks_a_library_is_told_before_the_run(
    compared: Any, absent: Any, tmp_path: Path
) -> None:
    absent("matplotlib", "uvicorn")
    printed, _ = compared("protocol=overlap", "turns=1")
    line = "reports=[page] needs matplotlib, uvicorn: pip install 'outrider[view]'; afterwards"
    made = f"{line} `outrider report {tmp_path / 'out'}` makes it"
    assert made in printed
    printed, _ = compared("reports=[page]", status=1)
    assert "outrider: reports=[page] needs matplotlib, uvicorn: pip" in printed
