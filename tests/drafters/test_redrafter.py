"""ReDrafter: Apple's files."""

from typing import Any, ClassVar

import torch
from tiny.published import PublishedNetwork, Refused, hidden
from torch.nn.functional import linear, silu

from outrider.drafters.redrafter import ReDrafter, ReDrafterNetwork


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
        def part(name: str, x: torch.Tensor) -> torch.Tensor:
            return linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

        words, state = model.get_input_embeddings().weight, hidden(model, text)[0, -1]
        memory, probs = torch.zeros(16), []
        for token in [text[-1], *drafted[:-1]]:
            if variant[0]:
                memory = silu(part("rnn_w", words[token]) + part("rnn_u", memory))
            else:
                memory = memory + words[token]
            x = torch.cat([state, memory])
            x = part("input_proj", x) if "input_proj.weight" in w else x
            x = x + silu(part("lm_head.0.linear", x))
            probs.append(part("lm_head.1", x).softmax(-1))
        return probs
