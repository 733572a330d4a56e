"""Stands in for the python of an environment with vLLM: answers over HTTP what a file says.

The file is JSON: `version`; `texts`, by the prompt's ids as a JSON list; `drafted`, the same with
drafts, if others; `start`, a line that it prints before it dies instead of starting.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SAID = json.loads(Path(__file__).with_name("fake.json").read_text())
DRAFTS = "--speculative-config" in sys.argv


class Handler(BaseHTTPRequestHandler):
    drafts = 0
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
        lines.append(f'{name}accepted_tokens_per_pos_total{{position="0"}} 99.0')
        self._say(200, {"/metrics": "\n".join(lines), "/health": ""}[self.path])

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = SAID["drafted"] if DRAFTS and "drafted" in SAID else SAID["texts"]
        text = texts.get(json.dumps(asked["prompt"]))
        if text is None:
            self._say(400, '{"error": "no such prompt"}')
            return
        with Handler.lock:
            Handler.drafts += 1
        text = text[: asked["max_tokens"]]
        self._say(200, json.dumps({"choices": [{"token_ids": text}]}))

    def _say(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: Any) -> None:
        pass


def main() -> None:
    words = sys.argv[1:]
    if words[0] == "-c":
        print(SAID["version"])
        return
    print(json.dumps([words, os.environ.get("OUTRIDER_DRAFTER")]), flush=True)
    if "start" in SAID:
        sys.exit(SAID["start"])
    port = int(words[words.index("--port") + 1])
    if os.fork() == 0:  # a process that the server starts, and that would outlive it
        threading.Event().wait()
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


main()
