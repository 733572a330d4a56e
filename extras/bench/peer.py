"""Another library as an entrant of the bench: `python peer.py NAME`, for a name of `LIBRARIES`.

It runs by its path, in an environment without Outrider, and imports each library in its function.
`serve` is the side of the workers in the protocol of the bench: a JSON object per line, each way.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Answer = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes a question, and returns the answer."""
Ids = list[int]
Write = Callable[[Ids, int], Ids]
"""Takes a prompt and the most new tokens, and returns the new tokens."""
WriteTogether = Callable[[Sequence[Ids], int, int], int]
"""Takes prompts, how many are in progress at once and the most new tokens of each, and returns how
many tokens were written in all."""

PR_SET_PDEATHSIG = 1
"""Of <linux/prctl.h>."""


def serve(start: Callable[[dict[str, Any]], Answer]) -> None:
    """Answers the questions on stdin until it ends, on stdout; what libraries print goes to stderr.

    What they read themselves is empty.

    start: takes the first line, and returns the function that answers the others. The first reply
        holds only the seconds that this took, and the peak memory.
    """
    bench = os.getppid()
    _continue_without(bench)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    questions = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    answer: Answer | None = None
    for line in questions:
        settings, began = json.loads(line), time.perf_counter()
        try:
            if answer is None:
                answer, reply = start(settings), {}
            else:
                reply = answer(settings)
        except Exception as error:  # noqa: BLE001  # the bench reports it
            reply = {"error": f"{type(error).__name__}: {error}"}
        reply.setdefault("seconds", time.perf_counter() - began)
        reply["peak"] = peak_memory()
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
    if os.getppid() != bench:
        os.killpg(0, signal.SIGCONT)
        os.killpg(0, signal.SIGKILL)


def _continue_without(bench: int) -> None:
    """Has the kernel continue this process when its bench is killed: it is stopped until asked.

    For a process group that is orphaned the kernel does so by itself, but the process that adopts
    this one may be of the same session; then the group is not orphaned.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
        if os.getppid() != bench:  # it was killed before
            sys.exit(1)


def peak_memory() -> int:
    """Returns the most bytes of memory that this program has had; 0 where they are not counted.

    That of `resource` begins with what the process had that started this one.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # not Linux
        return 0
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def answering(write: Write, write_together: WriteTogether | None = None) -> Answer:
    """Returns the function that answers the bench's questions by timing these."""

    def text(question: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        tokens = write(question["ids"], question["max_new_tokens"])
        return {"tokens": tokens, "seconds": time.perf_counter() - began}

    def texts(question: dict[str, Any]) -> dict[str, Any]:
        assert write_together is not None
        began = time.perf_counter()
        tokens = write_together(question["prompts"], question["batch"], question["max_new_tokens"])
        return {"whole": tokens / (time.perf_counter() - began)}

    return lambda question: {"write": text, "texts": texts}[question["ask"]](question)


def transformers(settings: dict[str, Any]) -> Answer:
    """Loads a model of transformers.

    settings: `model`, `dtype`, `gamma`, `sampling`, and `options` for `generate`; `assistant_model`
        is the folder or hub id of a model. With `quantize`, torchao rounds the weights to eight
        bits.
    """
    import torch

    rounding = None
    if settings.get("quantize"):  # weights of eight bits, with a scale for each row
        from torchao.quantization import Int8WeightOnlyConfig  # type: ignore[import-not-found]
        from transformers import TorchAoConfig

        rounding = TorchAoConfig(Int8WeightOnlyConfig())
    model = pretrained(settings, quantization_config=rounding)
    options = dict(settings["options"])
    if "assistant_model" in options:
        assistant = pretrained(settings | {"model": options["assistant_model"]})
        options["assistant_model"] = assistant
        # The default schedule would change the draft length as it goes.
        assistant.generation_config.num_assistant_tokens = settings["gamma"]
        assistant.generation_config.num_assistant_tokens_schedule = "constant"
    end, sampling = model.generation_config.eos_token_id, dict(settings["sampling"])
    ends = end if isinstance(end, list) else [end]
    seed = sampling.pop("seed")
    options |= {"do_sample": True, **sampling} if sampling["temperature"] else {"do_sample": False}

    def generated(prompts: Sequence[Ids], max_new_tokens: int) -> list[Ids]:
        width = max(map(len, prompts))
        padding = [[0] * (width - len(ids)) for ids in prompts]
        ids = torch.tensor([zeros + ids for zeros, ids in zip(padding, prompts, strict=True)])
        mask = torch.tensor([zeros + [1] * (width - len(zeros)) for zeros in padding])
        torch.manual_seed(seed)
        output = model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=max_new_tokens,
            pad_token_id=0,
            **options,
        )
        new: list[Ids] = output[:, width:].tolist()
        return new

    def length(tokens: Ids) -> int:
        """Returns the tokens of a text of a batch, without the padding behind its end."""
        return next((at for at, token in enumerate(tokens, 1) if token in ends), len(tokens))

    def write_together(prompts: Sequence[Ids], batch: int, max_new_tokens: int) -> int:
        batches = [prompts[first : first + batch] for first in range(0, len(prompts), batch)]
        return sum(length(text) for some in batches for text in generated(some, max_new_tokens))

    return answering(lambda ids, most: generated([ids], most)[0], write_together)


def vllm(settings: dict[str, Any]) -> Answer:
    """Starts vLLM.

    settings: `model`, `dtype`, `sampling`, `max_model_len`, and `speculative`, the speculative
        config or None.
    """
    from vllm import LLM, SamplingParams  # type: ignore[import-not-found]

    engine = LLM(
        model=settings["model"],
        dtype=settings["dtype"],
        max_model_len=settings["max_model_len"],
        speculative_config=settings["speculative"],
        disable_log_stats=True,
    )

    def generated(prompts: Sequence[Ids], max_new_tokens: int) -> list[Ids]:
        engine.reset_prefix_cache()  # by default, a prompt is not read again in another repeat
        params = SamplingParams(max_tokens=max_new_tokens, **settings["sampling"])
        inputs = [{"prompt_token_ids": ids} for ids in prompts]
        outputs = engine.generate(inputs, params, use_tqdm=False)
        return [list(output.outputs[0].token_ids) for output in outputs]

    def write_together(prompts: Sequence[Ids], batch: int, max_new_tokens: int) -> int:
        core = engine.llm_engine.engine_core.engine_core  # in this process; see `VLLM_ENVIRONMENT`
        core.scheduler.max_num_active_reqs = batch
        return sum(map(len, generated(prompts, max_new_tokens)))

    return answering(lambda ids, most: generated([ids], most)[0], write_together)


def pretrained(settings: dict[str, Any], **options: Any) -> Any:
    """Returns the model of the settings, in transformers."""
    import torch
    from transformers import AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    dtype = getattr(torch, settings["dtype"])
    options = {"dtype": dtype, "trust_remote_code": False, **options}  # it would ask
    return auto.from_pretrained(settings["model"], **options).eval()


LIBRARIES: Mapping[str, Callable[[dict[str, Any]], Answer]] = {
    "transformers": transformers,
    "vllm": vllm,
}
"""By name, what loads a library's model and returns the function that answers questions."""

if __name__ == "__main__":
    serve(LIBRARIES[sys.argv[1]])
