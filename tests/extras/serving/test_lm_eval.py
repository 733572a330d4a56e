"""lm-evaluation-harness gets the target's log-likelihoods, and texts by any drafter and rule."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import harness

from outrider.targets.transformers import TransformersTarget

harness.stand_in()
from outrider.extras.serving.lm_eval import OutriderLM


def asked(*arguments: tuple[Any, ...]) -> list[Any]:
    return [SimpleNamespace(args=each) for each in arguments]


@pytest.fixture(scope="module")
def target(llama: Any, words: Any) -> TransformersTarget:
    return TransformersTarget(llama(), words)


def by_hand(model: Any, words: Any, context: str, continuation: str) -> tuple[float, bool]:
    before = words(context)["input_ids"] if context else [words.eos_token_id]
    ids = [*before, *words(continuation)["input_ids"]]
    with torch.no_grad():
        rows = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    places = range(len(before) - 1, len(ids) - 1)
    chosen = [float(rows[place, ids[place + 1]]) for place in places]
    return sum(chosen), all(int(rows[place].argmax()) == ids[place + 1] for place in places)


def test_log_likelihoods_are_the_models_own(target: Any, words: Any) -> None:
    pairs = [("the cat", " sat on"), ("the cat ", "sat"), ("", "a dog ran"), ("one", " two three")]
    likeliest = int(target.model(torch.tensor([words("red")["input_ids"]])).logits[0, -1].argmax())
    pairs.append(("red", " " + words.decode([likeliest])))
    for lossy in ("token", "lenient"):
        lm = OutriderLM(target, "prompt_lookup", lossy)
        answers = lm.loglikelihood(asked(*pairs))
        for (context, continuation), (found, greedy) in zip(pairs, answers, strict=True):
            expected = by_hand(target.model, words, context, continuation)
            assert found == pytest.approx(expected[0], abs=1e-5)
            assert greedy == expected[1]
    assert answers[-1][1]


def test_a_long_text_is_read_in_windows(llama: Any, words: Any) -> None:
    model = llama(max_position_embeddings=6)
    text = "the cat sat on the mat and the dog ran . one two three"
    ids = words(text)["input_ids"]
    expected = 0.0
    for place, token in enumerate(ids):  # as many tokens before it as fit into its window
        end = min(len(ids), (place // 6 + 1) * 6)
        seen = [words.eos_token_id, *ids][max(0, end - 6) : place + 1]
        with torch.no_grad():
            expected += float(model(torch.tensor([seen])).logits[0, -1].log_softmax(-1)[token])
    lm = OutriderLM(TransformersTarget(model, words))
    assert lm.loglikelihood_rolling(asked((text,))) == [pytest.approx(expected, abs=1e-4)]


def test_a_context_that_is_too_long_loses_its_beginning(llama: Any, words: Any) -> None:
    target = TransformersTarget(llama(max_position_embeddings=6), words)
    lm = OutriderLM(target)
    long, short = ("one two the cat sat on the", " mat ."), ("sat on the", " mat .")
    kept = ("cat sat on the", " mat .")  # six tokens: the last is not read
    found = lm.loglikelihood(asked(long, (f"the {kept[0]}", kept[1]), short))
    assert found[0] == found[1] != found[2]


def test_answers_are_those_of_generate(target: Any, words: Any) -> None:
    contexts = ("the cat sat on", "red blue red blue red", "one two")
    settings = {"until": ["."], "max_gen_toks": 12, "do_sample": False}
    own = []
    for context in contexts:
        inputs = words(context, return_tensors="pt", return_token_type_ids=False)
        ids = target.model.generate(**inputs, max_new_tokens=12)[0, inputs["input_ids"].shape[1] :]
        own.append(words.decode(ids, skip_special_tokens=True).split(".")[0])
    for size in (1, 2):
        lm = OutriderLM(target, "prompt_lookup", batch_size=size)
        assert lm.generate_until(asked(*((context, settings) for context in contexts))) == own


def test_answers_that_are_sampled_differ_and_repeat(target: Any) -> None:
    settings = {"until": [], "max_gen_toks": 12, "temperature": 1.0}
    requests = asked(*[("the cat", settings)] * 3, ("the cat", settings | {"top_k": 20}))
    first, again = (OutriderLM(target, seed=5).generate_until(requests) for _ in range(2))
    assert first == again
    assert len(set(first)) == 4


def test_a_conversation_is_written_in_the_tokenizers_template(target: Any, words: Any) -> None:
    lm = OutriderLM(target)
    assert lm.chat_template(True) == ""
    words.chat_template = "{% for m in messages %}{{ m.role }} : {{ m.content }} . {% endfor %}"
    try:
        chat = lm.apply_chat_template([{"role": "user", "content": "yes"}])
        assert (chat, lm.chat_template(True)) == ("user : yes . ", words.chat_template)
    finally:
        words.chat_template = None


def test_known_settings_are_handed_to_the_harness(target: Any) -> None:
    lm = OutriderLM(target)
    noted: dict[str, Any] = {}
    lm.cache_hook = SimpleNamespace(
        add_partial=lambda kind, _, answer: noted.update({kind: answer})
    )
    lm.loglikelihood(asked(("the", " cat")))
    lm.loglikelihood_rolling(asked(("the cat",)))
    lm.generate_until(asked(("the", {"max_gen_toks": 2})))
    assert set(noted) == {"loglikelihood", "loglikelihood_rolling", "generate_until"}
    assert math.isfinite(noted["loglikelihood_rolling"])
