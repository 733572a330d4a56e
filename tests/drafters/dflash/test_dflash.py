"""DFlash: conformance, the published layers, and the layouts of z-lab and of speculators."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from tiny.checkpoints import change, write
from tiny.drafters import bound
from tiny.gguf_drafters import SIZES, assert_same_drafts, theirs
from tiny.parts import held
from tiny.published import TEXT, PublishedNetwork, Refused
from torch import Tensor
from transformers import MuseGlimmerAssistantConfig, MuseGlimmerAssistantModel, Qwen3Config

from outrider import ConfigError, Sampling
from outrider.drafters.dflash.config import DFlashConfig
from outrider.drafters.dflash.corrector import CorrectorConfig
from outrider.drafters.dflash.drafter import DFlash
from outrider.drafters.dflash.network import DFlashNetwork
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import (
    context_after,
    draft_after,
    same_draft,
    write_draft,
    write_drafts,
)

SAMPLED = Sampling(temperature=1.0)
MASK, BLOCK = 12, 5
IDS = torch.arange(0, 24, 2)
DECODER = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 6, "rms_norm_eps": 1e-5,
}  # fmt: skip


SLIDING = {
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 4,
    "use_sliding_window": True,
}


@pytest.fixture
def target(deep_llama: Any) -> Any:
    return TransformersTarget(deep_llama())


def assistant() -> Any:
    """Returns transformers' own model of this kind, with full attention and random weights."""
    config = MuseGlimmerAssistantConfig(
        **DECODER,
        layer_types=["full_attention"] * 2,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        target_layer_ids=[0, 3],
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = MuseGlimmerAssistantModel(config).eval()
        for name, tensor in model.named_parameters():
            if "norm" in name:
                torch.nn.init.uniform_(tensor)
            else:
                torch.nn.init.normal_(tensor, std=0.3)
    return model


@pytest.fixture
def model() -> Any:
    return assistant()


@torch.no_grad()
def probs_behind(
    model: Any,
    target: Any,
    text: list[int],
    window: int | None = None,
    *,
    scale: float = 1.0,
    reach: str = "token",
    head: Tensor | None = None,
) -> Any:
    """Returns the model's distributions at and behind a text's end, from one pass over all of it.

    window, reach: of the first layer, and where it ends.
    head: in place of the target's.
    """
    states = target(torch.tensor([text[:-1]]), output_hidden_states=True).hidden_states
    block = torch.tensor([[text[-1], *[MASK] * (BLOCK - 1)]])
    rows = torch.arange(len(text) - 1, len(text) + BLOCK - 1)[:, None]
    columns = torch.arange(len(text) + BLOCK - 1)
    sees = (columns <= rows) & (columns > rows - (window or 0))
    if reach == "around":
        sees = (columns - rows).abs() < (window or 0)
    elif reach != "token":
        sees = (columns >= len(text) - 1 - (window or 0)) & (columns <= rows)
    if reach == "text_both_ways":
        sees |= columns >= len(text) - 1
    mask = torch.zeros(sees.shape).masked_fill(~sees, float("-inf"))[None, None]
    model.config.layer_types[0] = "full_attention" if window is None else "sliding_attention"
    out = model(
        noise_embeds=target.get_input_embeddings()(block) * scale,
        context_hidden_states=torch.cat([states[layer + 1] for layer in (0, 3)], dim=-1),
        position_ids=torch.arange(len(text) + BLOCK - 1)[None],
        attention_mask={"full_attention": None, "sliding_attention": mask},
    )
    head = target.get_output_embeddings().weight if head is None else head
    return (out.last_hidden_state[0] @ head.T).softmax(-1)


def tensors_of(model: Any) -> dict[str, Any]:
    """Returns the model's tensors by z-lab's names."""
    renamed = {"encoder.fc.": "fc.", "encoder.output_norm_enc.": "hidden_norm."}
    return checkpoint.replace_prefixes(model.state_dict(), renamed)


def decoder(**changes: Any) -> dict[str, Any]:
    rope = {"rope_type": "default", "rope_theta": 500.0}
    config: dict[str, Any] = Qwen3Config(
        **DECODER | {"vocab_size": 31, "rope_parameters": rope} | changes
    ).to_dict()
    return config


def own(**changes: Any) -> dict[str, Any]:
    entries = {"mask_token_id": MASK, "target_layer_ids": [0, 3]}
    return {"block_size": BLOCK, "dflash_config": entries | changes}


def z_lab(**changes: Any) -> dict[str, Any]:
    return decoder() | own(**changes)


def speculators(**changes: Any) -> dict[str, Any]:
    config = {
        "speculators_model_type": "dflash", "transformer_layer_config": decoder(),
        "draft_vocab_size": 31, "block_size": BLOCK, "aux_hidden_state_layer_ids": [1, 4],
        "mask_token_id": MASK, "sample_from_anchor": False,
    }  # fmt: skip
    return config | changes


def with_head() -> dict[str, Any]:
    """Returns the config of a network with a head for the tokens `IDS` alone."""
    return speculators(draft_vocab_size=len(IDS))


class TestPublished(PublishedNetwork):
    """The layouts of z-lab and of speculators, also with a head for some tokens only."""

    drafter, network, longest = DFlash, DFlashNetwork, BLOCK - 1
    variants = (z_lab, speculators, with_head)
    refused: ClassVar[Refused] = {"its hidden_size is 8, the target's 16": ({"hidden_size": 8}, {})}

    def layout(self, model: Any, variant: Any) -> Any:
        tensors = tensors_of(assistant())
        if variant is with_head:
            tensors["embed_tokens.weight"] = model.get_input_embeddings().weight
            tensors["lm_head.weight"] = torch.rand(12, 16)
            tensors["verifier_norm.weight"] = torch.rand(16)
            tensors |= {"d2t": IDS - torch.arange(12), "t2d": torch.isin(torch.arange(31), IDS)}
        return variant(), tensors

    def saved(self, tensors: Any) -> Any:
        copies = ("embed_tokens.weight", "verifier_norm.weight")
        return {name: rows for name, rows in tensors.items() if name not in copies}

    def reference(self, model: Any, w: Any, text: Any, drafted: Any, variant: Any) -> Any:
        right = probs_behind(assistant(), model, text, head=w.get("lm_head.weight"))
        right = right[1 : len(drafted) + 1]
        known = torch.arange(31) if variant is not with_head else IDS
        return torch.zeros(len(right), 31).index_copy(1, known, right)


def assert_saved(folder: Path, target: Any) -> None:
    """Asserts that the settings of a network are the same after it is saved."""
    network = DFlashNetwork.read_checkpoint(folder, target)
    network.save_checkpoint(folder / "again", target)
    assert DFlashNetwork.read_checkpoint(folder / "again", target).config == network.config


SLID = z_lab(input_embedding_scale=1.5) | SLIDING
INNER = {"transformer_layer_config": decoder() | SLIDING, "sample_from_anchor": True}


@pytest.mark.parametrize(
    ("config", "reach"),
    [
        (SLID, "token"),
        (SLID | {"is_causal": False}, "around"),
        (SLID | {"sample_from_anchor": True}, "token"),
        (speculators(**INNER), "text"),
        (speculators(**INNER, sliding_window_non_causal=True), "text_both_ways"),
    ],
    ids=["token", "around", "anchor", "text", "both ways"],
)
def test_windows_end_where_the_layout_says(
    config: Any, reach: str, target: Any, tmp_path: Path
) -> None:
    """Those of z-lab with the token or around it, and with embeddings that are scaled.

    In a batch, texts of different lengths each have their own.
    """
    model, is_scaled = assistant(), "dflash_config" in config
    drafter = bound(DFlash(write(tmp_path, config, tensors_of(model))), target)
    for length in (3, 9):
        draft = draft_after(drafter, target, TEXT[:length], 9)
        scale = 1.5 if is_scaled else 1.0
        right = probs_behind(model, target.model, TEXT[:length], 4, scale=scale, reach=reach)
        right = right[0 if config.get("sample_from_anchor") else 1 :]
        torch.testing.assert_close(torch.stack(draft.probs), right.double(), rtol=1e-4, atol=1e-5)
    contexts = [context_after(drafter, target, TEXT[:length]) for length in (3, 9)]
    alone = [write_draft(drafter, target, contexts[seed], gamma=4, seed=seed) for seed in (0, 1)]
    drafter.propose_batch = drafter._rows.draft
    assert all(map(same_draft, write_drafts(drafter, target, contexts, gamma=4), alone))
    assert DFlashNetwork.read_checkpoint(tmp_path, target).config.windows == (4, None)
    assert_saved(tmp_path, target)


def test_one_pass_for_a_draft_and_only_new_tokens_are_read(target: Any) -> None:
    drafter = bound(DFlash("untrained", block=4), target)
    rows: list[int] = []
    network = held(drafter, DFlashNetwork)
    network.fc.register_forward_pre_hook(lambda _, x: rows.append(x[0].shape[1]))
    passes: list[int] = []
    network.register_forward_hook(lambda *_: passes.append(1))
    for length in (5, 8, 9):
        draft_after(drafter, target, TEXT[:length], 3)
    assert rows == [4, 3, 1]
    assert len(passes) == 3


MARKOV = {"markov_rank": 3, "markov_head_type": "vanilla"}
CONFIDENT = {"enable_confidence_head": True, "confidence_head_with_markov": True}
SELECTOR = {"selector_rank": 3, "selector_top_k": 4, "conv_kernel_size": 2, "conv_group_size": 16}
DFLASH2 = {"architectures": ["DFlash2DraftModel"], "block_size": BLOCK, "is_causal": False}


LILICORR = {
    "lilicorr_candidate_topk": 4, "lilicorr_hidden_size": 8, "lilicorr_num_layers": 3,
    "lilicorr_num_heads": 2, "lilicorr_mlp_ratio": 1.5, "lilicorr_factor_dim": 5,
    "lilicorr_vector_eps": 1e-6, "lilicorr_logit_scale": 10.0,
}  # fmt: skip
WALK: Any = {"layers": 3, "heads": 2, "ratio": 1.5, "factors": 5, "scale": 10.0}


def dspark(**changes: Any) -> dict[str, Any]:
    config = speculators(speculators_model_type="dspark", markov_rank=3) | changes
    del config["sample_from_anchor"]  # which is the default here
    return config


def deep_spec(**changes: Any) -> dict[str, Any]:
    """Returns a config of DeepSpec's, whose DFlash is its DSpark without heads."""
    own = {"block_size": BLOCK, "mask_token_id": MASK, "target_layer_ids": [0, 3]}
    own |= {"architectures": ["Qwen3DSparkModel"], "num_anchors": 512, "num_target_layers": 5}
    return decoder() | own | changes


HEADS = {"corrector.": "markov_head.", "confidence.": "confidence_head.proj."}
CODEBOOKS = {f"corrector.{name}_codebook.weight": f"candidate_selector.{name}_codebook"
             for name in ("predecessor", "successor")}  # fmt: skip
READ = {"corrector": CorrectorConfig("markov", 3), "from_anchor": True, "confident": "markov"}
CHOOSES = {"corrector": CorrectorConfig("selector", 3, 4), "from_anchor": False, "convolved": True}
LAYOUTS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = {
    "dspark": (dspark(), READ, HEADS),
    "dspark, states": (
        dspark(confidence_head_with_markov=False), READ | {"confident": "state"}, HEADS,
    ),
    "dspark, unsure": (dspark(enable_confidence_head=False), READ | {"confident": None}, HEADS),
    "dspark, gated": (
        dspark(markov_head_type="gated"), READ | {"corrector": CorrectorConfig("gated", 3)}, HEADS,
    ),
    "lilicorr": (
        z_lab(**LILICORR), {"corrector": CorrectorConfig("lilicorr", 8, 4, **WALK)},
        {"corrector.": "lilicorr."},
    ),
    "lilicorr, convolved and as wide as the network": (
        z_lab(**LILICORR | {"lilicorr_hidden_size": 0, "conv_kernel_size": 2}),
        {"corrector": CorrectorConfig("lilicorr", 16, 4, **WALK), "convolved": True},
        {"corrector.": "lilicorr."},
    ),
    "dspark of NVIDIA": (
        z_lab(projector_type="dspark", shift_label=True, use_confidence_head=True, **MARKOV)
        | {"architectures": ["DFlashDraftModel"], "causal": False},
        READ, {"corrector.": "", "confidence.": "confidence_proj."},
    ),
    "dspark of DeepSpec": (deep_spec(**MARKOV, **CONFIDENT), READ, HEADS),
    "dflash of DeepSpec": (
        deep_spec(markov_rank=0, enable_confidence_head=False),
        READ | {"corrector": None, "confident": None}, {},
    ),
    "dflash2": (
        speculators(speculators_model_type="dflash2", **SELECTOR), CHOOSES,
        {"corrector.": "candidate_selector."},
    ),
    "dflash2 of NVIDIA": (
        z_lab(**SELECTOR, projector_type="dflash2", causal=False) | DFLASH2, CHOOSES,
        CODEBOOKS | {"corrector.": "candidate_selector."},
    ),
    "domino": (
        z_lab(projector_type="domino", emb_dim=3, gru_hidden_dim=5, pure_draft_prefix_len=1)
        | {"emb_dim": 3},  # NVIDIA has both
        {"corrector": CorrectorConfig("domino", 3, memory=5, first=1), "from_anchor": False},
        {"corrector.": ""},
    ),
    "domino, shifted": (
        z_lab(projector_type="domino", emb_dim=3, gru_hidden_dim=5, shift_label=True),
        {"corrector": CorrectorConfig("domino", 3, memory=5), "from_anchor": True},
        {"corrector.": ""},
    ),
    "xpress": (
        speculators(speculators_model_type="xpress", xpress_rank=3, num_jacobi_passes=6),
        {"corrector": CorrectorConfig("xpress", 3)}, {"corrector.": "refiner_head."},
    ),
}  # fmt: skip
"""Published configs, what they stand for, and how the names of tensors begin, by our own ones."""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_published_correctors_are_read(layout: str, target: Any, tmp_path: Path) -> None:
    """What they compute is tested in `test_formulas`, and that drafts have it, beside it."""
    config, fields, names = LAYOUTS[layout]
    write(tmp_path, config, {})
    read = DFlashConfig.read(tmp_path)
    assert {name: getattr(read, name) for name in fields} == fields
    right = DFlashNetwork(target, Vocabulary(31), config=read).state_dict()
    right = {name: torch.rand(tensor.shape) for name, tensor in right.items()}
    tensors = checkpoint.replace_prefixes(right, names)
    tensors["embed_tokens.weight"] = weights.embedding(target).detach()
    write(tmp_path, config, tensors | {"lm_head.weight": weights.head(target).detach()})
    found = DFlashNetwork.read_checkpoint(tmp_path, target).state_dict()
    assert found.keys() == right.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in right.items())
    assert_saved(tmp_path, target)


