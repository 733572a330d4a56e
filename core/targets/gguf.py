"""Converts a GGUF file to a folder that transformers loads: `python -m ... FILE FOLDER`."""

import sys
from pathlib import Path


def convert(weights: Path, place: Path) -> None:
    """Writes the dequantised float32 model and its tokenizer to the folder `place`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        weights.parent,
        gguf_file=weights.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    # A model that was read from GGUF remembers it, and would not load again once saved.
    model.config.quantization_config = None
    del model.config.quantization_config
    plain = type(model)(model.config)
    plain.load_state_dict(model.state_dict())
    plain.generation_config = model.generation_config
    plain.save_pretrained(place)
    AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name).save_pretrained(place)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
