"""The speed of vLLM with `prompt_lookup` and with its built-in ngram, same settings, interleaved.

python evidence/vllm_speed.py --prompts questions.jsonl --count 8 --tokens 64
"""

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from outrider.data import jsonl as data
from outrider.extras.serving.serve_check import ask
from outrider.extras.serving.vllm_server import Server
from outrider.plugins.parts import make

FLOOR = 0.95
"""The least acceptable ratio of the two speeds."""

OPTIONS = ["--dtype", "float32", "--max-model-len", "2048"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, default=Path(".venv-vllm/bin/python"))
    parser.add_argument("--prompts", help="a JSONL data set; defaults to the demo prompts")
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--gamma", type=int, default=5)
    parser.add_argument("--max-n", type=int, default=3)
    parser.add_argument("--min-n", type=int, default=1)
    settings = parser.parse_args()
    limit = settings.count
    prompts = data.jsonl(settings.prompts, limit) if settings.prompts else data.demo(limit)
    target = make("target", "smollm2")
    ids = [target.encode(prompt.turns[0], chat=True) for prompt in prompts]
    model = str(target.model.config._name_or_path)
    del target
    gamma = {"num_speculative_tokens": settings.gamma}
    sizes = {"prompt_lookup_max": settings.max_n, "prompt_lookup_min": settings.min_n}
    drafter = {
        "_target_": "outrider.drafters.prompt_lookup.PromptLookup",
        "max_n": settings.max_n,
        "min_n": settings.min_n,
    }
    custom = {"method": "custom_class", "model": "outrider.extras.serving.vllm.OutriderProposer"}
    configs = {
        "ngram": ({}, {"method": "ngram", **sizes, **gamma}),
        "prompt_lookup": ({"OUTRIDER_DRAFTER": json.dumps(drafter)}, {**custom, **gamma}),
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {}
        for name, (environment, speculative) in configs.items():
            server = Server(
                settings.python,
                model,
                folder / f"{name}.log",
                speculative=speculative,
                environment={"VLLM_CPU_KVCACHE_SPACE": "1", **environment},
                # Prompts are repeated, and must be read again each time.
                options=[*OPTIONS, "--no-enable-prefix-caching"],
            )
            servers[name] = stack.enter_context(server)
            ask(server, ids, len(ids), 8)
        ratios = [
            measured(servers, ids, clients, settings.repeats, settings.tokens) for clients in (1, 8)
        ]
    if min(ratios) < FLOOR:
        raise SystemExit(f"prompt_lookup is {min(ratios):.2f} times as fast: expected {FLOOR}")


@contextmanager
def standing_still(server: Server) -> Iterator[None]:
    """Lets a server's processes take no time until the end of the block."""
    group = server._process.pid  # its processes are a group of their own
    os.killpg(group, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(group, signal.SIGCONT)


def measured(
    servers: dict[str, Server], prompts: list[list[int]], clients: int, repeats: int, tokens: int
) -> float:
    """Prints both speeds and returns their ratio; each client has one prompt at a time."""
    rounds = [prompts[first : first + clients] for first in range(0, len(prompts), clients)]
    seconds = {name: [list[float]() for _ in rounds] for name in servers}
    count = dict.fromkeys(servers, 0)
    names = list(servers)
    for repeat in range(repeats):
        for number, batch in enumerate(rounds):
            for name in names if (repeat + number) % 2 else names[::-1]:
                with ExitStack() as paused:  # an idle server takes time, too: threads that spin
                    for other in servers.keys() - {name}:
                        paused.enter_context(standing_still(servers[other]))
                    began = time.perf_counter()
                    texts = ask(servers[name], batch, clients, tokens)
                    seconds[name][number].append(time.perf_counter() - began)
                count[name] += sum(map(len, texts))
    speeds = {}
    for name, times in seconds.items():
        speeds[name] = count[name] / repeats / sum(map(statistics.median, times))
        drafted = servers[name].drafted()  # since its start
        print(f"{clients} clients, {name}: {speeds[name]:.1f} tokens/s, {drafted}", flush=True)
    ratio = speeds["prompt_lookup"] / speeds["ngram"]
    print(f"{clients} clients: prompt_lookup is {ratio:.3f} times as fast as ngram", flush=True)
    return ratio


if __name__ == "__main__":
    main()
