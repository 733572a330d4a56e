"""An encoder-decoder's passes: exact after any history, the source read once."""

from typing import Any

import pytest
from tiny.drafters import bound
from tiny.models import ENTRIES, build

from outrider import ConfigError, Sampling, decode
from outrider.drafters.ngram import NGram
from outrider.plugins.parts import make
from outrider.targets.transformers import TransformersTarget
from outrider.testing import Setup, loop_distribution, target_distribution
from outrider.verifiers.token import Token

SOURCE = [5, 6, 7, 8, 9, 5, 6, 4, 3, 1]


@pytest.fixture(params=["t5", "mt5", "umt5", "bart (seq2seq)"])
def model(request: pytest.FixtureRequest) -> Any:
    return build(ENTRIES[request.param])


def test_the_encoder_reads_the_source_once(model: Any, scripted: Any) -> None:
    calls: list[int] = []
    model.get_encoder().register_forward_hook(lambda *_: calls.append(1))
    target = TransformersTarget(model)
    calls.clear()  # of its self-test
    rounds = list(decode(target, scripted([3] * 30), Token(), SOURCE, max_new_tokens=20))
    assert len(rounds) > 2
    assert calls == [1]


def test_trees_are_refused_with_the_reason_if_no_mask_can_tell_positions(model: Any) -> None:
    target = TransformersTarget(model)
    tree = NGram(tree="2x2")
    if target.trees:
        assert model.config.model_type in ("t5", "mt5")
        list(decode(target, tree, make("verifier", "traversal"), SOURCE, budget=6))
        return
    name = type(model).__name__
    with pytest.raises(ConfigError, match=f"NGram writes trees: {name} takes only chains, since"):
        decode(target, tree, make("verifier", "traversal"), SOURCE)


@pytest.mark.parametrize("drafter", ["bigram", "prompt_lookup"])
def test_the_distribution_of_the_text_is_the_targets(t5: Any, drafter: str) -> None:
    """Every branch of three tokens at temperature 1; what is left is T5's rounding to float32."""
    target = TransformersTarget(
        t5(vocab_size=3, eos_token_id=None, initializer_factor=1.0).double()
    )
    sampling, source = Sampling(temperature=1.0), [2, 0, 2, 1]
    part = bound(make("drafter", drafter), target)
    setup = Setup(target, part, Token(), source, gamma=2, sampling=sampling)
    probs = loop_distribution(setup, 3)
    exact = target_distribution(target, source, 3, sampling, Token())
    assert len(exact) == 27
    assert max(abs(probs.get(text, 0.0) - p) for text, p in exact.items()) < 1e-6
    assert sum(probs.values()) == pytest.approx(1.0, abs=1e-9)


def test_a_text_stops_at_the_decoders_last_position(model: Any) -> None:
    target = TransformersTarget(model)
    target.eos = frozenset()
    rounds = list(decode(target, make("drafter", "random"), Token(), SOURCE, max_new_tokens=80))
    start = len(target.begin(SOURCE)[0])
    longest = target.max_length or 80 + start
    assert sum(len(round.tokens) for round in rounds) == longest - start
    assert rounds[-1].stop == ("max_length" if target.max_length else "max_new_tokens")


def test_a_source_may_fill_the_encoder_and_no_more() -> None:
    target = TransformersTarget(build(ENTRIES["bart (seq2seq)"]))
    assert len(target.encode([5] * 64)) == 64
    list(decode(target, make("drafter", "none"), Token(), [5] * 64, max_new_tokens=2))
    with pytest.raises(ConfigError, match="65 tokens: expected no more than the context window of"):
        target.encode([5] * 65)


def test_an_encoder_decoders_offers_and_fingerprint(t5: Any, words: Any) -> None:
    target = TransformersTarget(t5(), words)
    assert target.offers == {"source", "tokenizer"}
    assert (target.eos, target.vocab_size, target.max_length) == ({1}, 31, None)
    for name in ("medusa", "swift", "small_lm"):
        with pytest.raises(ConfigError, match="the target offers source, tokenizer"):
            decode(target, make("drafter", name), Token(), SOURCE)
    other = t5(decoder_start_token_id=3)
    assert TransformersTarget(other).fingerprint() != target.fingerprint()
