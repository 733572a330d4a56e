"""Audits vLLM on SmolLM2's exact distribution: its own n-gram drafts before and after the mend.

python evidence/vllm_audit.py --python .venv-vllm/bin/python
"""

import argparse
import json
import tempfile
from pathlib import Path

from outrider.base.errors import OutriderError
from outrider.data import jsonl as data
from outrider.extras.audit.audit import Auditor
from outrider.extras.audit.client import Request
from outrider.extras.audit.command import write
from outrider.extras.audit.expected import FromTarget
from outrider.extras.audit.served import OpenAIClient
from outrider.extras.serving.vllm_server import Server
from outrider.plugins.parts import make

NGRAMS = {"method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 1}
CUSTOM = {"method": "custom_class", "model": "outrider.extras.serving.vllm.OutriderProposer"}
BIGRAM = {"OUTRIDER_DRAFTER": json.dumps({"_target_": "outrider.drafters.ngram.bigram"})}
UNMENDED = {"VLLM_PLUGINS": "none"}
ENGINES: dict[str, tuple[dict[str, str], dict[str, object] | None]] = {
    "no drafts": ({}, None),
    "n-grams, not mended": (UNMENDED, NGRAMS),
    "n-grams, mended": ({}, NGRAMS),
    "bigram, not mended": (UNMENDED | BIGRAM, CUSTOM),
    "bigram, mended": (BIGRAM, CUSTOM),
}
OPTIONS = ["--max-model-len", "2048", "--enforce-eager"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, default=Path(".venv-vllm/bin/python"))
    parser.add_argument("--dtype", default="float32", help="of the server; the target's is float32")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--gamma", type=int, default=3)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=[*ENGINES])
    parser.add_argument("--skip", nargs="+", default=[], help="as `skip=` of `outrider audit`")
    parser.add_argument("--logs", type=Path, help="a folder for what the servers print")
    parser.add_argument("--pages", type=Path, help="a folder for a page of each engine")
    options = parser.parse_args()
    target = make("target", "smollm2")
    prompts = [
        Request(tuple(target.encode(prompt.turns[0])), options.tokens) for prompt in data.demo(2)
    ]
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
    for name in options.engines:
        environment, speculative = ENGINES[name]
        if speculative is not None:
            speculative = speculative | {"num_speculative_tokens": options.gamma}
        with tempfile.TemporaryDirectory() as folder:
            server = Server(
                options.python,
                str(target.model.config._name_or_path),
                (options.logs or Path(folder)) / f"{name}.log",
                speculative=speculative,
                environment={"VLLM_CPU_KVCACHE_SPACE": "1"} | environment,
                options=["--dtype", options.dtype, *OPTIONS],
            )
            with server:
                client = OpenAIClient(server.url, model=server.name, key=server.key)
                auditor = Auditor(client, prompts, FromTarget(target), skip=options.skip)
                try:
                    result = auditor.run(options.requests)
                except OutriderError as error:
                    print(f"{name}: {error}", flush=True)
                    continue
                if options.pages:
                    page = options.pages / name.replace(", ", "-").replace(" ", "-")
                    page.mkdir(parents=True, exist_ok=True)
                    write(result, page, {"engine": name})
                print(f"{name}: {result.line}; {result.requests} requests")
                print(f"    {server.drafted()}")
        for finding in result.findings:
            print(f"    {finding.name}: {finding.cause}; {finding.texts} texts, {finding.least}")
        print(f"    the control: e^{result.control:.1f}; ties: {result.ties}", flush=True)


if __name__ == "__main__":
    main()
