"""A Hugging Face ``config.json`` read as a ``Decoder``; and a sentence for what such a file tells and we do not know.

A family says what its configuration leaves out: whether the MLP has three matrices, which biases and norms there are,
and whether the output is the embedding again where the file is silent. A sliding window is not looked at: attention is
counted over the whole sequence.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from course_lib.base.checked import checked
from course_lib.base.foreign_text import one_line
from course_lib.base.named_file import json_of
from course_lib.plan.inputs.model import Decoder

__all__ = ["FAMILIES", "decoder_of_config", "decoder_of_file"]


@dataclass(frozen=True)
class _Family:
    """What all models of a ``model_type`` have in common."""

    gated: bool = True
    tied: bool = False  # where the file does not say
    norm: int = 1  # numbers a channel: 1 of RMSNorm, 2 of LayerNorm
    bias: str = ""  # "all" matrices, those of "qkv", or none
    head_norms: str = ""  # of queries and keys: "head", one for all heads, or "width", over all of them
    more_norms: int = 0  # in a layer, beside the usual two
    positions: str = ""  # the key of how many are learned


FAMILIES = {
    "llama": _Family(),
    "mistral": _Family(),
    "mixtral": _Family(),
    "phi3": _Family(),
    "qwen2": _Family(bias="qkv"),
    "qwen2_moe": _Family(bias="qkv"),
    "qwen3": _Family(head_norms="head"),
    "qwen3_moe": _Family(head_norms="head"),
    "gemma": _Family(tied=True),
    "gemma2": _Family(tied=True, more_norms=2),
    "olmo2": _Family(head_norms="width"),
    "gpt2": _Family(gated=False, tied=True, norm=2, bias="all", positions="n_positions"),
    "gpt_neox": _Family(gated=False, norm=2, bias="all"),
}

# What config.json files call a size: the first name that is there counts.
_NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head"),
    "vocab": ("vocab_size",),
}
_MORE_NAMES = ("num_key_value_heads", "head_dim", "num_local_experts", "num_experts", "num_experts_per_tok")
_BY_HAND = 'Give its sizes by hand instead: --sizes "layers=32 hidden=4096 ...".'

# Keys of models that are no plain decoders, with what they mean.
_STRANGE = {
    "kv_lora_rank": "keys and values pass through a narrow matrix (latent attention)",
    "state_size": "its layers are state-space layers and have no attention",
    "shared_expert_intermediate_size": "an expert that every token meets stands beside the others",
    "n_shared_experts": "experts that every token meets stand beside the others",
    "first_k_dense_replace": "its first layers have no experts, and the others have",
    "mlp_only_layers": "some of its layers have no experts, and the others have",
}


@checked
def decoder_of_file(path: Path) -> Decoder:
    """The model of a ``config.json``; ValueError where there is none, or none that can be read."""
    try:
        config = json_of(path)
    except OSError as error:
        raise ValueError(f"model is {str(path)!r}, which cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}.") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path} holds a {type(config).__name__}; a config.json is an object of names.")
    found = decoder_of_config(config)
    own = one_line(path.stem if path.stem != "config" else path.resolve().parent.name, 80)
    return replace(found, name=own or "model") if found.name == "model" else found


@checked
def decoder_of_config(config: Mapping[str, Any]) -> Decoder:
    """The model of a Hugging Face configuration, of the families in ``FAMILIES``, with experts or without.

    ValueError names the first size that is missing, or what the planner does not know of such models.
    """
    _refuse_what_is_strange(config)
    sizes = {ours: _first(config, ours, theirs) for ours, theirs in _NAMES.items()}
    more = {name: _whole(config, name) or 0 for name in _MORE_NAMES}
    family = _family(config)
    experts = more["num_local_experts"] or more["num_experts"] or 1
    ffn = _whole(config, "intermediate_size") or _whole(config, "n_inner") or 4 * sizes["hidden"]
    if experts > 1:
        ffn = _whole(config, "moe_intermediate_size") or ffn
    plain = Decoder(
        name=one_line(config.get("_name_or_path") or "", 80) or "model",
        **sizes,
        ffn=ffn,
        kv_heads=more["num_key_value_heads"],
        head_dim=more["head_dim"],
        gated=family.gated,
        tied=bool(config.get("tie_word_embeddings", family.tied)),
        experts=experts,
        experts_per_token=more["num_experts_per_tok"] or 1,
        positions=(_whole(config, family.positions) or 1024) if family.positions else 0,
        norm_parameters=family.norm,
        bias=family.bias == "all",
    )
    return replace(plain, extra_layer_parameters=_extra(plain, family, config))


def _extra(model: Decoder, family: _Family, config: Mapping[str, Any]) -> int:
    """Numbers of a layer that the sizes do not tell: some biases, and norms of queries and keys."""
    found = family.more_norms * family.norm * model.hidden
    if family.bias == "qkv":
        found += model.q_width + 2 * model.kv_width
    elif not family.bias and config.get("attention_bias"):
        found += model.q_width + 2 * model.kv_width + model.hidden
    if family.head_norms == "head":
        found += 2 * model.q_width // model.heads
    elif family.head_norms == "width":
        found += model.q_width + model.kv_width
    return found


def _refuse_what_is_strange(config: Mapping[str, Any]) -> None:
    if config.get("is_encoder_decoder"):
        raise ValueError(
            "The configuration is of a model with an encoder and a decoder. The planner knows models with a decoder "
            f"only, such as {', '.join(list(FAMILIES)[:3])}."
        )
    if isinstance(config.get("text_config"), dict) and "hidden_size" not in config:
        raise ValueError(
            "The configuration is of a model that also takes images or sound, and the planner plans text only. Put "
            "its text_config in a file of its own, and plan that part."
        )
    for key, meaning in _STRANGE.items():
        if config.get(key):
            raise ValueError(
                f"The configuration has {key}={config[key]!r}: {meaning}, which the planner cannot count. {_BY_HAND}"
            )
    step = config.get("decoder_sparse_step", 1)
    if step != 1:
        raise ValueError(
            f"The configuration has decoder_sparse_step={step!r}: only some of its layers have experts, and the "
            f"planner cannot count such models. {_BY_HAND}"
        )


def _family(config: Mapping[str, Any]) -> _Family:
    kind = str(config.get("model_type") or "")
    if not kind:
        return FAMILIES["llama" if "intermediate_size" in config else "gpt2"]
    if kind not in FAMILIES:
        near = difflib.get_close_matches(kind, FAMILIES, n=1, cutoff=0.5)
        guess = f" The nearest is {near[0]}." if near else ""
        raise ValueError(
            f"The configuration's model_type is {kind!r}; the planner knows {', '.join(FAMILIES)}.{guess} {_BY_HAND}"
        )
    return FAMILIES[kind]


def _first(config: Mapping[str, Any], ours: str, theirs: tuple[str, ...]) -> int:
    for name in theirs:
        if (found := _whole(config, name)) is not None:
            return found
    raise ValueError(f"The configuration has no {ours}: it should name {' or '.join(theirs)}.")


def _whole(config: Mapping[str, Any], name: str) -> int | None:
    """A whole number of the file; None where it is silent."""
    value = config.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"The configuration says {name}={value!r}; it is a whole number, as in {name}: 32.")
    return value
