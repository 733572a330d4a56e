"""transformers as an entrant of the bench: `python -m outrider.extras.bench.peer_transformers`."""

import time
from typing import Any

import torch

from outrider.extras.bench.protocol import Answer, serve


def start(settings: dict[str, Any]) -> Answer:
    """Loads the model, and returns the function that writes texts with it.

    settings: `model`, `dtype`, `gamma`, and `options` for `generate`; `assistant_model` is the
        folder or hub id of a model. With `quantize`, torchao rounds the weights to eight bits.
    """
    from transformers import AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    dtype = getattr(torch, settings["dtype"])
    rounding: Any = eight_bits() if settings.get("quantize") else None
    model = auto.from_pretrained(
        settings["model"], dtype=dtype, quantization_config=rounding
    ).eval()
    options = dict(settings["options"])
    if "assistant_model" in options:
        assistant = auto.from_pretrained(options["assistant_model"], dtype=dtype).eval()
        options["assistant_model"] = assistant
        # The default schedule would change the draft length as it goes.
        assistant.generation_config.num_assistant_tokens = settings["gamma"]
        assistant.generation_config.num_assistant_tokens_schedule = "constant"

    def write(question: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        (tokens,) = generated([question["ids"]], question["max_new_tokens"])
        return {"tokens": tokens, "seconds": time.perf_counter() - began}

    def write_together(question: dict[str, Any]) -> dict[str, Any]:
        prompts, batch = question["prompts"], question["batch"]
        began, tokens = time.perf_counter(), 0
        for first in range(0, len(prompts), batch):
            texts = generated(prompts[first : first + batch], question["max_new_tokens"])
            tokens += sum(map(own_length, texts))
        return {"whole": tokens / (time.perf_counter() - began)}

    def generated(prompts: list[list[int]], max_new_tokens: int) -> list[list[int]]:
        width = max(map(len, prompts))
        padding = [[0] * (width - len(ids)) for ids in prompts]
        ids = torch.tensor([zeros + ids for zeros, ids in zip(padding, prompts, strict=True)])
        mask = torch.tensor([zeros + [1] * (width - len(zeros)) for zeros in padding])
        output = model.generate(
            ids,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=max_new_tokens,
            pad_token_id=0,
            **options,
        )
        new: list[list[int]] = output[:, width:].tolist()
        return new

    def own_length(tokens: list[int]) -> int:
        """Returns the tokens of a text of a batch, without the padding behind its end."""
        return next((at for at, token in enumerate(tokens, 1) if token in ends), len(tokens))

    end = model.generation_config.eos_token_id
    ends = set(end) if isinstance(end, list) else {end}
    answers = {"write": write, "texts": write_together}
    return lambda question: answers[question["ask"]](question)


def eight_bits() -> Any:
    """Returns the config of weights of eight bits, with a scale for each row."""
    from torchao.quantization import Int8WeightOnlyConfig  # type: ignore[import-not-found]
    from transformers import TorchAoConfig

    return TorchAoConfig(Int8WeightOnlyConfig())


if __name__ == "__main__":
    serve(start)
