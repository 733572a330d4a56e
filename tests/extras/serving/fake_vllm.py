"""Stands in for the python of an environment with vLLM, and answers over HTTP from a script.

The script is the JSON file `FAKE_VLLM`. It holds `version`; `texts`, keyed by the prompt's ids as a
JSON list; `drafted`, the texts with drafts if they differ; `beside_sampled`, those once a request
has sampled; `start`, a line to die with instead of starting, if the drafter's config has `drafter`.
"""

import json
import os
import sys
import threading
from pathlib import Path

from tiny.fake_server import Answer, Asked, http_server

SCRIPT = json.loads(Path(os.environ["FAKE_VLLM"]).read_text())
DRAFTS = "--speculative-config" in sys.argv


class Engine:
    """Counts a draft of two tokens, one of them accepted, for each request; there are two ranks."""

    def __init__(self) -> None:
        self.drafts = 0
        self.has_sampled = False
        self.lock = threading.Lock()

    def answer(self, asked: Asked) -> Answer:
        if asked.path == "/metrics":
            return Answer("\n".join(self.counters()))
        if asked.headers["Authorization"] != f"Bearer {os.environ['VLLM_API_KEY']}":
            return Answer({"error": "Unauthorized"}, 401)
        if asked.body is None:
            name = sys.argv[sys.argv.index("--served-model-name") + 1]
            return Answer({"data": [{"id": name}]})
        key, is_greedy = json.dumps(asked.body["prompt"]), asked.body["temperature"] == 0
        texts = SCRIPT["drafted"] if DRAFTS and "drafted" in SCRIPT else SCRIPT["texts"]
        if key not in texts:
            return Answer({"error": "no such prompt"}, 400)
        with self.lock:
            self.drafts += 1
        if DRAFTS and is_greedy and self.has_sampled:
            texts = SCRIPT.get("beside_sampled", texts)
        self.has_sampled = self.has_sampled or not is_greedy
        choice = {"token_ids": texts[key][: asked.body["max_tokens"]], "text": ""}
        return Answer({"choices": [choice] * asked.body.get("n", 1)})

    def counters(self) -> list[str]:
        counts = {
            "drafts_total{": self.drafts,
            "draft_tokens_total{": 2 * self.drafts,
            "accepted_tokens_total{": self.drafts,
            'accepted_tokens_per_pos_total{position="0",': self.drafts,
            'accepted_tokens_per_pos_total{position="1",': 0,
        }
        return [
            f'vllm:spec_decode_num_{name}engine="{engine}"}} {float(count)}'
            for engine in (0, 1)
            for name, count in counts.items()
        ]


def main() -> None:
    words = sys.argv[1:]
    if words[0] == "-c":
        print(SCRIPT["version"])
        return
    print(json.dumps([words, os.environ.get("OUTRIDER_DRAFTER")]), flush=True)
    if "start" in SCRIPT and SCRIPT.get("drafter", "") in os.environ.get("OUTRIDER_DRAFTER", ""):
        sys.exit(SCRIPT["start"])
    port = int(words[words.index("--port") + 1])
    server = http_server(Engine().answer, port)
    if os.fork() == 0:  # a child process that would outlive the server
        threading.Event().wait()
    server.serve_forever()


main()
