"""Stands in for the python of an environment with vLLM, and answers over HTTP from a script.

The script is a JSON file. It holds `version`; `texts`, keyed by the prompt's ids as a JSON list;
`drafted`, the texts with drafts if they differ; `beside_sampled`, those once a request has
sampled; `start`, a line to die with instead of starting, if the drafter's config has `drafter`.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SCRIPT = json.loads(Path(__file__).with_name("fake.json").read_text())
DRAFTS = "--speculative-config" in sys.argv


class Handler(BaseHTTPRequestHandler):
    drafts = 0
    sampling = False  # from the first request that samples
    lock = threading.Lock()

    def do_GET(self) -> None:
        name = "vllm:spec_decode_num_"
        lines = [
            f'{name}{what}_total{{engine="{engine}"}} {float(count)}'
            for engine in (0, 1)
            for what, count in (
                ("drafts", Handler.drafts),
                ("draft_tokens", 2 * Handler.drafts),
                ("accepted_tokens", Handler.drafts),
            )
        ]
        lines += [
            f'{name}accepted_tokens_per_pos_total{{engine="{engine}",position="{place}"}} {count}'
            for engine in (0, 1)
            for place, count in enumerate((float(Handler.drafts), 0.0))
        ]
        name = sys.argv[sys.argv.index("--served-model-name") + 1]
        models = json.dumps({"data": [{"id": name}]})
        if self.path.startswith("/v1") and self._is_stranger():
            return
        pages = {"/metrics": "\n".join(lines), "/v1/models": models}
        self._reply(200, pages[self.path])

    def do_POST(self) -> None:
        if self._is_stranger():
            return
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = SCRIPT["drafted"] if DRAFTS and "drafted" in SCRIPT else SCRIPT["texts"]
        text = texts.get(json.dumps(question["prompt"]))
        if text is None:
            self._reply(400, '{"error": "no such prompt"}')
            return
        with Handler.lock:
            Handler.drafts += 1
        if DRAFTS and question["temperature"] == 0 and Handler.sampling:
            text = SCRIPT.get("beside_sampled", texts).get(json.dumps(question["prompt"]))
        Handler.sampling = Handler.sampling or question["temperature"] > 0
        choice = {"token_ids": text[: question["max_tokens"]], "text": ""}
        self._reply(200, json.dumps({"choices": [choice] * question.get("n", 1)}))

    def _is_stranger(self) -> bool:
        is_known = self.headers["Authorization"] == f"Bearer {os.environ['VLLM_API_KEY']}"
        if not is_known:
            self._reply(401, '{"error": "Unauthorized"}')
        return not is_known

    def _reply(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: Any) -> None:
        pass


def main() -> None:
    words = sys.argv[1:]
    if words[0] == "-c":
        print(SCRIPT["version"])
        return
    print(json.dumps([words, os.environ.get("OUTRIDER_DRAFTER")]), flush=True)
    if "start" in SCRIPT and SCRIPT.get("drafter", "") in os.environ.get("OUTRIDER_DRAFTER", ""):
        sys.exit(SCRIPT["start"])
    port = int(words[words.index("--port") + 1])
    if os.fork() == 0:  # a child process that would outlive the server
        threading.Event().wait()
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


main()
