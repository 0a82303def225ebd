"""Experts on a mesh of their own (``etp``) in words: ``--why``, ``--compare`` and ``--layout``, JSON, what to type."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from course_lib.plan import MODELS, Constants, Job, Layout, Plan, Software, cluster_of, list_layouts, to_type
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.output import json_io
from course_lib.plan_command import main

JOB = Job(MODELS["mixtral-8x7b"], 4096, 64)
FOLDED = Layout(tp=4, dp=2, ep=8, etp=1, sharding=1, sequence_parallel=True)
TWO_NODES = Layout(tp=4, dp=4, ep=8, etp=2, sharding=1, sequence_parallel=True)
WORDS = ["--model", "mixtral-8x7b", "--nodes", "8", "--batch", "256", "--seq", "4096"]


def cluster(layout: Layout) -> ClusterSpec:
    return cluster_of("8xh100", gpus=layout.gpus)


def test_json_names_it_where_it_is_and_comes_back() -> None:
    listing = list_layouts(
        JOB, cluster(TWO_NODES), Constants(), Software(), layouts=[TWO_NODES, replace(FOLDED, dp=4, etp=0, ep=4)]
    )
    plan = Plan(listing)
    data = plan.to_json()
    schema = json.loads((Path(json_io.__file__).parent / "plan.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(json.loads(plan.to_text()))
    assert {one["name"]: one["layout"].get("etp") for one in data["options"]} == {
        "tp4 dp4 ep8 etp2 mb1 zero1 sp": 2,
        "tp4 dp4 ep4 mb1 zero1 sp": None,
    }
    assert Plan.from_json(data) == plan


def typed(program: str, layout: Layout) -> tuple[str, str]:
    *_, found = to_type(program, JOB, layout, cluster(layout))
    return " ".join(found.text.split()), " ".join(found.notes)


def test_megatron_takes_both_sizes() -> None:
    text, _ = typed("megatron", TWO_NODES)
    assert "--expert-model-parallel-size 8 --expert-tensor-parallel-size 2" in text
    assert "--sequence-parallel" in text
    assert "--expert-tensor-parallel-size" not in typed("megatron", replace(TWO_NODES, ep=4, etp=0))[0]


def test_others_take_what_they_can_and_say_what_they_cannot() -> None:
    text, notes = typed("torchtitan", replace(FOLDED, sharding=3))
    assert "expert_parallel_degree = 8 expert_tensor_parallel_degree = 1" in text
    assert "A version without" not in notes
    assert "etp is 1 or tp=4. Here it is 2" in typed("torchtitan", TWO_NODES)[1]
    assert (
        "among 16 ranks: ep must divide 16 and be a multiple of 4. Here ep is 2"
        in typed("torchtitan", replace(TWO_NODES, etp=1, ep=2))[1]
    )
    assert "ep above 1" in typed("torchtitan", replace(TWO_NODES, etp=1, ep=1))[1]
    assert (
        typed("torchtitan", replace(TWO_NODES, etp=4, ep=4))[0]
        == typed("torchtitan", replace(TWO_NODES, etp=0, ep=4))[0]
    )
    assert "has no mesh of their own for etp=1" in typed("deepspeed", FOLDED)[1]
    assert "cannot cut experts" in typed("deepspeed", Layout(dp=8, ep=4, etp=2))[1]
    assert typed("deepspeed", Layout(dp=8, ep=4, etp=1)) == typed("deepspeed", Layout(dp=8, ep=4))
    assert "has no separate mesh for experts (etp=1)" in typed("course", replace(FOLDED, ep=1))[1]


def test_why_compare_and_layout_understand_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--why", "tp4 pp4 dp4 ep8 etp1 mb1 zero1 none v2"]) == 0
    why = capsys.readouterr().out
    assert "A step with tp4 pp4 dp4 ep8 etp1 mb1 v2 zero1 sp: " in why
    assert "among 8 within an NVLink domain, at " in why
    assert "experts among 2)" in why
    assert main([*WORDS, "--why", "tp4 pp4 dp4 ep4 etp4 mb1 zero1 none v2"]) == 0
    why = capsys.readouterr().out
    assert "all-to-all of 16.8 MB among 4 between nodes" in why
    assert "all-gather and reduce-scatter of 67.1 MB among 4 within an NVLink domain" in why
    assert "/ (4 ranks that cut an expert x 4 expert ranks)" in why
    assert main([*WORDS, "--compare", "tp4 pp4 dp4 ep4 mb1", "tp4 pp4 dp4 ep8 etp1 mb1"]) == 0
    assert " ep8 etp1 mb1 " in capsys.readouterr().out
    assert main([*WORDS, "--layout", "tp4 etp1", "--top", "2"]) == 0
    page = capsys.readouterr().out
    assert "etp N: experts have a mesh of their own, and N GPUs cut each" in " ".join(page.split())


def test_bad_words_get_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for words, sentence in (
        ("tp4 pp4 dp4 ep8 etp4", "ep=8 x etp=4 does not divide the 16 GPUs of a stage: the nearest ep is 4"),
        ("etp=one", "--why says 'etp=one'; a size is a whole number, as in etp=2."),
    ):
        assert main([*WORDS, "--why", words]) == 2
        assert sentence in capsys.readouterr().err
