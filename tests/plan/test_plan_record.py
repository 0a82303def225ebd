"""A plan as JSON: the schema holds it, and it comes back as it was."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import jsonschema
import pytest

from course_lib.plan import MODELS, Budget, Constants, Job, Plan, Software, cluster_of, list_layouts, to_type
from course_lib.plan.output import json_io

SCHEMA = json.loads((Path(json_io.__file__).parent / "plan.schema.json").read_text())


def plan(gpus: int, model: str = "llama-3-8b", budget: Budget | None = None, batch: int = 16) -> Plan:
    job = Job(MODELS[model], seq=4096, batch=batch)
    listing = list_layouts(job, cluster_of("8xh100", gpus=gpus), Constants(), Software())
    return Plan(listing, budget or Budget(), ("a sentence",), chosen=min(1, max(0, len(listing.options) - 1)))


PLANS = {
    "one": lambda: plan(4),
    "whole": lambda: plan(4, budget=Budget(1e12, 2.0, 700.0, 30.0)),
    "experts": lambda: plan(16, "mixtral-8x7b"),
    "none": lambda: plan(1),
    "limited": lambda: replace(plan(4), memory_limit_bytes=60e9),
}


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("name", PLANS)
def test_the_schema_holds_and_the_plan_comes_back(name: str) -> None:
    found = PLANS[name]()
    text = found.to_text()
    data = json.loads(text)
    assert data == json.loads(json.dumps(found.to_json()))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert Plan.from_json(data) == found


def test_everything_is_in_it() -> None:
    found = plan(4, budget=Budget(1e12, 2.0, 700.0))
    data = found.to_json()
    assert len(data["options"]) == len(found.listing.options)
    assert len(data["refusals"]) == len(found.listing.refusals) == sum(data["reasons"].values())
    for one in data["options"]:
        assert one["step_s"] == pytest.approx(sum(one["time"].values()))
        assert one["memory_bytes"] == pytest.approx(sum(one["memory"].values()))
        assert one["memory_bytes"] <= data["cluster"]["memory_bytes"]
        assert one["tokens_per_s"] == pytest.approx(4 * one["tokens_per_s_per_gpu"])
        assert {"days", "cost", "energy_mwh"} <= set(one)
    assert all(one["why"] and one["instead"] for one in data["refusals"] if one["memory"])
    assert set(data["to_type"]) == {"course", "torchtitan", "megatron", "deepspeed"}


def test_what_to_type_is_of_the_chosen_layout() -> None:
    found = plan(4)
    assert found.chosen == 1
    for place in (0, 1, 2):
        layout = found.listing.options[place].layout
        data = replace(found, chosen=place).to_json()
        assert data["chosen"] == place
        for name, written in data["to_type"].items():
            wanted = to_type(name, found.listing.job, layout, found.listing.cluster)
            assert json.dumps(written) == json.dumps([asdict(one) for one in wanted])


def test_a_line_is_a_layout() -> None:
    found = plan(4)
    lines = found.to_text().splitlines()
    assert sum(line.startswith('  {"name"') for line in lines) == len(found.listing.options) + len(
        found.listing.refusals
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.pop("cluster"),
        lambda data: data.update(format=0),
        lambda data: data["job"]["model"].update(layers=0),
        lambda data: data["options"][0]["layout"].update(tp="8"),
        lambda data: data["options"][0]["memory"].pop("weights_bytes"),
    ],
)
def test_what_is_no_plan_is_said(spoil) -> None:
    data = json.loads(plan(4).to_text())
    spoil(data)
    with pytest.raises(ValueError, match="This is not a plan of format 1"):
        Plan.from_json(data)


def test_the_schema_refuses_what_is_not_in_a_plan() -> None:
    data = json.loads(plan(4).to_text())
    data["options"][0]["step_s"] = "fast"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(data)
