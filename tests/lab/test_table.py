"""The table fits a terminal and says when a rule is lossy."""

from dataclasses import replace

from rich.console import Console

from outrider.lab.compare import Row
from outrider.lab.table import table

ROW = Row(
    drafter="prompt_lookup",
    alpha=0.6534,
    coverage=0.831,
    alpha_tested=None,
    acceptance_rate=0.4759,
    block_efficiency=2.2501,
    tokens_per_second=130.44,
    speedup=1.957,
    counts={},
    seconds={},
    lossless=True,
)


def printed(*rows: Row) -> str:
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table(rows, "3 prompts"))
    text = console.export_text()
    console.file.close()
    return text


def test_it_fits_eighty_columns() -> None:
    text = printed(ROW)
    for cell in ("prompt_lookup", "0.653", "0.83", "-", "0.476", "2.25", "130.4", "1.96"):
        assert cell in text.split()
    assert "…" not in text
    assert "LOSSY" not in text


def test_a_lossy_rule_is_named() -> None:
    assert "LOSSY" in printed(replace(ROW, lossless=False))
