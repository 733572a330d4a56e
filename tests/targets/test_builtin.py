"""The built-in targets, and the policy of the contract, have the names that the docs give."""

from outrider.plugins.registry import installed


def test_names() -> None:
    assert {"gemma3", "smollm2", "tabular", "transformers"} <= set(installed().of("target"))
    assert "fixed" in installed().of("policy")
