"""ReDrafter: Apple's files, and a beam search as a tree."""

from pathlib import Path
from typing import Any, ClassVar

import torch
from tiny.drafters import bound
from tiny.published import TEXT, PublishedNetwork, Refused, hidden
from torch.nn.functional import linear, silu

from outrider import Sampling
from outrider.drafters.redrafter import ReDrafter, ReDrafterNetwork
from outrider.testing.tiny_targets import draft_after


class TestPublished(PublishedNetwork):
    """A head with and without recurrent matrices and a projection: whether, and how wide it is."""

    drafter, network = ReDrafter, ReDrafterNetwork
    variants = ((True, 12), (False, 12), (True, 32))
    refused: ClassVar[Refused] = {
        f"{name}=None: expected a whole number": ({name: None}, {})
        for name in ("num_draft_layers", "exit_dim")
    }

    def layout(self, model: Any, variant: Any) -> Any:
        recurrent, inner = variant
        shapes: dict[str, tuple[int, ...]] = {
            "lm_head.0.linear.weight": (inner, inner),
            "lm_head.0.linear.bias": (inner,),
            "lm_head.1.weight": (31, inner),
        }
        if inner != 32:
            shapes |= {"input_proj.weight": (inner, 32), "input_proj.bias": (inner,)}
        if recurrent:
            shapes |= {"rnn_u.weight": (16, 16), "rnn_u.bias": (16,), "rnn_w.weight": (16, 16)}
        config = {"hidden_size": 16, "vocab_size": 31, "exit_dim": inner, "num_draft_layers": 1}
        tensors = {name: torch.randn(shape) / 3 for name, shape in shapes.items()}
        return config | {"rnn": recurrent}, tensors

    def reference(self, model: Any, w: Any, text: Any, drafted: Any, variant: Any) -> Any:
        return [
            self.probs(model, w, text, [text[-1], *drafted[:depth]])
            for depth in range(len(drafted))
        ]

    def probs(self, model: Any, w: Any, text: list[int], tokens: list[int]) -> torch.Tensor:
        """Returns the distribution after a text that ends with the first of some tokens."""

        def part(name: str, x: torch.Tensor) -> torch.Tensor:
            return linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

        words, memory = model.get_input_embeddings().weight, torch.zeros(16)
        for token in tokens:
            if "rnn_w.weight" in w:
                memory = silu(part("rnn_w", words[token]) + part("rnn_u", memory))
            else:
                memory = memory + words[token]
        x = torch.cat([hidden(model, text)[0, -1], memory])
        x = part("input_proj", x) if "input_proj.weight" in w else x
        x = x + silu(part("lm_head.0.linear", x))
        return part("lm_head.1", x).softmax(-1)

    @torch.no_grad()
    def test_the_dynamic_tree_holds_the_beams_of_a_beam_search(
        self, variant: Any, llama: Any, tmp_path: Path
    ) -> None:
        target = self.target(llama)
        w = self.folder(tmp_path, target, variant)
        drafter = bound(ReDrafter(str(tmp_path), tree="dynamic:3"), target)
        draft = draft_after(drafter, target, TEXT, 6, sampling=Sampling())
        beams: list[tuple[float, list[int]]] = [(0.0, [])]
        paths = [[draft.tokens[step] for step in draft.path(node)] for node in range(len(draft))]
        for _ in range(3):
            grown = []
            for value, beam in beams:
                scores = self.probs(target.model, w, TEXT, [TEXT[-1], *beam]).log().tolist()
                grown += [(value + score, [*beam, token]) for token, score in enumerate(scores)]
            beams = sorted(grown, reverse=True)[:3]
            assert all(beam in paths for _, beam in beams)
