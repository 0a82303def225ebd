"""Which lessons are blocked here: every reason, and the words that choose lessons."""

from __future__ import annotations

from dataclasses import replace

import pytest
from class_cases import PLAIN, with_gpus

from course_lib.classroom.trial.lessons_here import choose, judge
from course_lib.doctor import Finding
from course_lib.nodes.supervisor.capabilities import Capabilities

FACTS = "# # {label} · A title: part\n#\n# A promise.\n#\n# **50 minutes · difficulty 1 of 5 · needs: {needs}**\n"


@pytest.fixture
def course(tmp_path):
    """A course of one lesson, made by ``course(needs, code)``."""

    def make(needs: str = "cpu", code: str = "1 + 1", name: str = "03b_lesson"):
        folder = tmp_path / "notebooks" / "src"
        folder.mkdir(parents=True, exist_ok=True)
        first = FACTS.format(label=name.partition("_")[0], needs=needs)
        (folder / f"{name}.py").write_text(f"# %% [markdown]\n{first}\n# %%\n{code}\n")
        return tmp_path

    return make


def judged(root, here=PLAIN, doctor=()):
    (one,) = judge(choose([], root), here, doctor, root)
    return one


def test_a_lesson_that_needs_nothing_runs(course):
    assert judged(course()).status == "runs"


@pytest.mark.parametrize(
    ("needs", "gpus", "status"),
    [
        ("one gpu", 0, "blocked"),
        ("one gpu", 1, "runs"),
        ("many gpus", 0, "blocked"),
        ("many gpus", 1, "blocked"),
        ("many gpus", 2, "runs"),
    ],
)
def test_gpus_that_a_lesson_needs(course, needs, gpus, status):
    found = judged(course(needs), with_gpus(gpus) if gpus else PLAIN)
    assert found.status == status
    if status == "blocked":
        assert "needs" in found.reasons[0]
        assert ("has one" if gpus else "has none") in found.reasons[0]
        assert found.remedy


def test_gpus_that_torch_cannot_use_are_said(course):
    gpu = with_gpus(1).devices[0]
    here = replace(PLAIN, unusable_devices=(gpu,), gpu_note="This torch is built for the CPU.")
    assert "none that PyTorch can use: This torch is built for the CPU." in judged(course("one gpu"), here).reasons[0]


def test_what_the_doctor_finds_blocked_blocks_all(course):
    ill = Finding("back ends", "blocked", "no gloo", "Install an official build of PyTorch.")
    found = judged(course(), doctor=[Finding("GPU", "warning", "odd"), ill])
    assert found.status == "blocked"
    assert found.reasons == ("back ends: no gloo",)
    assert found.remedy == "Install an official build of PyTorch."


def test_cells_that_say_what_they_lack(course):
    root = course(code='print("blocked: needs a GPU. There,")\nprint(f"blocked: needs 2 GPUs, and")')
    assert judged(root).reasons == ("a cell needs a GPU, and says so", "a cell needs 2 GPUs, and says so")
    assert judged(root, with_gpus(1)).reasons == ("a cell needs 2 GPUs, and says so",)
    assert judged(root, with_gpus(2)).status == "runs"


@pytest.mark.parametrize(("has", "status"), [(True, "runs"), (False, "in part")])
def test_nodes_without_networks_of_their_own(course, monkeypatch, has, status):
    monkeypatch.setattr(
        "course_lib.nodes.supervisor.capabilities.find_capabilities",
        lambda: Capabilities(has, reason="not allowed to this user"),
    )
    found = judged(course(code="from course_lib.nodes import Nodes"))
    assert found.status == status
    assert has or "loopback, not on a network (not allowed to this user)" in found.reasons[0]


def test_words_that_choose_lessons(course):
    course(name="02a_x"), course(name="02b_y")
    root = course(name="10a_z")
    assert [one.label for one in choose(["02"], root)] == ["02a", "02b"]
    assert [one.label for one in choose(["10a", "02b"], root)] == ["02b", "10a"]
    assert len(choose([], root)) == 3


@pytest.mark.parametrize(("word", "near"), [("2a", "02a"), ("02c", "02"), ("xyz", "")])
def test_a_lesson_that_is_not_there(course, word, near):
    course(name="02a_x")
    with pytest.raises(ValueError, match=f"there is no lesson '{word}'; the nearest is {near}"):
        choose([word], course(name="10a_z"))


def test_no_course_at_all(tmp_path):
    with pytest.raises(ValueError, match="holds no lesson"):
        choose([], tmp_path)


def test_the_lessons_of_this_course_are_all_judged():
    from course_lib.base.paths import project_root

    chosen = choose(["00", "03b"], project_root())
    found = judge(chosen, PLAIN, (), project_root())
    assert [one.status for one in found] == ["runs", "in part"]
    assert found[1].reasons == ("a cell needs 2 GPUs, and says so",)
