"""The table of a served drafter's counts."""

from rich.console import Console

from outrider.extras.serving.serve_report import Comparison, table
from outrider.extras.serving.vllm_server import Drafted


def test_a_table_of_80_columns_cuts_no_name_and_no_number() -> None:
    console = Console(width=80, record=True)
    counts = Drafted(1236, 11788, 1112, ())
    names = ["prompt_lookup", "suffix of 24 tokens of 8 texts"]
    console.print(table(dict.fromkeys(names, Comparison(counts, counts, [], [], None)), 40, ""))
    text = console.export_text()
    assert "…" not in text
    for word in ("prompt_lookup ", *names[1].split(), " 11788 ", "40 of 40 ", "ties"):
        assert word in text
