"""Drafters that the speculators library saves, and the logits that it computes."""

import importlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from speculators import SpeculatorModel, SpeculatorsConfig, VerifierConfig
from speculators.losses import resolve_loss_config
from speculators.models.peagle import core as peagle
from speculators.proposals.greedy import GreedyTokenProposalConfig
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

SIZE, WIDTH, TOKENS, ANCHOR, BLOCK, KNOWN = 256, 64, 24, 12, 8, 128
LAYERS = [2, 4, 5]
SIZES = {
    "vocab_size": SIZE, "hidden_size": WIDTH, "intermediate_size": 128, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip
TARGETS: dict[str, Any] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 16}),
}
NAMES = {"eagle3": "Eagle3", "peagle": "PEagle", "dflash": "DFlash", "dflash2": "DFlash2"}
NAMES |= {"dspark": "DSpark", "xpress": "XPress"}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 64}
WINDOW = {"layer_types": ["sliding_attention"], "sliding_window": 5, "use_sliding_window": True}


def layer(kind: str, **changes: Any) -> Any:
    config, _, own = TARGETS[kind]
    made = config(**SIZES, **own, num_hidden_layers=1, **changes)
    made._attn_implementation = "eager"
    return made


def speculators_config(root: Path, family: str, kind: str) -> Any:
    """Returns what the config of every drafter has, of a family and for a kind of target."""
    return SpeculatorsConfig(
        algorithm=family,
        proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=4)],
        default_proposal_method="greedy",
        verifier=VerifierConfig(name_or_path=str(root / f"target-{kind}"), architectures=["X"]),
    )


