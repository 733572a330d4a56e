"""What happens in vLLM when a plugin raises.

python evidence/vllm_faults.py --python .venv-vllm/bin/python
"""

import argparse
import os
import tempfile
from pathlib import Path

from outrider import generate
from outrider.data import jsonl as data
from outrider.extras.serving.serve_check import ask, differences
from outrider.extras.serving.vllm_server import Server
from outrider.plugins.parts import make

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
PROPOSER = "outrider.extras.serving.vllm.OutriderProposer"
LINE = "drafter Fragile of outrider-fragile failed: this request goes on without drafts"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, default=Path(".venv-vllm/bin/python"))
    parser.add_argument("--tokens", type=int, default=24)
    options = parser.parse_args()
    target = make("target", "smollm2")
    model = str(target.model.config._name_or_path)
    encoded = [target.encode(prompt.turns[0], chat=True) for prompt in data.demo(4)]
    prompts = [[13, *ids] if number % 2 else ids for number, ids in enumerate(encoded)]
    references = [
        generate(target, ids, "none", max_new_tokens=options.tokens).tokens for ids in prompts
    ]
    with tempfile.TemporaryDirectory() as folder:
        environment = _install(Path(folder))
        speculative = {"method": "custom_class", "model": PROPOSER, "num_speculative_tokens": 3}
        with Server(
            options.python,
            model,
            Path(folder) / "fragile.log",
            speculative=speculative,
            environment=environment,
            options=["--dtype", "float32", "--max-model-len", "2048", "--enforce-eager"],
        ) as fragile:
            texts = ask(fragile, prompts, len(prompts), options.tokens)
            again = ask(fragile, prompts[:1], 1, options.tokens)
            drafted = fragile.drafted()
        failed = (Path(folder) / "fragile.log").read_text().count(LINE)
        expected = [*references, references[0]]
        differing = differences([*texts, *again], expected, [*prompts, prompts[0]], target)
        assert failed == len(prompts) // 2, failed
        assert all(difference.is_tie for difference in differing), differing
        assert drafted.drafts > 0, drafted
        print(f"{failed} requests lost their drafts: {LINE}")
        print(
            f"{len(texts) + 1} texts are greedy, {len(differing)} of them up to ties;"
            f" vLLM counts {drafted}"
        )


def _install(folder: Path) -> dict[str, str]:
    """Installs the plugin as a package, and returns the environment variables to run it with."""
    (folder / "fragile.py").write_text(PLUGIN)
    facts = folder / "outrider_fragile-0.1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: outrider-fragile\nVersion: 0.1\n")
    (facts / "entry_points.txt").write_text("[outrider]\nfragile = fragile\n")
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {
        "PYTHONPATH": path,
        "OUTRIDER_DRAFTER": '{"_target_": "fragile.Fragile"}',
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }


if __name__ == "__main__":
    main()
