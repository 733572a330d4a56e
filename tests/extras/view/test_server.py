"""The server shows the runs of a folder to whoever has its token, and changes nothing."""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pyarrow.parquet
import pytest
from playwright.sync_api import Page, expect
from tiny.browsing import Opener, assert_fits_and_is_accessible, cookie

from outrider.extras.view.page import listing
from outrider.extras.view.page.listing import listed, run_folders
from outrider.extras.view.server import HEADERS, app
from outrider.lab.runs.files import LINES
from outrider.lab.runs.frames import write_json
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary

pytestmark = pytest.mark.usefixtures("drawn_once")


class Served(NamedTuple):
    """Where the pages are, and the folder that they show."""

    address: str
    folder: Path

    def id_of(self, name: str) -> str:
        (key,) = (key for key, run in run_folders([self.folder]).items() if run.name == name)
        return key

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        headers = {"Cookie": cookie(self.address)} | headers
        try:
            with urlopen(Request(self.address + path, headers=headers), timeout=3600) as answer:
                status, content = answer.status, answer.read()
            return self.get(path, **headers) if status == 202 else (status, content)
        except HTTPError as error:
            with error:
                return error.code, error.read()


@pytest.fixture(scope="module")
def served(
    whole_run: Run, serve: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Served:
    folder = tmp_path_factory.mktemp("served")
    for name in ("whole", "going", "damaged"):
        shutil.copytree(whole_run.folder, folder / name)
    write_json(Summary(whole_run), folder / "whole")
    cut(folder / "going", 22)
    (folder / "damaged" / "run.json").write_text("[]")
    return Served(serve(app([folder], "secret")), folder)


def cut(folder: Path, lines: int) -> list[str]:
    """Shortens the measurements of a run to so many lines, and returns the others."""
    path = folder / LINES
    content = path.read_text().splitlines(keepends=True)
    path.write_text("".join(content[:lines]))
    return content[lines:]


@pytest.fixture
def opened(opener: Opener, served: Served) -> Callable[..., Page]:
    opener.enter(served.address)
    return lambda path="": opener(served.address + path)


@pytest.mark.parametrize("headers", [{"Cookie": ""}, {"Cookie": "outrider-{port}=wrong"}])
def test_without_the_token_everything_is_refused(served: Served, headers: dict[str, str]) -> None:
    port = str(urlsplit(served.address).port)
    headers = {name: value.format(port=port) for name, value in headers.items()}
    for path in ("", "?token=wrong", "state", f"runs?run={served.id_of('whole')}"):
        status, content = served.get(path, **headers)
        assert status == 403, path
        assert b"whole" not in content
    assert served.get("")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},  # another port of this machine
    ],
)
def test_a_page_of_elsewhere_gets_no_answer(served: Served, headers: dict[str, str]) -> None:
    assert served.get("state", **headers)[0] == 403


def test_another_host_name_is_refused(served: Served) -> None:
    assert served.get("", Host="evil.example")[0] == 400


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("runs", 404),
        ("runs?run=unknown", 404),
        ("files/unknown/run.json", 404),
        ("files/../../etc/passwd", 404),
        ("files/{whole}/run.lock", 404),
        ("files/{whole}/..%2f..%2frun.json", 404),
    ],
)
def test_only_runs_are_shown(served: Served, path: str, status: int) -> None:
    assert served.get(path.format(whole=served.id_of("whole")))[0] == status


def test_every_answer_has_its_headers(served: Served) -> None:
    """Refusals and errors, too."""
    for path in ("", "runs", "nowhere", "?token=no", f"runs?run={served.id_of('damaged')}"):
        asked = Request(served.address + path, headers={"Cookie": cookie(served.address)})
        try:
            answer: Any = urlopen(asked, timeout=3600)
        except HTTPError as error:
            answer = error
        with answer:
            assert all(name in answer.headers for name in HEADERS), path
            assert "script-src 'sha256-" in answer.headers["Content-Security-Policy"]


def test_a_link_that_leaves_the_run_is_not_served(
    whole_run: Run, serve: Callable[..., str], tmp_path: Path
) -> None:
    shutil.copytree(whole_run.folder, tmp_path / "runs" / "run")
    (tmp_path / "secret").write_text("secret content")
    (tmp_path / "runs" / "run" / LINES).unlink()
    (tmp_path / "runs" / "run" / LINES).symlink_to(tmp_path / "secret")
    served = Served(serve(app([tmp_path / "runs"], "secret")), tmp_path / "runs")
    for path in (f"files/{served.id_of('run')}/{LINES}", f"runs?run={served.id_of('run')}", ""):
        assert b"secret content" not in served.get(path)[1]
    assert b"expected a file in this folder" in served.get("")[1]


def test_a_page_in_the_folder_of_a_run_is_not_shown(
    whole_run: Run, serve: Callable[..., str], tmp_path: Path
) -> None:
    run = shutil.copytree(whole_run.folder, tmp_path / "runs" / "run")
    (run / "report.html").write_text('<meta http-equiv="refresh" content="0; url=/play/stream">')
    served = Served(serve(app([tmp_path / "runs"], "secret")), tmp_path / "runs")
    status, content = served.get(f"runs?run={served.id_of('run')}")
    assert status == 200 and b"play/stream" not in content


