"""Models by their sizes: parameters and FLOPs to the unit, and configurations as Hugging Face writes them."""

from __future__ import annotations

import json

import pytest

from course_lib.cost import transformer_parameters
from course_lib.models import TransformerConfig
from course_lib.plan import MODELS, Decoder, decoder, decoder_of_config, decoder_of_sizes

LLAMA_3_8B = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama-3-8b", 8_030_261_248),  # as the model's page counts them
        ("llama-3-70b", 70_553_706_496),
        ("llama-3-405b", 405_853_388_800),
        ("llama-2-7b", 6_738_415_616),
        ("mixtral-8x7b", 46_702_792_704),
        ("gpt-2", 124_439_808),
        ("gpt-2-xl", 1_557_611_200),
    ],
)
def test_parameters_are_those_of_the_published_models(name: str, parameters: int) -> None:
    assert MODELS[name].parameters == parameters


def test_a_configuration_of_the_course_has_as_many_parameters_as_its_model() -> None:
    config = TransformerConfig(vocab_size=101, context_length=32, num_layers=3, width=64, num_heads=4)
    assert decoder_of_sizes(config).parameters == sum(transformer_parameters(config))


def test_a_step_is_equation_3_of_narayanan_et_al() -> None:
    layers, h, s, vocab, batch = 96, 12288, 2048, 51200, 1536
    model = Decoder("175b", layers, h, 96, 4 * h, vocab)
    wanted = 96 * batch * s * layers * h**2 * (1 + s / (6 * h) + vocab / (16 * layers * h))
    assert model.step_flops(s, batch, recompute="full") == pytest.approx(wanted, rel=1e-12)


def test_experts_count_once_for_a_token_and_all_in_memory() -> None:
    dense, mixture = MODELS["llama-3-8b"], MODELS["mixtral-8x7b"]
    assert mixture.active_layer_weights == dense.active_layer_weights + dense.mlp_weights
    assert mixture.layer_parameters > 7 * dense.mlp_weights


def test_a_config_json_is_read(tmp_path) -> None:
    file = tmp_path / "my-model" / "config.json"
    file.parent.mkdir()
    file.write_text(json.dumps(LLAMA_3_8B))
    found = decoder(str(file))
    assert found.name == "my-model"
    assert found.parameters == MODELS["llama-3-8b"].parameters


def test_a_config_of_gpt_2_is_read() -> None:
    config = {
        "model_type": "gpt2",
        "n_layer": 12,
        "n_embd": 768,
        "n_head": 12,
        "vocab_size": 50257,
        "n_positions": 1024,
    }
    assert decoder_of_config(config).parameters == MODELS["gpt-2"].parameters


def test_what_cannot_be_read_is_said(tmp_path) -> None:
    with pytest.raises(ValueError, match="Did you mean 'llama-3-8b'"):
        decoder("llama-3-8")
    with pytest.raises(ValueError, match="no hidden: it should name hidden_size"):
        decoder_of_config({"num_hidden_layers": 2})
    with pytest.raises(ValueError, match="cannot be read"):
        decoder(str(tmp_path / "config.json"))
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(ValueError, match="is no JSON"):
        decoder(str(broken))
    broken.write_text("[]")
    with pytest.raises(ValueError, match="holds a list"):
        decoder(str(broken))
    with pytest.raises(ValueError, match="The nearest that works is 4"):
        Decoder("x", 1, 64, 4, 64, 10, experts=4, experts_per_token=5)