def save(root: Path, name: str, family: str, kind: str, decoder: Any, **entries: Any) -> Any:
    """Saves a drafter with random weights by the library itself, and returns it."""
    module = importlib.import_module(f"speculators.models.{family}")
    shared = speculators_config(root, family, kind)
    config = getattr(module, f"{NAMES[family]}SpeculatorConfig")(
        speculators_config=shared, transformer_layer_config=decoder, **entries
    )
    model = getattr(module, f"{NAMES[family]}DraftModel")(config=config).eval()
    for tensor_name, tensor in model.named_parameters():
        if tensor_name != "embed_tokens.weight":  # which becomes the target's
            torch.nn.init.normal_(tensor, std=0.1 if family == "xpress" else 0.3)  # six rounds
    if config.draft_vocab_size < SIZE:
        ids = torch.arange(0, SIZE, SIZE // KNOWN)
        model.load_vocab_mappings(torch.isin(torch.arange(SIZE), ids), ids - torch.arange(KNOWN))
    model.load_verifier_weights()
    model.save_pretrained(root / name)
    return model


def logits(model: Any, run: Callable[[], Any]) -> list[torch.Tensor]:
    """Returns what the head of a model gives in a call."""
    heard: list[torch.Tensor] = []
    hook = model.lm_head.register_forward_hook(lambda *call: heard.append(call[2].detach()[0]))
    with torch.no_grad():
        run()
    hook.remove()
    return heard


def outputs(model: Any, family: str, states: torch.Tensor, tokens: torch.Tensor) -> Any:
    """Returns the logits that the library computes for some states and tokens."""
    documents = torch.zeros_like(tokens)
    call = {"hidden_states": states, "input_ids": tokens, "document_ids": documents}
    if family == "eagle3":  # two steps: the second reads the output of the first
        return dict(enumerate(logits(model, lambda: model(**call, ttt_steps=2))))
    call |= {"verifier_last_hidden_states": torch.zeros(1, TOKENS, WIDTH)}
    call |= {"loss_config": resolve_loss_config("kl_div", "eager")}  # its own needs a GPU
    call |= {"loss_mask": (torch.arange(TOKENS) == ANCHOR)[None].float()}
    if family == "dflash":
        return {0: logits(model, lambda: model(**call, max_anchors=1))[0]}
    if family in ("dspark", "dflash2", "xpress"):
        return {0: corrected(model, family, lambda: model(**call, max_anchors=1))}
    rows = torch.arange(ANCHOR + 1)  # all that is known, and three masks behind it
    rows, depth = torch.cat([rows, rows[-1:].expand(3)]), torch.tensor([0] * len(rows) + [1, 2, 3])
    setattr(peagle, "generate_cod_sample_indices", lambda **_: (rows, depth))  # noqa: B010
    return {0: logits(model, lambda: model(**call))[0]}


def corrected(model: Any, family: str, run: Callable[[], Any]) -> torch.Tensor:
    """Returns the logits that a corrector makes of a block; -inf for tokens that it excludes."""
    core, heard = importlib.import_module(f"speculators.models.{family}.core"), dict[str, Any]()

    def hear(*logits: torch.Tensor, **named: Any) -> Any:
        heard.update(named, logits=logits)
        raise StopIteration  # the loss does not matter

    setattr(core, "compute_metrics", hear)  # noqa: B010
    if family == "dflash2":  # as in a draft, the target's token is no candidate by itself
        every = lambda ids, targets: (ids, targets, targets >= 0)
        setattr(core, "selector_training_candidates", every)  # noqa: B010
    with torch.no_grad(), suppress(StopIteration):
        run()
    if family != "dflash2":
        return heard["logits"][0][0]
    excluded = torch.full_like(heard["unary_logits"], -torch.inf)
    return excluded.scatter(-1, heard["training_candidate_ids"], heard["candidate_logits"])[0]


def main(root: Path) -> None:
    torch.manual_seed(0)
    for kind, (config, model, own) in TARGETS.items():
        model(config(**SIZES, **own, num_hidden_layers=8)).save_pretrained(root / f"target-{kind}")
    states, tokens = torch.randn(1, TOKENS, 3 * WIDTH), torch.randint(4, SIZE, (1, TOKENS))
    save_file({"states": states, "tokens": tokens}, root / "inputs.safetensors")
    eagle = {"draft_vocab_size": KNOWN, "eagle_aux_hidden_state_layer_ids": LAYERS}
    block = {"draft_vocab_size": SIZE, "block_size": BLOCK, "mask_token_id": 3}
    block |= {"aux_hidden_state_layer_ids": LAYERS}
    none = {"eagle_aux_hidden_state_layer_ids": None}
    jobs: list[tuple[str, str, str, Any, dict[str, Any]]] = []
    for kind in TARGETS:
        flags = ("norm_output", "fc_norm", "norm_before_fc", "norm_before_residual")
        jobs += [(f"eagle3-{kind}", "eagle3", kind, layer(kind), eagle)]
        for flag in flags:
            jobs += [(f"eagle3-{kind}-{flag}", "eagle3", kind, layer(kind), eagle | {flag: True})]
        jobs += [(f"eagle3-{kind}-no-layers", "eagle3", kind, layer(kind), eagle | none)]
        jobs += [(f"peagle-{kind}", "peagle", kind, layer(kind), eagle | {"mask_token_id": 3})]
    scaled = layer("llama", rope_parameters=LLAMA3 | {"rope_theta": 500.0})
    jobs += [("eagle3-llama-rotary-llama3", "eagle3", "llama", scaled, eagle)]
    for family in ("dflash", "dflash2", "dspark", "xpress"):
        jobs += [(family, family, "qwen3", layer("qwen3"), block)]
    jobs += [("xpress-from-anchor", "xpress", "qwen3", layer("qwen3"),
              block | {"sample_from_anchor": True})]  # fmt: skip
    masks, recurrent = {"sample_from_anchor": False}, {"markov_head_type": "rnn"}
    for name, entries in {
        "dspark-masks": masks,
        "dspark-recurrent": recurrent,
        "dspark-recurrent-masks": recurrent | masks,
        "dspark-gated": {"markov_head_type": "gated"},
    }.items():
        jobs += [(name, "dspark", "qwen3", layer("qwen3"), block | entries)]
    yarn = layer("qwen3", rope_parameters=YARN | {"rope_theta": 500.0})
    jobs += [
        ("dflash-rotary-yarn", "dflash", "qwen3", yarn, block),
        ("dflash-window", "dflash", "qwen3", layer("qwen3", **WINDOW), block),
        ("dflash-window-both-ways", "dflash", "qwen3", layer("qwen3", **WINDOW),
         block | {"sliding_window_non_causal": True}),
        ("dflash-from-anchor", "dflash", "qwen3", layer("qwen3"),
         block | {"sample_from_anchor": True}),
    ]  # fmt: skip
    for name, family, kind, decoder, entries in jobs:
        model = save(root, name, family, kind, decoder, **entries)
        loaded = SpeculatorModel.from_pretrained(root / name)
        assert torch.equal(loaded.fc.weight, model.fc.weight)  # it loads there
        found = {str(i): rows for i, rows in outputs(model, family, states, tokens).items()}
        save_file(found, root / name / "outputs.safetensors")
