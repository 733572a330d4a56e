"""The kit names the sources that its proofs rest on, and reports those that were edited."""

from base64 import urlsafe_b64encode
from hashlib import sha256
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from outrider.testing import ground
from outrider.testing.ground import check_the_ground_is_that_of_the_release as check


@pytest.fixture
def pen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a source of a package that is installed from a wheel."""
    file, info = tmp_path / "outrider" / "contract" / "pen.py", tmp_path / "outrider-9.dist-info"
    for path in (file, info / "METADATA"):
        path.parent.mkdir(parents=True)
    file.write_text("released\n")
    (info / "METADATA").write_text("Name: outrider\nVersion: 9\n")
    own = urlsafe_b64encode(sha256(file.read_bytes()).digest()).rstrip(b"=").decode()
    rows = (f"outrider/contract/pen.py,sha256={own},9", "outrider/lab/table.py,sha256=x,9")
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    monkeypatch.setattr(ground, "distribution", lambda _: PathDistribution(info))
    return file


def test_released_sources_hold_and_edited_ones_are_named(pen: Path) -> None:
    assert check(None) is None
    assert ground.ground().startswith("outrider 9, sources ")
    pen.write_text("edited\n")
    with pytest.raises(AssertionError, match=r"^outrider/contract/pen.py was edited .* outrider 9"):
        check(None)


def test_an_editable_installation_is_named_with_the_hash_of_its_sources() -> None:
    assert check(None) == f"an editable installation, proved by its own tests: {ground.ground()}"