FILES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = {
    "dflash": ({}, {}, {}),
    "windows": (
        SLIDING | {"is_causal": False},
        {"attention.sliding_window": 4, "attention.sliding_window_pattern": [True, False]}, {},
    ),
    "dspark": (
        MARKOV | {"architectures": ["DSparkDraftModel"]}, {"sample_from_anchor": True}, HEADS,
    ),
    "dflash2": (
        SELECTOR | {"architectures": ["DFlash2DraftModel"]}, SELECTOR,
        {"corrector.": "candidate_selector."},
    ),
}  # fmt: skip
"""What a published config and a GGUF file have beside DFlash's entries, and names as above."""


@pytest.mark.parametrize("layout", FILES)
def test_a_gguf_file_of_dflash_drafts_as_the_folder(
    layout: str, target: Any, tmp_path: Path
) -> None:
    added, entries, names = FILES[layout]
    write(tmp_path, z_lab() | added, {})
    network = DFlashNetwork(target, Vocabulary(31), config=DFlashConfig.read(tmp_path))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        own = {name: torch.randn(rows.shape) / 4 for name, rows in network.state_dict().items()}
    tensors = checkpoint.replace_prefixes(own, names)
    write(tmp_path, z_lab() | added, tensors)
    named = {theirs(name, "layers."): rows for name, rows in tensors.items()}
    entries = entries | SIZES | {
        "block_count": 2, "attention.key_length": 6, "attention.value_length": 6,
        "rope.dimension_count": 6, "rope.freq_base": 500.0, "block_size": BLOCK,
        "attention.layer_norm_rms_epsilon": 1e-5, "target_layers": [1, 4],
        "tokenizer.ggml.mask_token_id": MASK,
    }  # fmt: skip
    assert_same_drafts(DFlash, target, tmp_path, ("dflash", entries, named))


