"""`outrider serve-check` with a stand-in for vLLM: what it sends, compares and refuses."""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.profile_rules import checked as profiled

from outrider import Context, Drafter, Pen, generate
from outrider.extras.serving.serve_check import ask, differences, lab_counts
from outrider.extras.serving.vllm_server import Drafted
from outrider.lab.measuring.text_differences import Difference
from outrider.plugins.parts import make
from outrider.targets.tabular import TabularTarget

TOKENS = 6


@pytest.fixture
def checked(run: Any, folder: Path, data: Path, vllm: Any, tmp_path: Path) -> Callable[..., Any]:
    """Runs the command against a server that answers as the target would.

    Returns the status, what was printed, and what was found of each drafter.

    changed: what the server adds to one token when it drafts. what: in which texts.
    """
    target = make("target", str(folder))

    def go(*arguments: str, changed: int | None = None, what: str = "drafted", **more: Any) -> Any:
        lines = [json.loads(line) for line in data.read_text().splitlines()]
        prompts = [target.encode_turns([line["turns"][0]], chat=False) for line in lines]
        keys = [json.dumps(ids) for ids in prompts]
        texts = [generate(target, ids, "none", max_new_tokens=TOKENS).tokens for ids in prompts]
        if changed is not None:
            changed_text = [*texts[0][:2], (texts[0][2] + changed) % target.vocab_size]
            more[what] = dict(zip(keys, [changed_text, *texts[1:]], strict=True))
        python = vllm(dict(zip(keys, texts, strict=True)), **more)
        status, out, err = run(
            *("serve-check", "target=transformers", f"target.model={folder}", "data=jsonl"),
            *(f"data.path={data}", "chat=false", f"max_new_tokens={TOKENS}", f"vllm={python}"),
            *("audit=0", f"hydra.run.dir={tmp_path / 'out'}"),
            *arguments,
        )
        report = json.loads((tmp_path / "out" / "serve-check.json").read_text())
        return status, out + err, report["drafters"]

    return go


def test_texts_and_counts_side_by_side(checked: Any, tmp_path: Path) -> None:
    status, printed, drafters = checked("drafters=[prompt_lookup,bigram]", "gamma=2")
    assert status == 0, printed
    assert "3 prompts, 8 clients, gamma 2" in printed and "3 of 3" in printed
    assert list(drafters) == ["prompt_lookup", "bigram"]
    for found in drafters.values():
        assert found["differences"] == []
        assert Drafted(**found["vllm"]) == Drafted(6, 12, 6, [6, 0])  # as the stand-in says
        assert found["lab"]["drafts"] >= found["lab"]["accepted"] / 2
    profile = profiled(tmp_path / "out" / "profiles" / "bigram" / "speculation_profile.json")
    assert (profile["method"], profile["marginal_accept_rates"]) == ("ngram", [1, 0])
    words, drafter = json.loads((tmp_path / "out" / "bigram.log").read_text().splitlines()[0])
    assert json.loads(drafter)["_target_"] == "outrider.drafters.ngram.bigram"
    assert json.loads(words[-3])["num_speculative_tokens"] == 2
    words, drafter = json.loads((tmp_path / "out" / "plain.log").read_text().splitlines()[0])
    assert drafter is None and "--speculative-config" not in words


def test_a_differing_text_fails_the_check(checked: Any) -> None:
    status, printed, drafters = checked("drafters=[bigram]", changed=3)
    assert status == 1 and "2 of 3" in printed
    # One alone and one beside sampled ones.
    assert "2 texts are not those that vLLM writes without drafts" in printed
    (difference,) = drafters["bigram"]["differences"]
    assert (difference["prompt"], difference["place"]) == (0, 2) and difference["gap"] > 1e-3


