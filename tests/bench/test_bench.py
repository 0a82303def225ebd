"""What the benchmarks have in common: their options, and the table that they fill. None is run here."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import psutil
import pytest

from course_lib.authoring import bench
from course_lib.authoring.bench.floors import Floors, floors_of
from course_lib.authoring.bench.options import bench_parser, open_table
from course_lib.meter.clocks.stopwatch import Comparison, Measurement


def test_the_help_tells_the_default_and_what_a_round_is(capsys):
    with pytest.raises(SystemExit) as ended:
        bench_parser("anything", "About it.", rounds=7, of="turns of a wheel").parse_args(["--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0
    assert "turns of a wheel (default 7)" in text
    assert "About it." in text


@pytest.mark.parametrize("word", ["0", "-1", "x", "1.5", ""])
def test_what_is_no_count_is_refused_with_a_sentence(word, capsys):
    with pytest.raises(SystemExit) as ended:
        bench_parser("anything", None, rounds=7, of="turns").parse_args(["--rounds", word])
    assert ended.value.code == 2
    sentence = f"argument --rounds: it is a whole number of at least 1, and {word!r} is none"
    assert sentence in capsys.readouterr().err


class Parsed(Exception):
    """Raised where a benchmark would begin to measure."""


@pytest.fixture
def parse_only(monkeypatch):
    """A benchmark whose options are accepted raises ``Parsed`` and does not measure."""
    parse_args = argparse.ArgumentParser.parse_args

    def parse(parser, words):
        raise Parsed(parse_args(parser, words))

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)


TIMED = [name for name in bench.BENCHES if name != "published"]  # which computes, and measures nothing


@pytest.mark.parametrize("name", TIMED)
def test_every_bench_takes_both_options(name, parse_only):
    with pytest.raises(Parsed) as given:
        bench.main([name, "--rounds", "3", "--json", "kept.json"])
    (options,) = given.value.args
    assert (options.rounds, options.json) == (3, Path("kept.json"))
    assert options.command == f"course bench {name}"
    with pytest.raises(Parsed) as untold:
        bench.main([name])
    assert untold.value.args[0].rounds >= 1
    assert untold.value.args[0].json is None


OWN_COUNTS = {
    "data_parallel": "--workers",
    "ddp": "--overlap-rounds",
    "pipeline": "--paced-rounds",
    "mesh": "--order-rounds",
}


@pytest.mark.parametrize(("name", "option"), [*((name, "--rounds") for name in TIMED), *OWN_COUNTS.items()])
def test_every_bench_refuses_a_count_below_one(name, option, parse_only, capsys):
    with pytest.raises(SystemExit) as ended:
        bench.main([name, option, "0"])
    assert ended.value.code == 2
    assert f"argument {option}: it is a whole number of at least 1" in capsys.readouterr().err


def test_a_table_has_its_head_first_and_keeps_its_samples(capsys, tmp_path):
    options = bench_parser("anything", None, rounds=1, of="turns").parse_args(["--json", str(tmp_path / "it")])
    both = Comparison(Measurement("theirs", (2.0, 4.0)), Measurement("ours", (1.0, 3.0)))
    with open_table(options) as table:
        table.add_pair("a step", both, ratio="ours / theirs", target=0.7)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("course bench anything")
    assert lines[-1] == "1 of 1 targets met"
    record = json.loads((tmp_path / "it").read_text())
    assert record["command"] == "course bench anything"
    assert [(row["what"], row["samples"], row["unit"]) for row in record["rows"]] == [
        ("a step: theirs", [2000, 4000], "ms"),
        ("a step: ours", [1000, 3000], "ms"),
        ("a step: ours / theirs", [0.5, 0.75], "x"),
    ]
    assert [row["target"] for row in record["rows"]] == [None, None, 0.7]


def test_a_bench_may_print_lines_of_its_own_before_the_head(capsys):
    options = bench_parser("anything", None, rounds=1, of="turns").parse_args([])
    with open_table(options, head=False) as table:
        assert capsys.readouterr().out == ""
        table.print_head()
    assert capsys.readouterr().out.startswith("course bench anything")


def test_what_stands_beside_gives_ratios_in_turns_and_one_of_medians_else(capsys, tmp_path):
    options = bench_parser("anything", None, rounds=1, of="turns").parse_args(["--json", str(tmp_path / "it")])
    with open_table(options) as table:
        table.add_beside("a start", [2.0, 9.0], "forks", [1.0, 3.0], "s", target=3.0)
        table.add_beside("a call", [4.0, 6.0, 8.0], "pipes", [2.0, 4.0], "ms", target=1.5)
    lines = capsys.readouterr().out.splitlines()
    rows = json.loads((tmp_path / "it").read_text())["rows"]
    assert [(row["what"], row["samples"], row["target"]) for row in rows if row["unit"] == "x"] == [
        ("a start: course / forks", [2.0, 3.0], 3.0),
        ("a call: course / pipes", [2.0], 1.5),
    ]
    assert [row["target"] for row in rows if row["unit"] != "x"] == [None] * 4
    assert lines[-2:] == [
        "1 of 2 targets met; missed:",
        "  a call: course / pipes: 2 x, promised is 1.5 at the most, 33% off",
    ]


def test_a_missed_least_and_a_missed_nothing_are_told_as_such(capsys):
    options = bench_parser("anything", None, rounds=1, of="turns").parse_args([])
    with open_table(options) as table:
        table.add("hidden", [40.0], "%", target=80.0, at_least=True)
        table.add("errors", [2.0], "errors", target=0)
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "  hidden: 40 %, promised is 80 at the least, 50% off",
        "  errors: 2 errors, promised is 0 at the most",
    ]


def test_every_row_that_bench_launch_judges_is_a_ratio(monkeypatch, capsys, tmp_path):
    """With stand-ins for starts, so that nothing is measured."""
    from course_lib.authoring.bench import launch

    monkeypatch.setattr(launch, "fresh_process", lambda n: 3.0)
    monkeypatch.setattr(launch, "seconds", lambda do: 0.25)
    monkeypatch.setattr(launch, "has_forks", lambda: True)
    monkeypatch.setattr(launch, "floors_of", lambda n, rounds: Floors((0.5,), (1.0, 2.0), ()))
    monkeypatch.setattr(launch, "measure_warm", lambda table, n, rounds: None)
    assert launch.main(["--rounds", "2", "--only-ours", "--json", str(tmp_path / "kept")]) == 0
    rows = json.loads((tmp_path / "kept").read_text())["rows"]
    judged = [(row["what"], row["median"]) for row in rows if row["target"] is not None]
    assert judged == [
        ("first start, 2 ranks: course / mp.spawn", 12.0),
        ("restart, 2 ranks: course / forks", 0.5),
        ("first start, 4 ranks: course / mp.spawn", 12.0),
        ("restart, 4 ranks: course / forks", 0.5),
    ]
    assert "first start, 2 ranks: course / mp.spawn: 12 x, promised is 1 at the most" in capsys.readouterr().out


def test_the_floors_are_those_of_forks_that_join_and_answer():
    floors = floors_of(2, 1)
    assert len(floors.joined_s) == 1
    assert len(floors.round_trips_ms) == 40
    assert len(floors.idle_mb) == (2 if psutil.LINUX else 0)
    assert min(*floors.joined_s, *floors.round_trips_ms, *floors.idle_mb) > 0
