"""Rows of published runs: read as they are meant, and refused with a sentence where they cannot be."""

from __future__ import annotations

import pytest
from published_rows import ROW, write

from course_lib.plan import read_runs


def test_a_row_is_read(tmp_path) -> None:
    (run,), refused = read_runs(write(tmp_path / "runs.csv", ROW))
    assert not refused
    assert (run.layout.tp, run.layout.dp, run.gpus, run.step_s) == (2, 8, 16, 1.0)
    assert run.layout.recompute == "full"
    assert not run.job.model.gated


def test_tokens_a_second_are_turned_into_seconds(tmp_path) -> None:
    row = {**ROW, "iter_s": "", "tokens_per_s_per_gpu": "1000", "kv_heads": "8", "memory_gb": "2"}
    (run,), _ = read_runs(write(tmp_path / "runs.csv", row))
    assert run.step_s == pytest.approx(64 * 2048 / 16000)
    assert run.job.model.gated
    assert run.memory_bytes == 2 * 2**30


def test_rows_that_cannot_be_read_are_named(tmp_path) -> None:
    rows = [
        {**ROW, "gpus": "17"},
        {**ROW, "layers": "many"},
        {**ROW, "hidden": ""},
        {**ROW, "tp": "1.5"},
        ROW,
    ]
    runs, refused = read_runs(write(tmp_path / "runs.csv", *rows))
    assert len(runs) == 1
    assert list(refused) == [f"line {line} (t)" for line in (2, 3, 4, 5)]
    assert "gpus is 17, and tp x cp x pp x dp is 16" in refused["line 2 (t)"]
    assert "it is a number" in refused["line 3 (t)"]
    assert "hidden must be given" in refused["line 4 (t)"]
    assert "The nearest is 2" in refused["line 5 (t)"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"iter_s": "nan"}, "iter_s is 'nan'; it is a number of at least 0"),
        ({"iter_s": "1e999"}, "iter_s is '1e999'; it is a number of at least 0"),
        ({"iter_s": "-3"}, "iter_s is '-3'; it is a number of at least 0"),
        ({"batch": "inf"}, "batch is 'inf'; it is a number of at least 0"),
        ({"memory_gb": "-5"}, "memory_gb is '-5'"),
        ({"gpus": "1e30"}, "gpus is 1e+30; it is at most 1099511627776"),
        ({"gpus_per_node": "0"}, "gpus_per_node=0 does not work"),
        ({"dtype": "float32"}, "dtype is 'float32'; it is one of float16, bfloat16"),
        ({"batch": "7"}, "this layout cannot be: dp=8 ranks share a batch of 7: dp is at most 7"),
        ({"interleave": "3"}, "this layout cannot be: 3 chunks without a pipeline"),
        ({"iter_s": ""}, "the row has no measurement: iter_s, tokens_per_s_per_gpu and memory_gb are empty"),
    ],
)
def test_numbers_and_layouts_that_cannot_be_are_refused_by_row(wrong: dict, said: str, tmp_path) -> None:
    runs, refused = read_runs(write(tmp_path / "runs.csv", ROW, {**ROW, **wrong}))
    assert len(runs) == 1
    assert list(refused) == ["line 3 (t)"]
    assert said in refused["line 3 (t)"]


def test_sequence_parallelism_without_a_tensor_axis_is_none(tmp_path) -> None:
    row = {**ROW, "tp": "1", "dp": "16", "seq_parallel": "1"}
    (run,), refused = read_runs(write(tmp_path / "runs.csv", row))
    assert not refused
    assert not run.layout.sequence_parallel
    (run,), _ = read_runs(write(tmp_path / "runs.csv", {**ROW, "seq_parallel": "1"}))
    assert run.layout.sequence_parallel


def test_a_row_with_memory_alone_is_read(tmp_path) -> None:
    (run,), _ = read_runs(write(tmp_path / "runs.csv", {**ROW, "iter_s": "", "memory_gb": "30"}))
    assert (run.step_s, run.memory_bytes) == (None, 30e9)


def test_files_that_are_none(tmp_path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_runs(tmp_path / "none.csv")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="lacks the columns table, cluster"):
        read_runs(tmp_path / "other.csv")