def test_greedy_texts_are_compared_beside_sampled_ones(checked: Any) -> None:
    beside = {"changed": 3, "what": "beside_sampled"}
    status, printed, drafters = checked("drafters=[bigram]", "clients=1", **beside)
    assert status == 1
    assert "1 texts are not those that vLLM writes without drafts" in printed
    assert drafters["bigram"]["differences"] == []
    assert [found["place"] for found in drafters["bigram"]["beside_sampled"]] == [2]


def test_sampled_texts_are_audited(checked: Any) -> None:
    status, printed, drafters = checked("drafters=[bigram]", "audit=60")
    assert status == 1  # the stand-in writes its greedy texts at every temperature
    assert "bigram: broken: temperature" in printed
    audit = drafters["bigram"]["audit"]
    assert audit["verdict"] == "broken" and audit["requests"] <= 60


def test_figures_of_a_drafter_are_kept_if_the_next_server_fails(checked: Any) -> None:
    failing = {"start": "no memory", "drafter": "bigram"}
    status, printed, drafters = checked("drafters=[prompt_lookup,bigram]", **failing)
    assert status == 1 and "vLLM did not start: no memory" in printed
    assert list(drafters) == ["prompt_lookup"]


class Echoing:
    """Answers with the prompt, but only once all clients are waiting."""

    def __init__(self, clients: int) -> None:
        self.barrier = threading.Barrier(clients, timeout=3600)

    def complete(self, ids: Sequence[int], count: int, temperature: float) -> list[int]:
        self.barrier.wait()
        return [*ids]


def test_clients_ask_at_once_and_answers_keep_their_order() -> None:
    prompts = [[number, 7] for number in range(6)]
    server: Any = Echoing(3)
    assert ask(server, prompts, 3, 1) == prompts


@pytest.fixture
def cycle() -> TabularTarget:
    """A target that counts 0 1 2 3 0 1 2 3; after 3, token 0 is slightly likelier than token 1."""
    probs = torch.full((4, 4), 1e-6).double()
    for token in range(4):
        probs[token, (token + 1) % 4] = 1.0
    probs[3, 1] = 0.9999
    return TabularTarget.of(probs / probs.sum(-1, keepdim=True), 1)


class Sometimes(Drafter):
    """Drafts two tokens if the length of the text is even: the right one, then token 0."""

    def propose(self, context: Context, pen: Pen) -> None:
        if len(context.tokens) % 2 == 0 and pen.open:
            pen.write((context.tokens[-1] + 1) % 4)
            if pen.open:
                pen.write(0)


def test_empty_drafts_do_not_count(cycle: TabularTarget) -> None:
    def counts(prompts: list[list[int]], max_new_tokens: int) -> Drafted:
        options = {"gamma": 2, "max_new_tokens": max_new_tokens}
        return lab_counts(cycle, Sometimes(), prompts, **options)

    # [0 1] drafts 2 0: 2 is right, the target says 3. [0 1 2 3] drafts 0 0: 0 is right, then 1.
    # That leaves room for one token, and so for no draft.
    assert counts([[0, 1]], 5) == Drafted(2, 4, 2)
    assert counts([[0, 1], [0, 1]], 5) == Drafted(4, 8, 4)
    # The length is odd at first, so the first draft is empty.
    assert counts([[1]], 1) == Drafted()


def test_where_texts_differ(cycle: TabularTarget) -> None:
    right = [[1, 2, 3, 0], [1, 2, 3, 0], [1, 2], [1, 2, 3, 0]]
    texts = [[1, 2, 3, 0], [1, 2, 3, 1], [1, 2, 3], [1, 3, 3, 0]]
    tie, longer, far = differences(texts, right, [[0]] * 4, cycle)
    assert (tie.prompt, tie.place, tie.is_tie) == (1, 3, True)
    assert longer == Difference(2, 2, None) and not longer.is_tie
    assert (far.prompt, far.place, far.is_tie) == (3, 1, False)
    assert far.gap == pytest.approx(torch.tensor(1e6).log().item(), rel=1e-6)
