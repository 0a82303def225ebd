"""Builds: what one is, how far a learner is with it, and its table beside others; each way to fail."""

from __future__ import annotations

import json
import re

import pytest
import torch
import torch.distributed as dist

from course_lib.base.paths import project_root
from course_lib.cluster import Cluster
from course_lib.learn import build_progress, side_by_side
from course_lib.learn import exercises as catalogue
from course_lib.learn.builds import BUILDS, Build, build_named, build_of_step
from course_lib.learn.builds import catalogue as listed
from course_lib.learn.builds.progress import progress_of
from course_lib.learn.records import store as store_module
from course_lib.lessons.info import source_files

STEPS = ("02.ring", "02.tree", "02.shift")
BUILD = Build(name="02.trial", title="A trial", steps=STEPS, entry="ring_all_reduce", usable_from="02.tree")


def events(*passed, tries=()):
    said = [{"event": "check", "name": name, "status": "not yet"} for name in tries]
    return said + [{"event": "check", "name": name, "status": "passed"} for name in passed]


# -- the list --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_the_steps_of_a_build_are_exercises_of_its_lesson_in_the_order_of_the_list(build):
    names = [one.name for one in catalogue.exercises_of(build.lesson)]
    places = [names.index(step) for step in build.steps]
    assert places == sorted(places)
    assert all(build_of_step(step) is build for step in build.steps)


def test_no_two_builds_share_a_name_a_step_or_an_entry():
    for part in ([build.name for build in BUILDS], [build.entry for build in BUILDS]):
        assert len(set(part)) == len(part)
    steps = [step for build in BUILDS for step in build.steps]
    assert len(set(steps)) == len(steps)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "trial"}, "build 'trial': use two digits, a dot and a word, such as \"04.ddp\""),
        ({"steps": ("02.ring",)}, "at least two steps"),
        ({"steps": ("02.ring", "02.ring")}, "each once"),
        ({"steps": ("02.ring", "03.load")}, "step '03.load' is of another lesson; its name begins 02"),
        ({"usable_from": "02.shirt"}, "usable from '02.shirt', which is none of its steps"),
    ],
)
def test_a_build_that_makes_no_sense_is_told_why(change, says):
    with pytest.raises(ValueError, match=says):
        Build(**({"name": "02.trial", "title": "", "steps": STEPS, "entry": "f", "usable_from": "02.ring"} | change))


def test_names_that_are_not_there_are_told_those_that_are(monkeypatch):
    monkeypatch.setattr(listed, "BUILDS", (BUILD,))
    with pytest.raises(ValueError, match=r"no build '02.try'; there is 02.trial\."):
        build_named("02.try")
    with pytest.raises(ValueError, match=r"no step '02\.shape'; it has 02\.ring, 02\.tree, 02\.shift"):
        BUILD.number_of("02.shape")
    assert build_of_step("02.shift") is BUILD
    assert build_of_step("02.other") is None


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_a_build_has_a_picture_of_what_is_asked_for_above_its_cell(build):
    """With a text for those who do not see it; a question mark stands where the answer would."""
    page = next(
        text for path in source_files(project_root(), build.lesson)
        if f'build_progress("{build.name}")' in (text := path.read_text("utf-8"))
    )  # fmt: skip
    head = page[: re.search(rf"^(class|def) {build.entry}\b", page, re.MULTILINE).start()]
    pictures = re.findall(r"!\[([^]]+)\]\(\.\./assets/(\w+)\.png\)", head.replace("\n# ", " "))
    assert pictures, "no picture stands above the cell"
    alt, name = pictures[0]
    assert len(alt.split()) >= 10
    assert (project_root() / "assets" / f"{name}.png").is_file()


# -- how far one is --------------------------------------------------------------------------------------------------


def states(found):
    return [line.state for line in found.lines]


def test_who_has_done_nothing_begins_with_the_first_step():
    found = progress_of(BUILD, [])
    assert states(found) == ["next", "", ""]
    assert found.points == 0
    assert found.says.startswith("0 of 3 steps have passed. Next: 02.ring, An all-reduce around a ring.")
    assert "Lessons run on it once 02.tree has passed." in found.says


def test_each_step_that_has_passed_is_a_point_and_the_first_other_is_next():
    found = progress_of(BUILD, events("02.tree", tries=["02.ring", "02.ring"]))
    assert states(found) == ["next", "passed", ""]
    assert [line.tries for line in found.lines] == [2, 1, 0]
    assert found.points == 1
    assert "Lessons run on it, as `mine.ring_all_reduce`." in found.says
    assert "✓ passed" in repr(found)


