"""``course plan``: models, machines and layouts as people type them, and a sentence for each that cannot be."""

from __future__ import annotations

import json
import re

import pytest

from course_lib import cli

LINE = ["plan", "--model", "llama-3-8b", "--machine", "8xh100", "--batch", "64", "--seq", "8192"]
ONE = ["--layout", "tp=8 mb=1"]


def page(capsys, *words: str, line=LINE, code: int = 0) -> str:
    assert cli.main([*line, *words]) == code
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "lama-3-8b"], "Did you mean 'llama-3-8b'"),
        (["--machine", "8xh10"], "Did you mean '8xh100'"),
        (["--machine", "4xh100"], "For 4 of its GPUs give --machine 8xh100 --gpus 4"),
        (["--machine", "tpu-v5"], "it is one of 8xv100"),
        (["--gpus", "9"], "The nearest is 8"),
        (["--gpus", "0"], "gpus=0 does not work"),
        (["--nodes", "0"], "nodes=0 does not work"),
        (["--nodes", "2", "--gpus", "8"], "give one of them"),
        (["--nodes", "2", "--max-gpus", "8"], "leave out --nodes and --gpus"),
        (["--max-gpus", "0"], "max_gpus=0 does not work"),
        (["--batch", "0"], "batch=0 does not work"),
        (["--seq", "0"], "seq=0 does not work"),
        (["--seq", "8k"], "argument --seq: '8k' is not a whole number, such as 8192"),
        (["--seq", "99999999999999999999999"], "it is at most 1,073,741,824"),
        (["--model", "gpt-2", "--seq", "4096"], "has 1024 positions. The nearest is 1024"),
        (["--model", "gpt-2", "--seq", "1025"], "has 1024 positions. The nearest is 1024"),
        (["--layout", "zp=2"], "--layout is 'zp'; it is one of tp"),
        (["--layout", "tp=two"], "a size is a whole number, as in tp=2"),
        (["--layout", "tp=3"], "3 does not divide 8. The nearest tp that works is 2"),
        (["--layout", "tp=4 pp=3"], "12 does not divide 8. The nearest pp that works is 2"),
        (["--layout", "tp=1 cp=1 pp=1 dp=4"], "give --gpus 4, or leave dp out"),
        (["--layout", "zero=7"], "sharding is 7; it is 0, 1, 2 or 3. The nearest is 3"),
        (["--layout", "recompute=some"], "recompute is 'some'; it is one of none, selective, full"),
        (["--price-per-gpu-hour", "2"], "--price-per-gpu-hour is about a whole training: give its --tokens"),
        (["--days", "2"], "--days is about a whole training"),
        (["--tokens", "-1"], "argument --tokens: -1 is not a number above zero"),
        (["--tokens", "many"], "many is not a number above zero"),
        (["--tokens", "15TB"], "15TB is not a number above zero"),
        (["--tokens", "1kk"], "1kk is not a number above zero"),
        (["--dtype", "float64"], "--dtype is 'float64'; it is one of bfloat16, float8"),
        (["--dtype", "float8", "--machine", "8xa100"], "no rate for it. The nearest is 'bfloat16'"),
        (["--layout", "tp=²"], "--layout says 'tp=²'; a size is a whole number"),
        (["--sizes", "layers=²"], "--sizes says 'layers=²'; a size is a whole number"),
        (["--memory", "0"], "0 is not a number above zero"),
        (["--network-gbit", "0"], "0 is not a number above zero"),
        (
            ["--network-gbit", "1M"],
            "--network-gbit is 1e+06; it is above 0 and at most 100,000. The nearest is 100,000",
        ),
        (["--memory", "200"], "a GPU of 8x H100 has 85.5 GB. The nearest is 85.5"),
        (["--profile", "Selena"], "Did you mean 'Selene'"),
        (["--picture", "plan.jpg"], "its name ends in .png or .svg"),
        (["--type", "jax"], "--type is 'jax'; it is one of course, torchtitan"),
        (["--pick", "99999"], "layouts run. The nearest is"),
        (["--top", "0"], "--top is 0; it is at least 1"),
        (["--config", "x.json"], "--model and --config both name a model"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate. `course plan --help` has an example"),
    ],
)
def test_impossible_wishes_get_a_sentence(words: list[str], said: str, capsys) -> None:
    assert cli.main([*LINE, *words]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: --batch, --seq"),
        (["--batch", "8", "--seq", "8"], "there is no model. Give --model, one of gpt-2"),
        (["--batch", "8", "--seq", "8", "--sizes", "layers=2"], "--sizes has no hidden"),
        (["--batch", "8", "--seq", "8", "--sizes", "depth=2"], "--sizes is 'depth'; it is one of layers"),
        (["--batch", "8", "--seq", "8", "--config", "nowhere.json"], "cannot be read"),
    ],
)
def test_what_is_missing_is_said(words: list[str], said: str, capsys) -> None:
    assert cli.main(["plan", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_layout_that_cannot_be_is_explained(capsys) -> None:
    out = page(capsys, "--layout", "tp=8 dp=1 mb=1", "--memory", "5", code=1)
    assert re.search(r"\d+ +memory, mostly", out)
    out = page(capsys, "--layout", "tp=1 pp=8 mb=1 v=16", code=1)
    assert "pp8 mb1 v16: 128 stages for 32 layers" in out


def test_a_layout_can_be_asked_for_as_it_is_printed(capsys, tmp_path) -> None:
    file = tmp_path / "plan.json"
    for words in ("tp2 dp4 mb1 zero1 sp selective", "dp16 mb1 zero3/8 full", "fsdp"):
        page(capsys, "--layout", words, "--nodes", "1" if "tp2" in words else "2", "--json", str(file))
        names = [one["name"] for one in json.loads(file.read_text())["options"]]
        assert names
        if words == "fsdp":
            assert all("zero3" in name for name in names)
        else:
            assert set(names) == {words}


@pytest.mark.parametrize("offload", [True, False])
def test_offloading_is_what_was_asked_for(offload: bool, capsys) -> None:
    words = [*ONE, "--json", "-", *(["--offload"] if offload else [])]
    found = json.loads(page(capsys, *words))["options"]
    assert found
    assert all(one["layout"]["offload"] == offload for one in found)
    assert all((one["memory"]["optimizer_bytes"] == 0) == offload for one in found)


def test_a_micro_batch_that_is_not_tried_can_be_asked_for(capsys) -> None:
    line = ["plan", "--model", "gpt-2", "--gpus", "1", "--batch", "32", "--seq", "1024", "--layout", "mb=32"]
    out = page(capsys, line=line)
    assert "1 layout runs, 0 do not." in out
    assert "one GPU mb32" in out


@pytest.mark.parametrize("name", ["gpt2", "GPT-2", "gpt_2"])
def test_a_model_is_known_as_people_type_it(name: str, capsys) -> None:
    line = ["plan", "--batch", "8", "--seq", "256", "--gpus", "1", "--model"]
    assert page(capsys, name, line=line).startswith("gpt-2, ")


@pytest.mark.parametrize("name", ["8xh100", "8x H100", "H100", "8x-h100", "h100"])
def test_a_machine_is_known_as_people_type_it(name: str, capsys) -> None:
    assert "8 GPUs of 8x H100" in page(capsys, *ONE, "--machine", name)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", ["nvl72", "GB200 NVL72", "gb200"])
def test_so_is_a_rack(name: str, capsys) -> None:
    out = page(capsys, "--layout", "tp=8 mb=1 pp=1", "--batch", "72", "--machine", name)
    assert "72 GPUs of 72x GB200" in out


def test_sizes_by_hand_and_experts(capsys) -> None:
    line = ["plan", "--machine", "8xh100", "--batch", "64", "--seq", "2048", "--top", "1"]
    line += ["--layout", "tp=1 cp=1"]
    by_hand = "layers=32 hidden=4096 heads=32 kv_heads=8 ffn=14336 vocab=32000 gated experts=8 experts_per_token=2"
    outs = [
        page(capsys, "--nodes", "2", *words, line=line).replace("by sizes", "mixtral-8x7b")
        for words in (["--sizes", by_hand], ["--model", "mixtral-8x7b"])
    ]
    assert outs[0] == outs[1]
    assert "46.70 billion" in outs[0]
    half = page(capsys, "--model", "llama-3-8b", "--sizes", "layers=16", line=line)
    assert half.startswith("llama-3-8b, changed, 4.54 billion")


def test_a_config_json_is_a_model(capsys, tmp_path) -> None:
    sizes = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "vocab_size": 32000}
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "intermediate_size": 2048} | sizes))
    line = ["plan", "--batch", "8", "--seq", "256", "--gpus", "1"]
    outs = [
        page(capsys, *words, line=line)
        for words in (
            ["--config", str(folder)],
            ["--model", str(folder / "config.json")],
            ["--model", str(folder)],
        )
    ]
    assert outs[0] == outs[1] == outs[2]
    assert outs[0].startswith("my-model, 134.1 million")
    (folder / "config.json").write_text("{")
    assert cli.main([*line, "--config", str(folder)]) == 2
    assert "config.json is no JSON" in capsys.readouterr().err


@pytest.mark.limit_s(60)
def test_a_sequence_that_nothing_divides_takes_no_longer(capsys) -> None:
    out = page(capsys, "--seq", "1000001", "--layout", "cp=2", code=1)
    assert "cp=2 needs 4 equal pieces of 1000001 tokens" in out
