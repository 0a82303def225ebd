"""The frame of ``course bench gpu``: steps that end in every way, one file for all of them, and the page beside it."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from course_lib.authoring import bench
from course_lib.authoring.bench.gpu import record as record_module
from course_lib.authoring.bench.gpu import runner
from course_lib.authoring.bench.gpu.page import page
from course_lib.authoring.bench.gpu.record import GpuRecord, short_of
from course_lib.authoring.bench.gpu.steps import STEPS, BenchStep, chosen
from course_lib.devices import Device, Machine

START_S = 60.0  # a step's share of the time, from which the start of its process goes off


def fake(name: str, share: float = 1.0) -> BenchStep:
    return BenchStep(name, "a fake", share, f"tests.bench.gpu_fake_steps:{name}")


@pytest.fixture
def run(tmp_path):
    """Run fake steps, on the CPU; the outcomes, and the file's content."""
    path = tmp_path / "measured" / "found.json"

    def run_fakes(*steps: BenchStep, total_s: float = 0.0, rounds: int = 2):
        outcomes = runner.run_steps(
            steps,
            GpuRecord(path, on_gpu=False),
            on_gpu=False,
            rounds=rounds,
            total_s=total_s or START_S * len(steps),
        )
        return outcomes, json.loads(path.read_text())

    run_fakes.path = path
    return run_fakes


def test_a_step_that_fails_or_crashes_is_told_and_the_rest_go_on(run):
    names = ("well", "short", "not_here", "part_fails", "raises", "crashes", "tells_its_task")
    outcomes, content = run(*map(fake, names))
    assert outcomes == ["passed", "short of a target", "not run", "failed", "failed", "crashed", "not run"]
    steps = content["steps"]
    assert {name: steps[name]["outcome"] for name in names} == dict(zip(names, outcomes, strict=True))
    assert steps["well"]["rows"][0]["samples"] == [1.0, 2.0, 3.0]
    assert [part["outcome"] for part in steps["part_fails"]["parts"]] == ["failed", "passed"]
    assert "this is what broke" in steps["part_fails"]["parts"][0]["why"]
    assert [part["outcome"] for part in steps["raises"]["parts"]] == ["passed", "failed"]
    assert steps["crashes"]["rows"][0]["what"] == "a row before the crash"
    assert "last words" in steps["crashes"]["why"]
    assert "exit code 7" in steps["crashes"]["why"]
    assert steps["not_here"]["parts"][0]["why"] == "needs 99 GPUs, none is here"
    assert steps["tells_its_task"]["parts"][0]["name"] == "rounds=2 on_gpu=False visible=''"
    assert content["machine"]["cores"] >= 1
    assert content["versions"]["torch"]
    check_page(page(content))


def check_page(text: str) -> None:
    """What failed stands on the page with its reason; what was not run stands apart, and nothing of it passed."""
    for wanted in ("this is what broke", "the step itself broke", "exit code 7", "last words"):
        assert wanted in text
    failed, absent = text.split("## What was not run")
    assert "median 2 ms, promised at most 1" in failed
    assert "median 40 %, promised at least 50" in failed
    assert "needs 99 GPUs" in absent
    assert "needs 99 GPUs" not in failed
    assert "| not_here | not run | 0 | 0 | 1 |" in text
    assert "| easy row" not in failed


@pytest.mark.long
def test_a_step_that_hangs_is_ended_and_keeps_what_it_had(run, monkeypatch):
    monkeypatch.setattr(runner, "_GRACE_S", 0.0)
    outcomes, content = run(fake("hangs"), fake("well", share=3.0), total_s=120.0)
    assert outcomes == ["timed out", "passed"]
    assert content["steps"]["hangs"]["rows"][0]["what"] == "a row before the hang"
    assert "was ended after its 30 s" in content["steps"]["hangs"]["why"]


def test_an_interrupt_keeps_what_was_found(run):
    with pytest.raises(KeyboardInterrupt):
        run(fake("well"), fake("is_interrupted"), fake("short"))
    steps = json.loads(run.path.read_text())["steps"]
    assert {name: step["outcome"] for name, step in steps.items()} == {
        "well": "passed",
        "is_interrupted": "interrupted",
    }
    assert steps["is_interrupted"]["rows"][0]["what"] == "a row before the interrupt"


def test_later_steps_add_to_the_file_and_replace_their_own(run):
    run(fake("well"))
    first = run.path.read_text()
    _, content = run(fake("short"))
    assert set(content["steps"]) == {"well", "short"}
    assert content["steps"]["well"] == json.loads(first)["steps"]["well"]
    assert not list(run.path.parent.glob("*.draft"))


# -- the file --------------------------------------------------------------------------------------------------------


def found(outcome: str = "passed") -> dict:
    return {"outcome": outcome, "why": "", "time_s": 1.0, "rows": [], "parts": [], "notes": {}}


def test_steps_stand_in_the_order_of_the_table(tmp_path):
    record = GpuRecord(tmp_path / "it.json", on_gpu=False)
    for name in ("lessons", "peak", "memory"):
        record.add(name, found())
    assert list(json.loads((tmp_path / "it.json").read_text())["steps"]) == ["peak", "memory", "lessons"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "was not written by `course bench gpu`"),
        ('{"command": "course bench ddp", "rows": []}', "was not written by `course bench gpu`"),
    ],
)
def test_a_file_of_another_kind_is_left_alone(tmp_path, text, sentence, capsys):
    path = tmp_path / "it.json"
    path.write_text(text)
    assert bench.main(["gpu", "--cpu", "--steps", "memory", "--json", str(path)]) == 2
    assert sentence in capsys.readouterr().err
    assert path.read_text() == text


