"""A decoder by its sizes: what the planner must know of a model, and what follows from it exactly.

Parameters are counted as papers and ``config.json`` files do: matrices, norms where they matter, the embedding and the
output, which may be one matrix. FLOPs are of matrices and attention: a multiplication and its addition are two.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from course_lib.checked import checked
from course_lib.checks import at_least, divides
from course_lib.cost.architectures import TransformerSizes

__all__ = ["MODELS", "Decoder", "decoder", "decoder_of_config", "decoder_of_sizes"]


@checked
@dataclass(frozen=True)
class Decoder:
    """Sizes of a decoder. ``ffn`` is the width inside an MLP, of each of the three matrices of a gated one.

    With ``experts`` above 1 each layer has that many MLPs, of which a token meets ``experts_per_token``.
    ``kv_heads=0``: as many as ``heads``; ``head_dim=0``: ``hidden / heads``; ``positions``: learned ones, 0 for none.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    kv_heads: int = 0
    head_dim: int = 0
    gated: bool = False
    tied: bool = False
    experts: int = 1
    experts_per_token: int = 1
    positions: int = 0
    norm_parameters: int = 2  # numbers a channel: 2 of LayerNorm, 1 of RMSNorm
    bias: bool = False

    def __post_init__(self) -> None:
        at_least(1, layers=self.layers, hidden=self.hidden, heads=self.heads, ffn=self.ffn, vocab=self.vocab)
        at_least(1, experts=self.experts, experts_per_token=self.experts_per_token)
        at_least(0, kv_heads=self.kv_heads, head_dim=self.head_dim, positions=self.positions)
        divides(self.heads, "heads", kv_heads=self.kv_heads or self.heads)
        if not self.head_dim:
            divides(self.hidden, "channels (hidden)", heads=self.heads)
        if self.experts_per_token > self.experts:
            raise ValueError(
                f"experts_per_token={self.experts_per_token} does not work: a token meets at most all "
                f"{self.experts} experts. The nearest that works is {self.experts}."
            )

    @cached_property
    def q_width(self) -> int:
        """Width of the queries of all heads."""
        return self.heads * (self.head_dim or self.hidden // self.heads)

    @cached_property
    def kv_width(self) -> int:
        """Width of the keys, and of the values."""
        return self.q_width * (self.kv_heads or self.heads) // self.heads

    @cached_property
    def attention_weights(self) -> int:
        """Numbers in the four matrices of an attention."""
        return 2 * self.hidden * (self.q_width + self.kv_width)

    @cached_property
    def mlp_weights(self) -> int:
        """Numbers in the matrices of one MLP, of one expert."""
        return (3 if self.gated else 2) * self.hidden * self.ffn

    @cached_property
    def small_weights(self) -> int:
        """Norms, biases and a router: what a layer has beside its matrices."""
        biases = self.q_width + 2 * self.kv_width + 2 * self.hidden + (2 if self.gated else 1) * self.ffn
        router = self.hidden * self.experts if self.experts > 1 else 0
        return 2 * self.norm_parameters * self.hidden + (biases if self.bias else 0) + router

    @cached_property
    def layer_parameters(self) -> int:
        """All numbers of one layer, with every expert."""
        return self.attention_weights + self.experts * self.mlp_weights + self.small_weights

    @cached_property
    def active_layer_weights(self) -> int:
        """The numbers of a layer's matrices that a token meets."""
        return self.attention_weights + self.experts_per_token * self.mlp_weights

    @cached_property
    def embedding_parameters(self) -> int:
        """One table of the vocabulary; the output is another, unless tied."""
        return self.vocab * self.hidden

    @cached_property
    def parameters(self) -> int:
        """All parameters; tied ones count once."""
        tables = (1 if self.tied else 2) * self.embedding_parameters
        ends = (self.positions + self.norm_parameters) * self.hidden
        return self.layers * self.layer_parameters + tables + ends

    def attention_flops(self, seq: int, *, causal: bool = False) -> float:
        """FLOPs of scores and averages for one token, forward, in one layer; ``causal`` counts half of them."""
        return 4.0 * seq * self.q_width * (0.5 if causal else 1.0)

    def forward_flops(self, seq: int, *, causal: bool = False) -> float:
        """FLOPs of a forward pass for one token of a sequence of ``seq``."""
        layer = 2 * self.active_layer_weights + self.attention_flops(seq, causal=causal)
        return self.layers * layer + 2 * self.embedding_parameters

    def step_flops(self, seq: int, batch: int, *, recompute: str = "none") -> float:
        """FLOPs that a step executes on ``batch`` sequences: three passes' worth, and what is computed again.

        With full recomputation of all but the output this is equation 3 of Narayanan et al., 2021:
        96 B s l h^2 (1 + s/6h + V/16lh).
        """
        again = 0.0
        if recompute == "full":
            again = self.forward_flops(seq) - 2 * self.embedding_parameters
        elif recompute == "selective":
            again = self.layers * self.attention_flops(seq)
        return batch * seq * (3 * self.forward_flops(seq) + again)


def _llama(name: str, layers: int, hidden: int, heads: int, ffn: int, **others: Any) -> Decoder:
    sizes: dict[str, Any] = {"vocab": 128256, "kv_heads": 8, "gated": True, "norm_parameters": 1} | others
    return Decoder(name, layers, hidden, heads, ffn, **sizes)


def _gpt(name: str, layers: int, hidden: int, heads: int, vocab: int = 51200) -> Decoder:
    return Decoder(name, layers, hidden, heads, 4 * hidden, vocab, tied=True, positions=2048, bias=True)


MODELS = {
    model.name: model
    for model in (
        Decoder("gpt-2", 12, 768, 12, 3072, 50257, tied=True, positions=1024, bias=True),
        Decoder("gpt-2-xl", 48, 1600, 25, 6400, 50257, tied=True, positions=1024, bias=True),
        _gpt("gpt-3-175b", 96, 12288, 96),
        _gpt("megatron-530b", 105, 20480, 128),
        _llama("llama-2-7b", 32, 4096, 32, 11008, vocab=32000, kv_heads=32),
        _llama("llama-3-8b", 32, 4096, 32, 14336),
        _llama("llama-3-70b", 80, 8192, 64, 28672),
        _llama("llama-3-405b", 126, 16384, 128, 53248),
        _llama("mixtral-8x7b", 32, 4096, 32, 14336, vocab=32000, experts=8, experts_per_token=2),
    )
}


@checked
def decoder(name: str) -> Decoder:
    """A model by name, or by the path of a Hugging Face ``config.json``; ValueError with the names there are."""
    if name in MODELS:
        return MODELS[name]
    path = Path(name)
    if path.suffix == ".json" or path.is_file():
        return decoder_of_file(path)
    near = difflib.get_close_matches(name.lower(), MODELS, n=1, cutoff=0.4)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"model is {name!r}; it is one of {', '.join(MODELS)}, or the path of a Hugging Face config.json.{guess}"
    )


