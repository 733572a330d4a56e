"""The table of a served drafter's counts, and what they say of its acceptance."""

import pytest
from rich.console import Console

from outrider.extras.serving.serve_report import Comparison, acceptance_of, table
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


COUNTS = Drafted(drafts=10, drafted=30, accepted=12, by_position=(7, 4, 1))


def test_counters_by_position_are_rates_and_lengths() -> None:
    found = acceptance_of(COUNTS, gamma=4)
    assert found.acceptance_length_histogram == {1: 3, 2: 3, 3: 3, 4: 1}
    assert found.mean_acceptance_length.value == pytest.approx(1 + 12 / 10)
    assert found.marginal_accept_rates == (0.7, 0.4, 0.1, 0)
    assert found.conditional_accept_rates == pytest.approx((7 / 10, 4 / 7, 1 / 4, 0))
    assert found.mean_acceptance_length_per_request is None
    assert acceptance_of(Drafted(10, 30, 12), gamma=4) is None
