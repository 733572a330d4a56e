"""Converts a GGUF file to a folder that transformers loads: `python -m ... FILE FOLDER`."""

import sys
from pathlib import Path


def convert(weights: Path, folder: Path) -> None:
    """Writes the dequantised float32 model and its tokenizer to a folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        weights.parent,
        gguf_file=weights.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    # With the settings of the GGUF file, a saved model could not be loaded.
    model.config.quantization_config = None
    del model.config.quantization_config
    plain = type(model)(model.config)
    plain.load_state_dict(model.state_dict())
    plain.generation_config = model.generation_config
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name).save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
