"""A converted model is an ordinary folder, and holds no trace of the quantised file."""

import json

from outrider.targets import smollm2


def test_the_folder_is_plain_safetensors() -> None:
    folder = smollm2.folder()
    assert (folder / "model.safetensors").stat().st_size > 500_000_000
    config = json.loads((folder / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["dtype"] == "float32"
    assert (folder / "chat_template.jinja").exists()
    assert not (folder / "adapter_config.json").exists()
