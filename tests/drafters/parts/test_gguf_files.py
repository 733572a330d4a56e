"""What is no drafter in a GGUF file; each family tests its own files."""

from pathlib import Path

import pytest
import torch
from tiny.gguf_drafters import save

from outrider import ConfigError
from outrider.drafters.parts import gguf_files


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = save(tmp_path / "model.gguf", "llama", {"block_count": 2}, {"output": torch.ones(2)})
    with pytest.raises(ConfigError, match=r"general\.architecture='llama': expected eagle3, dfl"):
        gguf_files.read(Path(file))
