"""Audits SmolLM2 as transformers' own `generate` serves it, without drafts, in a dtype.

python evidence/transformers_audit.py --dtype bfloat16 --requests 300
"""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from outrider.data import jsonl as data
from outrider.extras.audit.audit import Auditor
from outrider.extras.audit.client import Request
from outrider.extras.audit.expected import Expected, FromLogprobs, FromTarget
from outrider.extras.audit.served import OpenAIClient
from outrider.plugins.parts import make

TOP = 5


def choices(model: Any, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns what the API answers to a request for texts."""
    if body.get("seed") is not None:
        torch.manual_seed(body["seed"])
    prompt = torch.tensor([body["prompt"]])
    sampling: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None}
    if body["temperature"]:
        chosen = {name: body[name] for name in ("temperature", "top_p")}
        top_k = max(body["top_k"], 0)
        sampling = {"do_sample": True, "top_k": top_k, "num_return_sequences": body["n"], **chosen}
    written = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=body["max_tokens"],
        repetition_penalty=body.get("repetition_penalty", 1.0),
        return_dict_in_generate=True,
        output_logits=True,
        **sampling,
    )
    logprobs = torch.stack(written.logits, 1).float().log_softmax(-1)
    ids = written.sequences[:, prompt.shape[1] :].tolist()
    return [choice(row, table) for row, table in zip(ids, logprobs, strict=True)]


def choice(ids: list[int], table: torch.Tensor) -> dict[str, Any]:
    entries = []
    for token, row in zip(ids, table, strict=True):
        tops = {*row.topk(TOP).indices.tolist(), token}
        own, *listed = [
            {"token": f"token_id:{it}", "logprob": float(row[it])} for it in (token, *tops)
        ]
        entries.append(own | {"top_logprobs": listed})
    text = "".join(chr(0x4E00 + token % 0x5000) for token in ids)
    return {"text": text, "token_ids": ids, "logprobs": {"content": entries}}


def serve(model: Any) -> ThreadingHTTPServer:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                answer = json.dumps({"choices": choices(model, body)}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--source", choices=("target", "log-probabilities"), default="target")
    parser.add_argument("--skip", nargs="+", default=[], help="as `skip=` of `outrider audit`")
    options = parser.parse_args()
    target = make("target", "smollm2")
    model = AutoModelForCausalLM.from_pretrained(
        target.model.config._name_or_path, dtype=options.dtype, trust_remote_code=False
    )
    model.generation_config.eos_token_id = None  # texts of one length
    server = serve(model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = OpenAIClient(f"http://127.0.0.1:{server.server_port}", model="smollm2", logprobs=TOP)
    prompts = [
        Request(tuple(target.encode(prompt.turns[0])), options.tokens) for prompt in data.demo(2)
    ]
    by_target = options.source == "target"
    expected: Expected = FromTarget(target) if by_target else FromLogprobs(TOP)
    expected.eos = ()
    skip = ["penalties", "stop strings", "ends", *options.skip]
    auditor = Auditor(client, prompts, expected, skip=skip)
    result = auditor.run(options.requests, lambda done: print(done, end=" ", flush=True))
    print(
        f"\n{options.dtype}: {result.line}; {result.requests} requests; rounding {expected.sd:.3f}"
    )
    for finding in result.findings:
        print(f"    {finding.name}: {finding.cause}; {finding.texts} texts, {finding.least}")


if __name__ == "__main__":
    main()