def test_a_place_that_cannot_be_written_is_told_before_anything_runs(tmp_path, capsys):
    (tmp_path / "a_file").write_text("")
    assert bench.main(["gpu", "--cpu", "--json", str(tmp_path / "a_file" / "it.json")]) == 2
    assert "cannot be" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["machine", "versions", "on"])
def test_a_file_of_another_machine_is_left_alone(tmp_path, what):
    path = tmp_path / "it.json"
    GpuRecord(path, on_gpu=False).add("peak", found())
    content = json.loads(path.read_text())
    content[what] = "gpu" if what == "on" else {**content[what], "other": 1}
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="Name another file, --json FILE"):
        GpuRecord(path, on_gpu=False)


def test_the_file_is_named_after_the_gpus(monkeypatch):
    card = Device(0, "NVIDIA H100 80GB HBM3", 80 * 10**9, "GPU-1")
    here = Machine(16, 10**11, "a CPU", "Linux", "3.12", "2.11.0", devices=(card, card))
    monkeypatch.setattr(record_module, "machine", lambda: here)
    assert record_module.default_path(True).name == "gpu_2x_nvidia_h100_80gb_hbm3.json"
    assert record_module.default_path(False).name == "gpu_tried_on_cpu.json"


def test_a_row_is_short_on_its_own_side_of_the_target():
    rows = [
        {"what": "a", "median": 2.0, "target": 1.0},
        {"what": "b", "median": 1.0, "target": 1.0},
        {"what": "c", "median": 0.4, "target": 0.5, "at_least": True},
        {"what": "d", "median": 0.6, "target": 0.5, "at_least": True},
        {"what": "e", "median": 9.0, "target": None},
    ]
    assert [row["what"] for row in short_of(rows)] == ["a", "c"]


# -- the command line ------------------------------------------------------------------------------------------------


def test_every_step_is_listed_and_has_a_home(capsys):
    import importlib

    assert bench.main(["gpu", "--list"]) == 0
    listed = capsys.readouterr().out
    for step in STEPS:
        module, _, function = step.function.partition(":")
        assert callable(getattr(importlib.import_module(module, "course_lib.authoring.bench.gpu"), function))
        assert f"{step.name} " in listed
        assert step.about in listed


def test_an_unknown_step_gets_a_sentence(capsys):
    assert bench.main(["gpu", "--cpu", "--steps", "memory,lesons"]) == 2
    told = capsys.readouterr().err
    assert "no step is called 'lesons'" in told
    assert "Did you mean 'lessons'?" in told


def test_no_gpu_gets_a_sentence(monkeypatch, capsys, tmp_path):
    here = Machine(2, 10**9, "a CPU", "Linux", "3.12", "2.11.0", gpu_note="The driver is too old.")
    monkeypatch.setattr("course_lib.devices.machine", lambda: here)
    assert bench.main(["gpu", "--json", str(tmp_path / "it.json")]) == 2
    told = capsys.readouterr().err
    assert "there is no GPU here that torch can use (The driver is too old)" in told
    assert "--cpu tries the command" in told
    assert not list(tmp_path.iterdir())


def test_no_torch_gets_a_sentence(monkeypatch, capsys):
    here = Machine(2, 10**9, "a CPU", "Linux", "3.12", None)
    monkeypatch.setattr("course_lib.devices.machine", lambda: here)
    assert bench.main(["gpu", "--cpu"]) == 2
    assert "has no torch" in capsys.readouterr().err


def test_minutes_are_a_count(capsys):
    with pytest.raises(SystemExit) as ended:
        bench.main(["gpu", "--cpu", "--minutes", "0"])
    assert ended.value.code == 2
    assert "at least 1" in capsys.readouterr().err


def test_steps_are_chosen_in_the_tables_order():
    assert [step.name for step in chosen(["lessons", "peak"])] == ["peak", "lessons"]
    assert chosen([]) == list(STEPS)


@pytest.mark.parametrize(("outcome", "code"), [("passed", 0), ("not run", 0), ("failed", 1), ("short of a target", 1)])
def test_the_exit_code_tells_whether_anything_failed(tmp_path, monkeypatch, outcome, code, capsys):
    def one(steps, record, **_):
        record.add(steps[0].name, found(outcome))
        return [outcome]

    monkeypatch.setattr(runner, "run_steps", one)
    assert bench.main(["gpu", "--cpu", "--steps", "peak", "--json", str(tmp_path / "it.json")]) == code
    assert (tmp_path / "it.md").read_text().startswith("# What `course bench gpu` found")
    assert "kept in" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_ends_the_command_finds_the_page_written(tmp_path, monkeypatch, capsys, number):
    def one(steps, record, **_):
        record.add(steps[0].name, found("interrupted"))
        os.kill(os.getpid(), number)  # as a batch system does when the time is over
        time.sleep(60.0)

    monkeypatch.setattr(runner, "run_steps", one)
    assert bench.main(["gpu", "--cpu", "--json", str(tmp_path / "it.json")]) == 130
    assert "stopped; what was found so far is kept" in capsys.readouterr().err
    assert (tmp_path / "it.md").exists()