def test_a_published_dspark_foresees(model: Any, target: Any, tmp_path: Path) -> None:
    first, second = torch.randn(31, 3), torch.randn(31, 3)
    head = {"markov_head.markov_w1.weight": first, "markov_head.markov_w2.weight": second}
    read, added = torch.randn(1, 19), torch.randn(1)
    head |= {"confidence_head.proj.weight": read, "confidence_head.proj.bias": added}
    config = z_lab(projector_type="dspark", confidence_head_alpha=1.0, **MARKOV, **CONFIDENT)
    config |= {"architectures": ["DSparkDraftModel"]}
    drafter = bound(
        DFlash(write(tmp_path, config, tensors_of(model) | head), confidence=0.0), target
    )
    states: list[Any] = []
    held(drafter, DFlashNetwork).register_forward_hook(lambda _, given, out: states.append(out))
    draft = draft_after(drafter, target, TEXT, 9)
    assert len(draft) == BLOCK
    rows = torch.cat([states[0][0], first[[TEXT[-1], *draft.tokens[:-1]]]], dim=-1)
    assert drafter.foreseen == pytest.approx((rows @ read[0] + added).tolist(), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (z_lab() | {"calibration": [[1.0, 0.0]]}, r"calibration=.*: expected 4 pairs of numbers"),
        (z_lab(causal=False) | SLIDING, "causal=False: expected windows that end"),
    ],
)
def test_other_networks_are_refused(
    config: Any, line: str, model: Any, target: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=line):
        DFlash(write(tmp_path, config, tensors_of(model))).bind(target)


