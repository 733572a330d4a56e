"""Checks of a recipe that writes data to train on: they raise AssertionError."""

from pathlib import Path
from tempfile import TemporaryDirectory

from outrider.extras.training.recipe_checks import Make, tiny_job
from outrider.extras.training.rows import read_rows
from outrider.extras.training.state_files import find_state_files, read_state_files
from outrider.targets.passes.cached_model import HIDDEN


def check_data_are_read_again(make: Make) -> None:
    """What is written is read as rows, with the target's states along each of them."""
    with TemporaryDirectory(prefix="outrider-") as folder:
        job = tiny_job(Path(folder))
        rows = make()(job).get("recipe.rows")
        assert isinstance(rows, str), "expected the folder of the rows, as recipe.rows"
        texts, files = read_rows(rows, job.target, 99), find_state_files([rows])
        assert files is not None, f"expected files hs_0.safetensors and on in {rows}"
        examples = read_state_files(job.target, texts, [HIDDEN], files, 0)
        for number, text in enumerate(texts):
            states = examples.read(number)[HIDDEN]
            assert len(states) == len(text.ids), f"row {number}: {len(states)} states"


CHECKS = (check_data_are_read_again,)
