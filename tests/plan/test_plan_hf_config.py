"""``config.json`` files of many families: parameters as their pages count them, and a sentence for what is unknown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from course_lib.plan import MODELS, decoder, decoder_of_config, decoder_of_words

LLAMA = {"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32000}
QWEN2_7B = {
    "model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
    "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": False,
}  # fmt: skip
QWEN3_0_6B = {
    "model_type": "qwen3", "num_hidden_layers": 28, "hidden_size": 1024, "num_attention_heads": 16, "head_dim": 128,
    "num_key_value_heads": 8, "intermediate_size": 3072, "vocab_size": 151936, "tie_word_embeddings": True,
}  # fmt: skip
QWEN3_30B_A3B = {
    "model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32,
    "head_dim": 128, "num_key_value_heads": 4, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "vocab_size": 151936, "tie_word_embeddings": False,
}  # fmt: skip
MISTRAL_7B = LLAMA | {
    "model_type": "mistral", "num_key_value_heads": 8, "intermediate_size": 14336, "tie_word_embeddings": False,
}  # fmt: skip
MIXTRAL = MISTRAL_7B | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
PYTHIA_1B = {
    "model_type": "gpt_neox", "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 8,
    "intermediate_size": 8192, "vocab_size": 50304, "tie_word_embeddings": False,
}  # fmt: skip
GPT_2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257, "n_ctx": 1024}
OLMO2_7B = LLAMA | {"model_type": "olmo2", "intermediate_size": 11008, "vocab_size": 100352}


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (QWEN2_7B, 7_615_616_512),
        (QWEN3_0_6B, 596_049_920),
        (QWEN3_30B_A3B, 30_532_122_624),
        (MISTRAL_7B, 7_241_732_096),
        (MIXTRAL, 46_702_792_704),
        (PYTHIA_1B, 1_011_781_632),
        (GPT_2, 124_439_808),
        (OLMO2_7B, 7_298_617_344),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_parameters_are_those_of_the_published_models(config: dict, parameters: int) -> None:
    assert decoder_of_config(config).parameters == parameters


def test_more_models_by_name() -> None:
    counts = {"llama-2-13b": 13_015_864_320, "llama-2-70b": 68_976_648_192, "llama-3.2-1b": 1_235_814_400}
    assert {name: MODELS[name].parameters for name in counts} == counts
    for name in ("Llama-3-8B", "llama3-8b", "llama-3.1-8b"):
        assert decoder(name) == MODELS["llama-3-8b"]
    assert decoder("llama-3.2-1b") == MODELS["llama-3.2-1b"]
    assert decoder_of_config(MISTRAL_7B).parameters == MODELS["mistral-7b"].parameters


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, "latent attention"),
        ({"model_type": "mamba", "state_size": 16}, "state-space layers"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "an encoder and a decoder"),
        ({"model_type": "llava", "text_config": {}}, "Put its text_config in a file of its own"),
        (QWEN3_30B_A3B | {"decoder_sparse_step": 2}, "only some of its layers have experts"),
        (QWEN3_30B_A3B | {"mlp_only_layers": [0]}, "some of its layers have no experts"),
        (MIXTRAL | {"shared_expert_intermediate_size": 64}, "an expert that every token meets"),
        (LLAMA | {"model_type": "lama"}, "the planner knows llama, mistral.*The nearest is llama"),
        (LLAMA | {"model_type": "bert"}, "model_type is 'bert'"),
        (LLAMA | {"hidden_size": "4096"}, "says hidden_size='4096'; it is a whole number"),
        (LLAMA | {"num_key_value_heads": 5}, "kv_heads=5 does not work"),
    ],
)
def test_what_the_planner_cannot_know_is_said(config: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decoder_of_config(config)


def test_a_folder_with_a_config_is_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-mistral"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(MISTRAL_7B))
    (folder / "small.json").write_text(json.dumps(GPT_2))
    assert decoder(str(folder)).name == "my-mistral"
    assert decoder(str(folder / "small.json")).name == "small"


def test_sizes_in_words() -> None:
    words = "layers=32 hidden=4096, heads=32 kv_heads=8 ffn=14336 vocab=128256 gated"
    assert decoder_of_words(words).parameters == MODELS["llama-3-8b"].parameters
    plain = decoder_of_words("layers=2 hidden=64 heads=4 vocab=100")
    assert (plain.ffn, plain.gated, plain.tied) == (256, False, False)
    changed = decoder_of_words("tied layers=2", base=MODELS["llama-3-8b"])
    assert changed == replace(MODELS["llama-3-8b"], name="llama-3-8b, changed", tied=True, layers=2)
    assert not decoder_of_words("tied=no", base=MODELS["gpt-2"]).tied
    for wrong, said in (
        ("layers", "a size is a whole number"),
        ("tied=2", "tied stands alone"),
        ("width=4", "Did you mean|it is one of layers"),
        ("layers=2 hidden=64 heads=4", "has no vocab"),
        ("layers=2 hidden=64 heads=5 vocab=9", "The nearest that works is 4"),
    ):
        with pytest.raises(ValueError, match=said):
            decoder_of_words(wrong)
