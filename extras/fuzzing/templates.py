"""Random chat templates, broken ones too, on a tokenizer that keeps every character."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from outrider.extras.fuzzing.tokenizers import tokenizer_of
from outrider.targets.tabular import TabularTarget

FRAGMENTS = (
    *("{% for m in messages %}", "{% endfor %}", "{{ m.role }}", "{{ m['content'] }}"),
    *("{{ messages[0].content }}", "{{ messages[-1].content | trim }}"),
    *("{{ messages[9].content }}", "{% for p in m.content %}", "{{ p.text }}"),
    *("{{ m.content[0].text }}", "{{ m.content.text }}"),
    *("{{ raise_exception('Conversation roles must alternate') }}", "{{ 1 / 0 }}", "{{ nothing }}"),
    *("{{ nothing.at_all }}", "{% if add_generation_prompt %}", "{% endif %}", "{{ bos_token }}"),
    *("{% set x = 1 %}", "{{ x | tojson }}", "{{ tools }}", "{% break %}", "{% nonsense %}", "{{"),
    *("<|user|>", "\n", "{# note #}", "{{ m | items }}", "{{ strftime_now('%d') }}", "{{ 'é' }}"),
)
"""Pieces of templates as models have them, and as people break them."""

WHOLE = "{% for m in messages %}<|user|>{{ m.content }}{% endfor %}"
PARTS = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
TURNS = (["the end"], ["a", "yes", "and then?"], ["{{ m }}"], [" spaces "], ["日本"])


def run_template(template: Any, turns: Sequence[str]) -> None:
    """Encodes a conversation, whose last turn then has to be in the ids."""
    tokenizer = tokenizer_of("gemma", ("a",), cleans_up=False)
    target = TabularTarget(len(tokenizer), order=0)
    before = tokenizer.chat_template
    tokenizer.chat_template = template
    target.tokenizer = tokenizer
    try:
        ids = target.encode_turns(turns, chat=True)
    finally:
        tokenizer.chat_template = before
    assert ids and all(0 <= token < target.vocab_size for token in ids), f"the ids are {ids}"
    text = tokenizer.decode(ids, skip_special_tokens=False)
    assert "".join(turns[-1].split()) in "".join(text.split()), f"the prompt is lost: {text!r}"


def templates() -> st.SearchStrategy[dict[str, Any]]:
    """Returns the strategy for what `run_template` takes."""
    texts = st.lists(st.sampled_from((*FRAGMENTS, WHOLE, PARTS)), max_size=6).map("".join)
    named = st.dictionaries(st.sampled_from(("default", "rag", "tool_use")), texts, max_size=2)
    turns = st.sampled_from(TURNS)
    return st.fixed_dictionaries({"template": texts | texts | named, "turns": turns})
