"""``course plan``: what it prints and keeps, and a sentence for each wish that cannot be."""

from __future__ import annotations

import json

import pytest

from course_lib import cli

LINE = ["plan", "--model", "llama-3-8b", "--machine", "8xh100", "--batch", "64", "--seq", "8192"]
ONE = ["--layout", "tp=8 mb=1"]


def test_the_main_line(capsys) -> None:
    assert cli.main([*LINE, *ONE, "--top", "3"]) == 0
    out = capsys.readouterr().out
    assert "8.03 billion parameters; 64 sequences of 8192 tokens a step; 8 GPUs of 8x H100" in out
    assert "Time of a step with tp8 mb1 sp" in out
    assert "Memory of its fullest GPU" in out
    assert "tokens/s" in out


def test_days_energy_and_cost(capsys) -> None:
    more = ["--tokens", "1e11", "--price", "2", "--days", "0.5"]
    assert cli.main([*LINE, *ONE, *more]) == 0
    out = capsys.readouterr().out
    assert "energy, MWh" in out
    assert "cost" in out
    assert "0.5 were asked for" in out


def test_the_plan_is_kept_as_json(tmp_path, capsys) -> None:
    file = tmp_path / "plan.json"
    assert cli.main([*LINE, *ONE, "--tokens", "1e12", "--price", "2", "--json", str(file)]) == 0
    kept = json.loads(file.read_text())
    best = kept["options"][0]
    assert best["layout"]["tp"] == 8
    assert best["step_s"] == pytest.approx(sum(best["time"].values()))
    assert best["days"] == pytest.approx(1e12 / best["tokens_per_s"] / 86400)
    assert best["cost"] == pytest.approx(best["days"] * 24 * 8 * 2)
    assert best["energy_mwh"] == pytest.approx(best["days"] * 24 * 8 * 700e-6)
    assert 0 < best["share_of_peak"] < 1
    assert cli.main([*LINE, *ONE, "--json", str(tmp_path / "no" / "plan.json")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_nothing_runs_and_what_would(capsys) -> None:
    small = [
        "plan",
        "--model",
        "llama-3-8b",
        "--machine",
        "8xh100",
        "--gpus",
        "1",
        "--batch",
        "8",
        "--seq",
        "8192",
    ]
    assert cli.main(small) == 1
    out = capsys.readouterr().out
    assert "0 layouts run" in out
    assert "Nearest was one GPU" in out
    assert "The nearest number of GPUs on which it runs is" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "lama-3-8b"], "Did you mean 'llama-3-8b'"),
        (["--machine", "8xh10"], "machine is '8xh10'"),
        (["--gpus", "9"], "The nearest is 8"),
        (["--batch", "0"], "batch=0 does not work"),
        (["--seq", "0"], "seq=0 does not work"),
        (["--layout", "zp=2"], "--layout is 'zp'; it is one of tp"),
        (["--layout", "tp=two"], "a size is a whole number, as in tp=2"),
        (["--price", "2"], "give its --tokens"),
        (["--tokens", "-1"], "--tokens is -1; it is a number above zero"),
        (["--memory", "0"], "--memory is 0"),
        (["--profile", "Selena"], "Did you mean 'Selene'"),
    ],
)
def test_impossible_wishes_get_a_sentence(words: list[str], said: str, capsys) -> None:
    assert cli.main([*LINE, *words]) == 2
    assert said in capsys.readouterr().err


def test_a_profile_changes_the_times(capsys) -> None:
    times = set()
    for profile in ([], ["--profile", "H100 EFA"]):
        assert cli.main([*LINE, *ONE, *profile]) == 0
        times.add(capsys.readouterr().out.split("Time of")[0])
    assert len(times) == 2


def test_help_teaches(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["plan", "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "course plan --model llama-3-8b --machine 8xh100 --nodes 4 --batch 512 --seq 8192" in out
    assert "zero1, 2, 3" in out
