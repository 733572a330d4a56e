"""`outrider audit` over HTTP: an OpenAI-compatible server with drafts, and one without."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tiny.fake_server import Answer, Asked, served
from tiny.faulty_engine import LETTERS, FaultyEngine

from outrider.contract.sampling import Sampling
from outrider.extras.audit.client import Choice, Request
from outrider.extras.audit.tasks import FOLDER
from outrider.targets.tabular import TabularTarget


def answer(engine: FaultyEngine, body: dict[str, Any]) -> dict[str, Any]:
    messages = body.get("messages")
    prompt = body["prompt"] if messages is None else messages[0]["content"]
    request = Request(
        prompt=(len(prompt) % 8,),
        max_tokens=body["max_tokens"],
        sampling=Sampling(body["temperature"], max(0, body["top_k"]), body["top_p"]),
        seed=body.get("seed"),
        n=body["n"],
        stop=tuple(stop for stop in body.get("stop", ()) if stop in LETTERS),
        penalties={key: body[key] for key in body if key.endswith("penalty")},
    )
    (choices,) = engine.ask([request])
    return {"choices": [written(choice, chat=messages is not None) for choice in choices]}


def written(choice: Choice, chat: bool) -> dict[str, Any]:
    tops = [[listed(*pair) for pair in top.items()] for top in choice.likeliest]
    rows = zip(choice.tokens, choice.logprobs or (), tops, strict=True)
    content = [listed(token, own) | {"top_logprobs": top} for token, own, top in rows]
    text = {"message": {"content": choice.text}} if chat else {"text": choice.text}
    return text | {"logprobs": {"content": content}}


def listed(token: Any, logprob: float) -> dict[str, Any]:
    return {"token": LETTERS[token], "logprob": logprob}


def letters(fault: str | None) -> Callable[[Asked], Answer]:
    """Returns what a server of letters answers, one request at a time."""
    engine, lock = FaultyEngine(TabularTarget(8, order=2, seed=3), fault), threading.Lock()

    def answer_to(asked: Asked) -> Answer:
        with lock:
            return Answer(answer(engine, asked.body) if asked.body else {"data": [{"id": "table"}]})

    return answer_to


@pytest.fixture
def audited(run: Any, data: Path, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    with ExitStack() as stack:

        def go(fault: str | None, *arguments: str, drafts: bool = True) -> Any:
            url = stack.enter_context(served(letters(fault)))
            more = [] if drafts else [f"baseline={stack.enter_context(served(letters(None)))}/v1"]
            words = ("data=jsonl", f"data.path={data}", f"hydra.run.dir={tmp_path / 'out'}")
            status, out, err = run("audit", url, *words, *more, *arguments)
            path = tmp_path / "out" / "audit.json"
            return status, out + err, json.loads(path.read_text()) if path.is_file() else None

        yield go


def test_a_broken_server_is_told_in_a_line(audited: Any, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    logger = f"reports=[{{report: json_lines, path: {log}}}]"
    status, printed, facts = audited("residual of the wrong side", logger, drafts=False)
    assert status == 1
    begun, ended = map(json.loads, log.read_text().splitlines())
    assert begun["settings"]["max_new_tokens"] == "24"
    assert ended["step"] == facts["requests"] and ended["figures"]["broken"] == 1
    assert "broken: greedy, alone: token" in printed
    assert facts["verdict"] == "broken"
    assert "greedy, alone" in (tmp_path / "out" / "audit.html").read_text()


@pytest.mark.parametrize("chat", ["true", "false"])
def test_a_server_is_held_against_its_own_log_probabilities(audited: Any, chat: str) -> None:
    status, printed, facts = audited(None, f"chat={chat}", "requests=60")
    assert status == 0, printed
    assert facts["verdict"] in {"kept", "too few texts"}
    assert facts["requests"] <= 60
    assert "temperature 1, alone" in {finding["name"] for finding in facts["findings"]}


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("logprobs=0", "logprobs=0: expected some, or a baseline or a target"),
        ("url=http://me:word@127.0.0.1:1", "http://me:[hidden]@127.0.0.1:1/v1/models"),
    ],
)
def test_settings_that_do_not_fit_are_told(audited: Any, setting: str, complaint: str) -> None:
    status, printed, facts = audited(None, setting)
    assert status != 0
    assert complaint in printed
    assert facts is None


TABLE = TabularTarget(8, order=2, seed=3)
BEST, NEXT, *_, WORST = TABLE.logits([1, 2]).argsort(descending=True).tolist()
GAP = float(TABLE.logits([1, 2])[BEST] - TABLE.logits([1, 2])[NEXT])
TARGET = ["target=tabular", "target.vocab_size=8", "target.order=2", "target.seed=3"]


@pytest.mark.parametrize(
    ("others", "more", "line"),
    [
        ([BEST], TARGET, "differences: none"),
        ([NEXT], [*TARGET, f"tie={GAP + 0.01}"], "differences: 1 tie"),
        ([WORST], TARGET, "differences: 1 fault"),
        ([], TARGET, "differences: 1 not judged"),
        ([WORST], [], "differences: 1 not judged"),
    ],
)
def test_two_files_of_texts_are_compared_token_by_token(
    run: Any, tmp_path: Path, others: list[int], more: list[str], line: str
) -> None:
    for name, tokens in (("a", [BEST]), ("b", others)):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"prompt": [1, 2], "tokens": tokens}))
    files = [str(tmp_path / f"{name}.jsonl") for name in "ab"]
    ended, out, err = run("audit", "texts", *files, *more, f"hydra.run.dir={tmp_path}/out")
    assert ended == ("fault" in line) and line in out + err, out + err
    assert len(json.loads((tmp_path / "out" / "audit.json").read_text())) == (others != [BEST])


def test_a_file_of_texts_without_texts_is_refused(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"prompt": "a"}')
    status, _, err = run("audit", "texts", str(file), str(file), f"hydra.run.dir={tmp_path}/out")
    assert status == 1 and "a.jsonl, line 1: expected a text or the ids of its tokens" in err


def pupil(right: bool) -> Callable[[Asked], Answer]:
    """Returns what a server answers to the questions of the task "math", right or wrong."""
    lines = (FOLDER / "math.jsonl").read_text().splitlines()
    answers = {it["question"]: it["answer"] for it in map(json.loads, lines)}

    def answer_to(asked: Asked) -> Answer:
        if asked.body is None:
            return Answer({"data": [{"id": "pupil"}]})
        text = str(answers[asked.body["messages"][0]["content"]] if right else -1)
        return Answer({"choices": [{"message": {"content": text}}]})

    return answer_to


@pytest.mark.parametrize(
    ("right", "line"),
    [(True, "math: kept: 100.0% with drafts"), (False, "math: changed: 0.0% with drafts, 100.0%")],
)
def test_a_task_is_audited_over_http(run: Any, tmp_path: Path, right: bool, line: str) -> None:
    with served(pupil(right)) as mine, served(pupil(True)) as theirs:
        arguments = ["task=math", "requests=24", f"hydra.run.dir={tmp_path}/out"]
        status, out, err = run("audit", mine, f"baseline={theirs}", *arguments)
        assert status == (not right) and line in out + err, out + err
        status, _, err = run("audit", mine, *arguments)
        assert status == 1 and "baseline=None: expected the engine without drafts" in err
    facts = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert facts["verdict"] == ("kept" if right else "changed")


@pytest.mark.parametrize("task", [False, True])
def test_an_interrupted_audit_continues(run: Any, data: Path, tmp_path: Path, task: bool) -> None:
    answered: list[Answer] = []
    server, most = pupil(True) if task else letters(None), [30]

    def answer_to(asked: Asked) -> Answer:
        if asked.body is not None and len(answered) >= most[0]:
            return Answer("gone", 400)
        answer = server(asked)
        answered.extend([answer] * (asked.body is not None))
        return answer

    with served(answer_to) as url:
        kind = [f"baseline={url}/", "task=math"] if task else ["data=jsonl", f"data.path={data}"]
        command = ["audit", url, *kind, "requests=40", f"hydra.run.dir={tmp_path}/out"]
        status, _, err = run(*command)
        assert status == 1 and "keeps the answers: the same command with hydra.run.dir=" in err
        most[0] = 1000
        for runs in (1, 2):  # the second begins anew
            assert run(*command)[0] == 0
            facts = json.loads((tmp_path / "out" / "audit.json").read_text())
            assert len(answered) == runs * facts["requests"] * (1 + task)
