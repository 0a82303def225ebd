"""docs/at-scale.md: its tables are what replayed runs say, and its sentences hold of the runs in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from course_lib.authoring.notebooks.writing.printed import PRINTING_PAGES, with_outputs
from course_lib.authoring.notebooks.writing.replayed_box import replayed_box
from course_lib.plan.runs.replayed import replayed_runs

PAGE = "docs/at-scale.md"
TEXT = (Path(__file__).parents[2] / PAGE).read_text(encoding="utf-8")


def test_the_page_is_as_its_runs_are():
    assert PAGE in PRINTING_PAGES
    assert with_outputs(TEXT, PAGE) == TEXT


def test_a_row_has_the_run_and_how_far_the_model_is_off():
    box = replayed_box("mt-nlg-530b")
    (run,) = replayed_runs("mt-nlg-530b")
    head, _, row, _, source, end = box.splitlines()[1:]
    assert head.startswith("| run | a step took | model, fitted there |")
    assert row.startswith(f"| {run.name} | {run.measured_s:.3g} s | {run.predicted_s:.3g} s (−")
    assert source == f"Measured by: {run.source}."
    assert end == "<!-- printed -->"


def test_one_model_of_a_table_can_be_asked_for():
    assert "BLOOM 181B" in replayed_box("bloom-prequel/BLOOM-181B")
    assert replayed_box("korthikanti-t5/22B").count("\n| 22B") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("megatron", "there is no table 'megatron' of published runs; there are megatron-2021-t1"),
        ("korthikanti-t5/23B", "has no model '23B'; it has 22B, 175B"),
    ],
)
def test_a_run_that_there_is_not_is_told(words, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        replayed_box(words)


def _step_s(table, model, gpus):
    (run,) = (one for one in replayed_runs(table) if one.of.run.job.model.name == model and one.gpus == gpus)
    return run.measured_s


def test_what_the_page_says_of_sharded_runs_holds():
    assert _step_s("torchtitan", "Llama3 8B", 128) < 1.05 * _step_s("torchtitan", "Llama3 8B", 8)
    zero3 = {gpus: _step_s("megatron-2021-t2-zero3", "174.6B", gpus) for gpus in (384, 1536)}
    assert 1 < zero3[384] / zero3[1536] < 1.3


def test_what_the_page_says_of_megascale_holds():
    runs = {one.gpus: one for one in replayed_runs("megascale-megatron")}
    assert runs[256].of.run.job.batch == runs[768].of.run.job.batch
    assert runs[256].measured_s / runs[768].measured_s < 3


def test_what_the_page_says_of_one_node_holds():
    first, second = replayed_runs("korthikanti-t5")[:2]
    assert (str(first.of.run.layout), str(second.of.run.layout)) == ("tp8 mb4 full", "tp8 mb4 sp selective")
    assert first.gpus == second.gpus == 8
