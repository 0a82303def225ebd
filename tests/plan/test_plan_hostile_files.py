"""Files that a person names and that are no model: a sentence, and no waiting."""

from __future__ import annotations

import json
import os

import pytest

from course_lib import plan_command
from course_lib.plan.inputs.model import Decoder

SIZES = {"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32000}


def told(capsys, *words):
    assert plan_command.main([*words, "--batch", "8", "--seq", "128"]) == 2
    return capsys.readouterr().err


def pipe(path):
    os.mkfifo(path)


def endless(path):
    path.symlink_to("/dev/zero")


def giant(path):
    with path.open("wb") as file:
        file.truncate(3 << 30)


def deep(path):
    path.write_text("[" * 300_000)


@pytest.mark.parametrize(
    ("make", "why"),
    [(pipe, "it is a pipe"), (endless, "it is a device"), (giant, "3,072 MiB"), (deep, "nested deeper")],
)
@pytest.mark.parametrize("name", ["config.json", "mine"])
@pytest.mark.parametrize("option", ["--model", "--config", "--machine"])
def test_what_is_no_plain_file_is_told_at_once(tmp_path, capsys, option, name, make, why):
    make(tmp_path / name)
    words = [option, str(tmp_path / name)]
    assert why in told(capsys, *words, *(["--model", "gpt-2"] if option == "--machine" else []))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("num_hidden_layers", 10**9, "layers is at most 10,000. Use 10000."),
        ("num_hidden_layers", 10**5, "layers is at most 10,000"),
        ("num_local_experts", 10**12, "experts is at most 65,536"),
        ("hidden_size", 1 << 40, "hidden is at most 1,048,576"),
        ("vocab_size", 10**30, "vocab"),
        ("num_key_value_heads", 10**9, "kv_heads"),
        ("head_dim", 10**9, "head_dim is at most 65,536"),
        ("intermediate_size", 10**10, "ffn is at most 16,777,216"),
    ],
)
def test_sizes_beyond_every_model_are_told(tmp_path, capsys, key, value, words):
    (tmp_path / "config.json").write_text(json.dumps(SIZES | {"num_experts_per_tok": 2, key: value}))
    assert words in told(capsys, "--model", str(tmp_path / "config.json"))


def test_sizes_by_hand_have_the_same_bounds(capsys):
    words = "layers=99999999999 hidden=64 heads=4 vocab=100"
    assert "layers is at most 10,000" in told(capsys, "--sizes", words)


def test_the_name_in_a_file_steers_no_terminal(tmp_path, capsys):
    bad = "\x1b[2J\u202e" + "x" * 10**5
    (tmp_path / "config.json").write_text(json.dumps(SIZES | {"_name_or_path": bad}))
    plan_command.main(["--model", str(tmp_path / "config.json"), "--batch", "64", "--seq", "128", "--gpus", "1"])
    said = capsys.readouterr()
    assert "?[2Jxxx" in said.out
    assert not set(said.out + said.err) & set("\x1b\u202e")
    assert max(map(len, said.out.split("\n"))) < 400
    (tmp_path / "config.json").write_text(json.dumps(SIZES | {"model_type": bad}))
    assert len(told(capsys, "--model", str(tmp_path / "config.json"))) < 3000


def test_the_largest_of_each_still_counts():
    most = Decoder("most", layers=10_000, hidden=1 << 20, heads=1 << 16, ffn=1 << 24, vocab=1 << 28, experts=1 << 16)
    assert most.parameters > 1e20