def test_the_list_is_filtered_and_leads_to_the_runs(opened: Callable[..., Page]) -> None:
    page = opened()
    page.locator("#filter").fill("whole bigram")
    rows = page.locator("#runs tbody tr:visible")
    assert rows.count() == 1 and "finished" in rows.inner_text()
    rows.locator("a").click()
    expect(page.locator("#rates tbody tr")).to_have_count(3)
    page.locator("figure svg").nth(9).wait_for()
    page.get_by_role("link", name="Texts of all prompts").click()
    expect(page.locator(".question")).to_have_count(5)
    page.get_by_role("link", name="The run").click()
    expect(page.locator("#rates tbody tr")).to_have_count(3)
    page.get_by_role("link", name="All runs").click()
    expect(page.locator("#runs input")).to_have_count(2)
    assert page.get_by_role("button", name="Choose runs to compare").is_disabled()
    for box in page.locator("#runs input").all():
        box.check()
    page.get_by_role("button", name="Compare 2 runs").click()
    expect(page.locator("#rates tbody tr")).to_have_count(6)


def test_texts_are_shown_a_few_at_a_time(
    opened: Callable[..., Page], served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.extras.view.server.TEXTS", 2)
    page = opened(f"texts?run={served.id_of('whole')}")
    first = page.locator(".question h3").all_inner_texts()
    assert "texts 1 to 2 of 5" in page.inner_text("main")
    page.get_by_role("link", name="Next").first.click()
    second = page.locator(".question h3").all_inner_texts()
    assert len(set(first + second)) == 4
    page.get_by_role("link", name="Before").first.click()
    assert page.locator(".question h3").all_inner_texts() == first


def test_the_list_names_a_drafter_that_failed(
    whole_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole_run.folder, folder)
    kept = tuple(m for m in whole_run.measurements if m.drafter != "lookup")
    failed = {"lookup": "prompt a: drafter X raised KeyError"}
    write_json(Summary(replace(whole_run, measurements=kept, failed=failed)), folder)
    monkeypatch.setattr(listing, "ACTIVE_SECONDS", 3600)
    assert listed("x", folder).state == "running, 100%"  # it was written to just now
    monkeypatch.setattr(listing, "ACTIVE_SECONDS", 0)
    line = listed("x", folder)
    assert (line.state, line.first) == ("lookup failed", "bigram")


def test_the_jobs_of_a_sweep_are_one_line_of_the_list(
    opener: Opener, whole_run: Run, serve: Callable[..., str], tmp_path: Path
) -> None:
    for number in "012":
        shutil.copytree(whole_run.folder, tmp_path / "sweep" / number)
    (tmp_path / "sweep" / "multirun.yaml").touch()
    shutil.copytree(whole_run.folder, tmp_path / "alone")
    page = opener.enter(serve(app([tmp_path], "secret")))
    assert "4 runs" in page.inner_text("main")
    lines = page.locator("#runs tbody tr")
    expect(lines).to_have_count(2)
    line = lines.filter(has_text="3 of 3 finished")
    line.locator("summary").click()
    assert line.locator("details a").count() == 3
    assert line.locator("details a").first.inner_text() == "0: gamma 3, temperature 0.0"
    line.locator("a").first.click()
    expect(page.locator("#rates tbody tr")).to_have_count(9)


def test_files_are_made_of_unfinished_runs_too(served: Served) -> None:
    for name in ("whole", "going"):
        files = f"files/{served.id_of(name)}/"
        status, content = served.get(files + "comparison.json")
        assert status == 200
        assert json.loads(content)["finished"] == (name == "whole")
        _, content = served.get(files + "rounds.parquet")
        table = pyarrow.parquet.read_table(io.BytesIO(content))
        assert set(table["drafter"].to_pylist()) >= {"bigram"}
        assert served.get(files + LINES)[1] == (served.folder / name / LINES).read_bytes()


def test_the_page_follows_a_run(opened: Callable[..., Page], served: Served) -> None:
    folder = served.folder / "going"
    whole = (served.folder / "whole" / LINES).read_text()
    page = opened(f"runs?run={served.id_of('going')}")
    assert "1 of 4 prompts" in page.locator(".banner").inner_text()
    page.locator("#meanings summary").click()
    (folder / LINES).write_text(whole)
    page.locator(".banner").wait_for(state="detached")
    assert page.locator("figure svg").count() >= 10
    assert page.locator("#meanings").get_attribute("open") is not None
    cut(folder, 22)


@pytest.mark.parametrize("path", ["", "texts?run={whole}"])
def test_axe_finds_nothing_serious(opened: Callable[..., Page], served: Served, path: str) -> None:
    assert_fits_and_is_accessible(opened(path.format(whole=served.id_of("whole"))))
