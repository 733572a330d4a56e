"""The docs show what runs: files are quoted whole, code blocks and commands are executed."""

import json
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from tiny import packages
from tiny.packages import site_of
from torch.distributed.run import parse_args

import outrider
from outrider.cli.arguments import quoted_override
from outrider.contract.draft import KINDS
from outrider.plugins.config import build, compose
from outrider.plugins.registry import installed
from outrider.testing import run_checks

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
QUICK = {
    "generate": ["max_new_tokens=4"],
    "compare": ["max_new_tokens=2", "data.limit=1"],
    "demo": ["max_new_tokens=2", "data.limit=1"],
    "bench": [
        *("max_new_tokens=4", "repeats=1", "batches=[1]"),
        "peers.transformers=false",
    ],  # beside it in tests/commands/test_bench.py
    "train": ["max_new_tokens=8"],
    "advise": ["max_new_tokens=12", "data.limit=4", "gamma=1"],
    "recipe=classifier": ["data.limit=3"],
    "hydra.launcher.n_jobs=2": ["data.limit=2"],  # a prompt for each job
    "recipe.texts=64": ["recipe.texts=2", "recipe.held_out=1"],
    # More of their jobs run in tests/cli/commands/test_experiments.py.
    "+experiment=lenience": ["verifier.lenience=0.3"],
    "+experiment=table2": ["gamma=5"],
    "drafter.layers=26": ["drafter.layers=3"],
    "texts.py": ["--count", "1", "--tokens", "12"],
    "sweep.py": ["--only", "gpt2", "--modes", "chain"],
}
"""Settings that keep a documented command short; they come last, so they win."""
MADE = re.compile(r"\bedits/|experiment=table2")
"""What `make edits` is needed for."""


def blocks(page: Path, language: str) -> list[str]:
    """Returns the fenced blocks of a page that quote no file."""
    pattern = rf"(?<!-->\n)^```{language}\n(.*?)^```"
    return re.findall(pattern, page.read_text(), re.MULTILINE | re.DOTALL)


