"""docs/at-scale.md: its tables are what replayed runs say, and its sentences hold of the runs in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from course_lib.authoring.notebooks.writing.measured_box import FACTS, measured_box
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


def test_a_number_stands_beside_its_formula_and_says_how_far_that_is_off():
    box = measured_box("model-parallel")
    head, _, first, second, _, source, end = box.splitlines()[1:]
    assert head == "| what was measured | measured | formula | says |"
    assert first.endswith("| 1.07 | one GPU works at a time, copies cost nothing | 1 (−7 %) |")
    assert second.endswith("| 0.669 | (m + p − 1) / (m p), copies cost nothing | 0.583 (−13 %) |")
    assert source == "Measured by: PyTorch's tutorial on model parallelism in one machine."
    assert end == "<!-- printed -->"


def test_numbers_that_there_are_not_are_told():
    with pytest.raises(ValueError, match="there are no published numbers 'failure'; there are one-device, collectives"):
        measured_box("failures failure")


def test_every_number_is_on_the_page():
    assert set(re.findall(r"<!-- measured: ([a-z-]+) -->", TEXT)) == set(FACTS)


def test_what_the_page_says_of_numbers_holds():
    (device,) = FACTS["one-device"]
    assert 0.25 < device.measured / device.says() < 0.3  # a good quarter
    assert all(0.4 < abs(fact.off) < 0.75 for fact in FACTS["failures"])  # off by half
    ring, _, _, *nodes = FACTS["collectives"]
    assert abs(ring.off) < 0.25
    assert [fact.off > 1 for fact in nodes] == [False, True, False]  # look at eight nodes
    assert FACTS["one-process"][0].measured > 1  # it lost
    assert FACTS["model-parallel"][0].measured > 1 > FACTS["model-parallel"][1].measured