def test_a_build_that_is_whole_says_so():
    found = progress_of(BUILD, events(*STEPS))
    assert states(found) == ["passed"] * 3
    assert found.says == "All 3 steps have passed: `mine.ring_all_reduce` is whole."


@pytest.mark.parametrize("columns", [None, 3, {"yours": 3}, {"yours": {"bytes": 4}}])
def test_a_damaged_table_in_the_record_is_left_out(columns):
    good = {"event": "comparison", "name": "02.trial", "title": "t", "columns": {"yours": {"bytes": "4 B"}}}
    found = progress_of(BUILD, [good, {**good, "columns": columns}, {**good, "name": "02.other"}])
    assert "4 B" in repr(found)
    assert progress_of(BUILD, [{**good, "columns": columns}]).costs is None


# -- beside others ---------------------------------------------------------------------------------------------------


def job(me, all_reduce, tensor):
    return all_reduce(me, tensor)


def numbers(me):
    return (torch.arange(1024.0) * (me.rank + 1),)


def torchs(me, tensor):
    dist.all_reduce(tensor)
    return tensor


def copies(me, tensor):
    out = tensor.clone()
    dist.all_reduce(out)
    return out


def forgets(me, tensor):
    return tensor


def fails(me, tensor):
    raise ValueError("not today")


@pytest.fixture(scope="module")
def two():
    with Cluster(2) as cluster:
        yield cluster


def test_each_has_a_column_with_what_it_gave_and_what_it_cost(two, capsys):
    found = side_by_side(
        two,
        job,
        {"in place": torchs, "a copy": copies, "forgets": forgets},
        expected=3 * torch.arange(1024.0),
        prepare=numbers,
    )
    assert found.columns == {
        "in place": {"equal": "yes", "bytes": "4 KiB", "messages": "2", "memory": "0 B"},
        "a copy": {"equal": "yes", "bytes": "4 KiB", "messages": "2", "memory": "4 KiB"},
        "forgets": {"equal": "no: rank 0", "bytes": "0 B", "messages": "0", "memory": "0 B"},
    }
    assert "sent by the busiest rank" in capsys.readouterr().out
    assert "<td" in found._html()


def test_one_that_fails_has_dashes_and_a_line_and_the_others_stand(two, capsys):
    found = side_by_side(
        two, job, {"yours": fails, "PyTorch's": torchs}, expected=3 * torch.arange(1024.0), prepare=numbers
    )
    assert found.columns["yours"] == {}
    assert found.columns["PyTorch's"]["equal"] == "yes"
    assert "not today" in found.failures["yours"]
    assert "yours: " in repr(found)
    assert "–" in repr(found)


def test_hidden_time_is_said_where_it_is_asked_for(two, capsys):
    found = side_by_side(two, job, {"yours": torchs}, expected=lambda rank: None, prepare=numbers, hidden=True)
    assert found.columns["yours"]["hidden"].endswith("%")
    assert found.columns["yours"]["equal"] == "no: rank 0"


def test_numbers_may_be_off_by_so_much_and_no_more(two, capsys):
    off = 3 * torch.arange(1024.0) * (1 + 1e-4)
    for within, equal in ((1e-3, "yes"), (1e-5, "no: rank 0")):
        found = side_by_side(two, job, {"yours": torchs}, expected=off, prepare=numbers, within=within)
        assert found.columns["yours"]["equal"] == equal


def test_nothing_to_compare_is_told(two):
    with pytest.raises(ValueError, match="no implementation given; give at least one"):
        side_by_side(two, job, {}, expected=None)


def test_the_table_of_a_build_is_in_the_record_and_shown_again(two, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(store_module, "_is_off", lambda: False)
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    monkeypatch.setattr(listed, "BUILDS", (BUILD,))
    side_by_side(two, job, {"yours": torchs}, expected=3 * torch.arange(1024.0), prepare=numbers, build="02.trial")
    event = json.loads((tmp_path / "data" / "progress.jsonl").read_text())
    assert (event["event"], event["name"]) == ("comparison", "02.trial")
    capsys.readouterr()
    build_progress("02.trial")
    said = capsys.readouterr().out
    assert "0 of 3 steps have passed" in said
    assert "4 KiB" in said
    with pytest.raises(ValueError, match=r"no build '02\.tri'"):
        side_by_side(two, job, {"yours": torchs}, expected=None, prepare=numbers, build="02.tri")
