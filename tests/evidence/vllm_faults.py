"""What vLLM does with a plugin that raises, and with a version that this is not written for.

python tests/evidence/vllm_faults.py --python .venv-vllm/bin/python
"""

import argparse
import os
import tempfile
from pathlib import Path

from outrider import generate
from outrider.lab import data
from outrider.plugins.registry import make
from outrider.serving.check import ask, odd_ones
from outrider.serving.server import Server, ServerError

PLUGIN = """\
from outrider import Drafter, hookimpl

class Fragile(Drafter):
    '''Repeats the last token, and fails where a text begins with token 13.'''

    def propose(self, context, pen):
        while pen.open:
            pen.write(context.tokens[-1])
            if context.tokens[0] == 13:
                raise RuntimeError("bad luck")

@hookimpl
def register_drafters(register):
    register("fragile", Fragile)
"""
MOVED = """\
import vllm
from outrider.serving.vllm import OutriderProposer

def Moved(config):
    vllm.__version__ = "0.33.0"
    return OutriderProposer(config)
"""
LINE = "drafter Fragile of outrider-fragile failed: this request goes on without drafts"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, default=Path(".venv-vllm/bin/python"))
    parser.add_argument("--tokens", type=int, default=24)
    wanted = parser.parse_args()
    target = make("target", "smollm2")
    model = str(target.model.config._name_or_path)
    sane = [target.encode(each.turns[0], chat=True) for each in data.demo(4)]
    prompts = [[13, *ids] if number % 2 else ids for number, ids in enumerate(sane)]
    right = [
        generate(target, ids, drafter="none", max_new_tokens=wanted.tokens).tokens
        for ids in prompts
    ]
    with tempfile.TemporaryDirectory() as place:
        environment = _install(Path(place))
        speculative = {"method": "custom_class", "num_speculative_tokens": 3}

        def server(name: str, proposer: str) -> Server:
            return Server(
                wanted.python,
                model,
                Path(place) / name,
                speculative=speculative | {"model": proposer},
                environment=environment,
                options=["--dtype", "float32", "--max-model-len", "2048", "--enforce-eager"],
            )

        with server("fragile.log", "outrider.serving.vllm.OutriderProposer") as fragile:
            texts = ask(fragile, prompts, len(prompts), wanted.tokens)
            again = ask(fragile, prompts[:1], 1, wanted.tokens)
            drafted = fragile.drafted()
        failed = (Path(place) / "fragile.log").read_text().count(LINE)
        odd = odd_ones([*texts, *again], [*right, right[0]], [*prompts, prompts[0]], target)
        assert failed == len(prompts) // 2, failed
        assert all(each.tie for each in odd), odd
        assert drafted.drafts > 0, drafted
        print(f"{failed} requests lost their drafts: {LINE}")
        print(f"{len(texts) + 1} texts are greedy, {len(odd)} but for ties; the others: {drafted}")
        try:
            with server("moved.log", "moved.Moved"):
                raise SystemExit("vLLM 0.33.0 was taken")
        except ServerError as error:
            assert "vllm 0.33.0: expected 0.32.x" in str(error), error
            print(error)


def _install(place: Path) -> dict[str, str]:
    """Installs the plugin, as a distribution with an entry point; returns how it is found."""
    (place / "fragile.py").write_text(PLUGIN)
    (place / "moved.py").write_text(MOVED)
    facts = place / "outrider_fragile-0.1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: outrider-fragile\nVersion: 0.1\n")
    (facts / "entry_points.txt").write_text("[outrider]\nfragile = fragile\n")
    path = os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH"))))
    return {
        "PYTHONPATH": path,
        "OUTRIDER_DRAFTER": '{"_target_": "fragile.Fragile"}',
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }


if __name__ == "__main__":
    main()