class TestConfidence:
    """The confidence head ends drafts that are unlikely to be accepted."""

    @pytest.mark.parametrize("corrector", [None, "markov"])
    def test_a_draft_ends_where_its_survival_is_too_low(
        self, corrector: str | None, target: Any
    ) -> None:
        whole = bound(DFlash("untrained", corrector=corrector, confidence=0.0), target)
        context = context_after(whole, target, TEXT)
        draft = write_draft(whole, target, context, gamma=7, sampling=SAMPLED, seed=1)
        network = held(whole, DFlashNetwork)
        states: list[Any] = []
        network.register_forward_hook(lambda _, given, out: states.append(out))
        write_draft(whole, target, context, gamma=7, sampling=SAMPLED, seed=1)
        before = torch.tensor([TEXT[-1], *draft.tokens[:-1]])
        survival = network.foreseen(states[0][0, 1:], before).sigmoid().cumprod(0).tolist()
        for kept in range(1, 7):
            limit = (survival[kept - 1] + survival[kept]) / 2
            short = bound(DFlash("untrained", corrector=corrector, confidence=limit), target)
            shorter = write_draft(short, target, context, gamma=7, sampling=SAMPLED, seed=1)
            assert shorter.tokens == draft.tokens[:kept]

    def test_a_calibrated_head_is_believed_as_calibrated(self, target: Any, tmp_path: Path) -> None:
        options = {"block": 4, "confident": "embedding"}
        DFlashNetwork.untrained(target, Vocabulary(31), **options).save_checkpoint(tmp_path, target)
        pairs = [[0.0, 2.0], [0.0, -1.0], [0.0, 0.0]]  # .88, .27 and .5, whatever the head says
        change(tmp_path, {"calibration": pairs})
        for limit, kept in ((0.9, 0), (0.25, 1), (0.2, 2), (0.1, 3)):
            drafter = bound(DFlash(str(tmp_path), confidence=limit), target)
            assert len(draft_after(drafter, target, TEXT, 7)) == kept
            assert len(drafter.foreseen) == kept
        assert_saved(tmp_path, target)

    def test_a_network_without_a_head_is_refused(
        self, model: Any, target: Any, tmp_path: Path
    ) -> None:
        path = write(tmp_path, z_lab(), tensors_of(model))
        with pytest.raises(ConfigError, match=r"confidence=0\.5: expected null, since the network"):
            DFlash(path, confidence=0.5).bind(target)
