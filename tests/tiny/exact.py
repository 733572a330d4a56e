"""The texts of decoding have the target's distribution."""

from outrider.testing import Setup, loop_distribution, output_distribution, target_distribution


def assert_exact(setup: Setup, length: int) -> None:
    """Asserts that texts of a length are as likely as the target says, over every branch."""
    rule = setup.verifier
    exact = target_distribution(setup.target, setup.prompt, length, setup.sampling, rule)
    whole_round = length == setup.gamma + 1
    probs = output_distribution(setup) if whole_round else loop_distribution(setup, length)
    assert probs.keys() <= exact.keys()
    assert max(abs(probs.get(text, 0.0) - p) for text, p in exact.items()) < 1e-12