def quoted(page: Path) -> list[tuple[str, str]]:
    """Returns the files that a page quotes, with what it quotes."""
    pattern = r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```"
    return re.findall(pattern, page.read_text(), re.MULTILINE | re.DOTALL)


DRAWN = {"architecture.svg"}
"""Pictures that `make docs` draws."""


def commands(*pages: Path) -> list[str]:
    return [line for page in pages for block in blocks(page, "sh") for line in block.splitlines()]


TUTORIAL = ROOT / "docs" / "tutorial"
FIRST = [TUTORIAL / f"{name}.md" for name in ("index", "compare", "drafter", "proof")]
WALKS = [
    [ROOT / "README.md", *FIRST],
    [TUTORIAL / "train.md", TUTORIAL / "serve.md"],
    [TUTORIAL / "paper.md"],
]
"""Pages whose blocks follow from each other, in an environment made by the line that they name."""

OTHERS = [page for page in PAGES if not any(page in walk for walk in WALKS)]
COMMANDS = sorted(set(commands(*OTHERS)))


@pytest.mark.parametrize(
    ("name", "text"), [pair for page in PAGES for pair in quoted(page)], ids=lambda x: x[:60]
)
def test_a_quoted_file_is_the_file(name: str, text: str) -> None:
    assert (ROOT / name).read_text() == text


@pytest.mark.usefixtures("shared_smollm2", "prompts_read_once")
@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(
    page: Path, shallow_smollm2: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_layers = Path(shallow_smollm2.model.name_or_path)
    monkeypatch.setattr("outrider.targets.smollm2.folder", lambda: few_layers)
    names: dict[str, Any] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


def test_the_docs_have_commands_and_code() -> None:
    assert len(COMMANDS) >= 12
    assert sum(len(blocks(page, "python")) for page in PAGES) >= 5
    assert sum(len(quoted(page)) for page in PAGES) >= 4


@pytest.fixture
def quick_smollm2(command: str, request: pytest.FixtureRequest) -> None:
    """A command has only to run; but the head of EAGLE-3 reads states of late layers."""
    request.getfixturevalue("shared_smollm2" if "eagle3" in command else "few_layers")


@pytest.fixture
def quick_kit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part has its first two checks; it passes all of them in tests of its own."""
    first = lambda make, thorough: islice(run_checks(make, thorough), 2)
    monkeypatch.setattr("outrider.cli.commands.check.run_checks", first)


@pytest.mark.usefixtures(
    "quick_smollm2", "quick_kit", "prompts_read_once", "drawn_once", "forked_workers"
)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_documented_command_runs(
    command: str, tmp_path: Path, request: pytest.FixtureRequest, run: Any, script: Any
) -> None:
    program, *words = shlex.split(command)
    if program in ("make", "torchrun") or words[0] == "audit":
        _check_named(program, words)
        return
    if MADE.search(command):  # by an example, whose models are trained here
        (tmp_path / "edits").symlink_to(request.getfixturevalue("edits"))
    names = [Path(word).name for word in words]
    quick = [setting for name in names for setting in QUICK.get(name, ())]
    if "hydra/launcher=joblib" in words:  # in several processes in tests/test_cli.py
        quick = [*quick, "hydra.launcher.n_jobs=1"]
    # The workers of a bench or a sweep are processes, each of which loads the model.
    if words[0] == "bench" or any(word.startswith("hydra/launcher=") for word in words):
        quick = [*quick, "target=transformers", f"target.model={request.getfixturevalue('folder')}"]
    if words[0] == "report":  # of what the command before it has left
        run("compare", "drafters=[none,bigram]", *QUICK["compare"], f"hydra.run.dir={words[1]}")
    if program == "python":
        status, out, err = script(ROOT / words[0], *words[1:], *quick)
    else:
        status, out, err = run(*words, *quick)
    assert status == 0, err
    assert out.strip()


INSTALL = re.compile(r"^    pip install '\.\[(\w+)\]'$", re.MULTILINE)
FEW = "drafters=[none,my_idea,bigram,prompt_lookup,small_lm,medusa,eagle]"
SHORT = {
    "gamma=2,4,6": "gamma=1,2", "sampling.temperature=0,1": "sampling.temperature=0",
    FEW: "drafters=[none,my_idea,bigram]",
}  # fmt: skip
"""Settings of a walk, and what they are here: fewer runs, and drafters that load nothing."""


@pytest.fixture(scope="session")
def lab_site(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the packages that the line in README and tutorial installs, and no other."""
    extras = {
        extra for pages in WALKS for page in pages for extra in INSTALL.findall(page.read_text())
    }
    (extra,) = extras
    return site_of(unpacked, tmp_path_factory.mktemp("lab"), extra)


def steps(*pages: Path) -> Iterator[packages.Step]:
    """Yields the blocks of Python and the commands of pages, in order: kind, text and words.

    Those that are not fenced are only named.
    """
    fenced = r"^```(\w+)\n(.*?)^```|^    (outrider [^\n]*)$"
    for page in pages:
        for kind, text, named in re.findall(fenced, page.read_text(), re.MULTILINE | re.DOTALL):
            if named or kind == "python":
                yield kind or "named", text or named, shlex.split(named)
            lines = text.splitlines() if kind == "sh" else []
            for line in lines if lines != ["outrider demo"] else ():  # which `.ci/run` runs
                words = [SHORT.get(word, word) for word in shlex.split(line.partition(" > ")[0])]
                quick = [each for word in words for each in QUICK.get(word, ())]
                yield kind, line, words + quick * (words[0] == "outrider")


@pytest.mark.first
def test_readme_and_tutorial_run_where_their_own_line_has_installed(
    lab_site: Path, shallow_smollm2: Any, tmp_path: Path
) -> None:
    asked: list[packages.Step] = []
    for number, pages in enumerate(WALKS):  # a step that comes again on them is run once
        unlike = {step[:2]: step for step in steps(*pages)}
        asked += [("folder", str(tmp_path / str(number)), []), *unlike.values()]
    few_layers = shallow_smollm2.model.name_or_path
    ends = packages.walk(
        sys.executable, "-S", steps=asked, few_layers=few_layers, cwd=tmp_path,
        PYTHONPATH=str(lab_site),
    )  # fmt: skip
    out = "\n".join(f"$ {step[1]}\n{text}" for step, (_, text) in zip(asked, ends, strict=False))
    assert [status for status, _ in ends] == ["0"] * len(asked), out
    assert "pip install 'outrider" not in out
    tables = [text for step, (_, text) in zip(asked, ends, strict=True) if "latex" in step[1]]
    few = "1 prompt is too few to show a"
    assert tables and all(r"\toprule" in text and few in text for text in tables), tables


def _check_named(program: str, words: list[str]) -> None:
    """Checks that there is what a command names which other tests run, or none."""
    if program == "make":
        makefile = (ROOT / "Makefile").read_text()
        assert re.search(rf"^{words[0]}:", makefile, re.MULTILINE), words
    elif program == "torchrun":
        options = parse_args(words)
        assert options.module and options.training_script == "outrider" and not options.standalone
        command, *settings = options.training_script_args
        assert compose(command, settings)
    else:  # of servers, as its own tests have them
        assert compose(words[0], [word for word in words[1:] if not word.startswith("http")])


def slug(heading: str) -> str:
    """Returns the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    links = re.findall(
        r"\]\((?!http)([^)#]*)#?([^)]*)\)|src=\"(?!http)([^\"]+)\"", page.read_text()
    )
    for name, anchor, picture in links:
        target = page.parent / (name or picture or page.name)
        assert target.exists() or target.name in DRAWN, target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert anchor in map(slug, headings), f"{page.name}: {name}#{anchor}"


def test_the_plot_of_the_readme_and_the_table_show_the_run() -> None:
    gains = runpy.run_path(str(ROOT / "docs" / "scripts" / "gains.py"))
    run = json.loads((ROOT / "docs" / "runs" / "speed-T0.json").read_text())
    assert (ROOT / "docs" / "gains.svg").read_text() == gains["picture"](run)
    page, rows = (ROOT / "docs" / "speed.md").read_text(), gains["rows"](run)
    assert {"small_lm", "quantized", "none"} <= {row.drafter for row in rows}
    for row in rows[:-1]:
        speedup = f"{row.speedup.value:.2f} [{row.speedup.low:.2f}, {row.speedup.high:.2f}]"
        assert any(f"| `{row.drafter}` |" in line and speedup in line for line in page.split("\n"))


def test_the_readme_is_short_and_the_citation_current() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 180
    citation: Any = OmegaConf.load(ROOT / "CITATION.cff")
    assert citation["version"] == outrider.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation.get("repository-code") == project.get("urls", {}).get("Repository")


@pytest.mark.parametrize("role", ["verifier", "policy"])
def test_every_rule_and_policy_has_its_line(role: str) -> None:
    page = (ROOT / "docs" / "rules.md").read_text()
    for name, entry in installed().of(role).items():
        line = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        if role == "verifier":
            takes = line.split("|")[2].strip()
            kinds = entry.product.takes
            names = {"chains": "chain"}
            shown = KINDS if takes == "all" else {names.get(k, k) for k in takes.split(", ")}
            assert set(shown) == kinds, name


SECTIONS = dict(
    re.findall(
        r"^### `(\w+)`\n(.*?)(?=^##|\Z)",
        (ROOT / "docs" / "drafters.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
)
"""The paragraphs about drafters, by name."""


def test_every_drafter_has_its_paragraph() -> None:
    drafters = installed().of("drafter").items()
    own = {name for name, part in drafters if part.distribution == "outrider"}
    assert set(SECTIONS) == own


@pytest.mark.parametrize("name", SECTIONS)
def test_a_paragraph_says_when_to_use_a_drafter_and_its_command_composes(name: str) -> None:
    words = " ".join(SECTIONS[name].split())
    assert all(word in words for word in ("Use it", "Paper: ", "Needs: ")), name
    [line] = re.findall(r"^    outrider (.*)$", SECTIONS[name], re.MULTILINE)
    command, *settings = map(quoted_override, shlex.split(line))
    config = compose(command, settings)
    if command == "compare":
        assert name in config.drafters
    else:
        assert f"drafter={name}" in settings
        assert type(build(config.drafter)) is installed().find("drafter", name).product


def test_the_core_is_read_in_one_sitting() -> None:
    page = (ROOT / "docs" / "read-the-core.md").read_text()
    files = re.findall(r"^\| `(\S+)` \| [A-Z].+\. \|$", page, re.MULTILINE)
    assert 8 <= len(files) == len(set(files)) <= 14
    assert sum(len((ROOT / file).read_text().splitlines()) for file in files) <= 2200
    folders = {Path(file).parent.as_posix() for file in files}
    assert folders == {"core/contract", "core/decoding", "drafters", "verifiers"}


def test_the_toy_drafter_is_the_same_on_every_page() -> None:
    code = [block for page in PAGES for block in blocks(page, "python")]
    toys = [
        re.search(r"^class Bigram\(Drafter\):\n(    .*\n|\n)+", block, re.MULTILINE)
        for block in code
    ]
    same = {toy[0].strip() for toy in toys if toy}
    assert len(same) == 1
    assert same.pop() in notebook_code("write_a_drafter")


def notebook_code(name: str) -> str:
    """Returns the cells with code of a notebook."""
    text = (ROOT / "docs" / "notebooks" / f"{name}.ipynb").read_text()
    cells = json.loads(text)["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_the_architecture_page_names_existing_code() -> None:
    """Every file that it mentions exists, and every name on its walk is somewhere in the code."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    spans = set(re.findall(r"`([^`]+)`", page))
    files = {
        span
        for span in spans
        if re.fullmatch(r"(core|drafters|verifiers|extras|conf|tests|evidence)/\S+\.\w+", span)
    }
    assert len(files) > 20
    for file in files - {"conf/COMMAND.yaml"}:
        assert (ROOT / file).is_file(), file
    folders = ("core", "constraints", "drafters", "extras", "policies", "verifiers")
    code = "".join(path.read_text() for name in folders for path in (ROOT / name).rglob("*.py"))
    words = set(re.findall(r"\w+", code))
    names = {span for span in spans if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", span)}
    names = {name for name in names if not name.endswith((".py", ".toml"))}
    assert len(names) > 30
    assert not {name for name in names if set(name.split(".")) - words - {"tests"}}