def decoder_of_file(path: Path) -> Decoder:
    """The model of a ``config.json``; ValueError where there is none, or none that can be read."""
    try:
        config = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"model is {str(path)!r}, which cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}.") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path} holds a {type(config).__name__}; a config.json is an object of names.")
    found = decoder_of_config(config)
    return replace(found, name=path.parent.name or path.stem) if found.name == "model" else found


# What config.json files call a size: the first name that is there counts.
_NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head"),
    "vocab": ("vocab_size",),
}
_GATED = (
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "gemma",
    "gemma2",
    "qwen2_moe",
    "qwen3_moe",
    "olmo2",
)


@checked
def decoder_of_config(config: Mapping[str, Any]) -> Decoder:
    """The model of a Hugging Face configuration: GPT-2's and Llama's families, with experts or without.

    ValueError names the first size that is missing.
    """
    sizes: dict[str, int] = {}
    for ours, theirs in _NAMES.items():
        found = [config[name] for name in theirs if isinstance(config.get(name), int)]
        if not found:
            raise ValueError(f"The configuration has no {ours}: it should name {' or '.join(theirs)}.")
        sizes[ours] = found[0]
    kind = str(config.get("model_type", ""))
    gated = kind in _GATED or (not kind and "intermediate_size" in config)
    experts = config.get("num_local_experts") or config.get("num_experts") or 1
    ffn = config.get("intermediate_size") or config.get("n_inner") or 4 * sizes["hidden"]
    if experts > 1 and config.get("moe_intermediate_size"):
        ffn = config["moe_intermediate_size"]
    return Decoder(
        name=str(config.get("_name_or_path") or "model"),
        **sizes,
        ffn=ffn,
        kv_heads=config.get("num_key_value_heads") or 0,
        head_dim=config.get("head_dim") or 0,
        gated=gated,
        tied=bool(config.get("tie_word_embeddings", not gated)),
        experts=experts,
        experts_per_token=config.get("num_experts_per_tok") or 1,
        positions=0 if gated else config.get("n_positions") or 0,
        norm_parameters=1 if gated else 2,
        bias=not gated,
    )


@checked
def decoder_of_sizes(sizes: TransformerSizes, *, name: str = "transformer") -> Decoder:
    """The planner's view of a configuration of the course's own ``Transformer``."""
    return Decoder(
        name=name,
        layers=sizes.num_layers,
        hidden=sizes.width,
        heads=sizes.num_heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        ffn=sizes.mlp_hidden,
        vocab=sizes.vocab_size,
        tied=sizes.tied,
        positions=sizes.context_length,
        norm_parameters=1 + sizes.bias,
        bias=sizes.bias,
    )
