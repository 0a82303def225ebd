"""The runs of lesson 11d: that each row is there, has a source, and says what the lesson's page says of it."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import replace

import pytest

from course_lib.plan import load_profiles, profile_of
from course_lib.plan.runs.published import COLUMNS, read_runs
from course_lib.plan.runs.replayed import REPLAYED_FILE, SOURCES, replayed_runs


def test_every_row_can_be_read_and_has_a_time_and_a_source():
    runs, refused = read_runs(REPLAYED_FILE)
    assert not refused
    assert all(run.step_s for run in runs)
    assert {run.table for run in runs} == set(SOURCES)
    assert len(runs) == len(replayed_runs())


def test_the_columns_are_those_that_are_read():
    with REPLAYED_FILE.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert len({tuple(row.values()) for row in rows}) == len(rows)  # none stands there twice


def test_models_are_as_large_as_their_names_say_and_no_run_beats_its_peak():
    for run in replayed_runs():
        model = run.of.run.job.model
        named = float(re.search(r"([\d.]+)B", model.name)[1])
        assert model.parameters / 1e9 == pytest.approx(named, rel=0.02 if named >= 8 else 0.04), model.name
        assert 0.05 < run.mfu <= run.hfu < 0.75, run.name


def test_what_the_page_counts():
    """25 runs of nine sources on 8 to 8,192 GPUs of three kinds, 26 layouts of one job, four on one machine, a pair."""
    chosen, tried = replayed_runs("chosen"), replayed_runs("tried")
    assert (len(chosen), len(tried)) == (25, 26)
    assert (min(run.gpus for run in chosen), max(run.gpus for run in chosen)) == (8, 8192)
    assert len({run.of.run.gpu for run in chosen}) == 3
    numbers = [run.of.run.job.model.parameters / 1e9 for run in chosen]
    assert (round(min(numbers), 1), round(max(numbers), -1)) == (1.7, 530)
    assert len({run.of.run.same_job for run in tried}) == 1
    assert {run.gpus for run in tried} == {64}
    inside = replayed_runs("ultra-scale")
    assert ([run.gpus for run in inside], len({run.of.run.job for run in inside})) == ([8] * 4, 1)
    for table in ("megatron-2021-t2-zero3", "megatron-2021-t2-ptd"):
        few, many = replayed_runs(table)
        assert (few.gpus, many.gpus, few.of.run.job) == (384, 1536, many.of.run.job)


def test_two_shares_by_hand():
    """Llama 3 405B: 430 TFLOP/s a GPU as published; and full recomputation executes about four passes for three."""
    (llama,) = replayed_runs("llama3-405b")
    assert llama.mfu == pytest.approx(430e12 / 989e12, rel=0.01)
    assert llama.tokens_per_s_per_gpu == pytest.approx(169.9, rel=1e-6)
    (many,) = [run for run in replayed_runs("megatron-2021-t1") if run.gpus == 1536]
    assert many.hfu == pytest.approx(148e12 / 312e12, rel=0.01)  # table 1 of Narayanan et al.: 148 TFLOP/s
    assert 0.70 < many.mfu / many.hfu < 0.76  # three quarters, less half the scores


def test_elsewhere_knows_nothing_of_the_cluster_itself():
    profiles = load_profiles()
    for run in (replayed_runs("llama3-405b")[0], replayed_runs("tried")[0]):
        cluster, gpu = run.of.run.cluster, run.of.run.gpu
        others = {key: profile for key, profile in profiles.items() if key[0] != cluster}
        measured = {"inside_share": profiles[cluster, gpu].domain_share, "outside_share": 0.0}
        expected = replace(
            profile_of("another", gpu, others).constants, **{name: each for name, each in measured.items() if each}
        )
        assert run.elsewhere == expected
        assert run.elsewhere != profiles[cluster, gpu].constants
        assert run.predicted_s == run.of.step_s(profiles[cluster, gpu].constants)


def test_tables_by_name():
    assert Counter(run.table for run in replayed_runs("tried", "ultra-scale")) == {
        "vtrain-multi": 26,
        "ultra-scale": 4,
    }
    with pytest.raises(ValueError, match=r"table .*vtrain-multi"):
        replayed_runs("vtrain")


def test_a_row_that_cannot_be_read_is_told(tmp_path, monkeypatch):
    from course_lib.plan.runs import replayed

    lines = REPLAYED_FILE.read_text(encoding="utf-8").splitlines()
    spoilt = tmp_path / "replayed.csv"
    spoilt.write_text("\n".join([lines[0], lines[1].replace("2304", "wide")]), encoding="utf-8")
    monkeypatch.setattr(replayed, "REPLAYED_FILE", spoilt)
    with pytest.raises(ValueError, match="cannot be read"):
        replayed._all_runs.__wrapped__()
