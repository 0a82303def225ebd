"""``course bench judges``: what a mutant is, that each answer gets its verdict, and that no answer ends the bench."""

from __future__ import annotations

import ast
import json
import sys
import types

import pytest

from course_lib.authoring.bench.judging import judges, kept_answers
from course_lib.authoring.bench.judging.hand_in import hand_in
from course_lib.authoring.bench.judging.mutants import FOR_EVER, mutants_of
from course_lib.learn import exercises
from course_lib.learn.checks.reference import Solution, run_solution, solution_of

SOLUTION = """
def total(me, values):
    "The text is nobody's defect."
    count = len(values)
    work = send(values, async_op=True)
    if count > 2:
        values += 1
    with quiet():
        work.wait()
    for value in range(count):
        values.append(value * 2 + me.rank)
    return values[1:] / me.world_size
"""


def mutants(code: str = SOLUTION, first: int = 2, last: int = 100) -> dict[str, str]:
    solution = Solution(ast.parse(code), "total", first, last)
    return {mutant.what: ast.unparse(mutant.tree) for mutant in mutants_of(solution)}


def test_every_mutant_differs_from_the_solution_and_from_the_others():
    codes = list(mutants().values())
    assert len(codes) > 50
    assert len({*codes, ast.unparse(ast.parse(SOLUTION))}) == len(codes) + 1


@pytest.mark.parametrize(
    ("what", "contained"),
    [
        ("2: `count = len(values)` -> nothing", "pass\n"),
        (
            "2: `count = len(values)` after `work = send(values, async_op=True)`",
            "async_op=True)\n    count =",
        ),
        ("4: `if count > 2:` -> always", "\n    values += 1"),
        ("4: `count > 2` -> `count >= 2`", "if count >= 2"),
        ("4: `2` -> `3`", "if count > 3"),
        ("5: `values += 1` -> a new name for a new value", "values = values + 1"),
        ("6: `with quiet():` -> without", "\n    work.wait()"),
        ("7: `work.wait()` -> `work`", "\n        work\n"),
        ("8: `for value in range(count):` -> once", "me.rank)\n        break"),
        ("8: `range(count)` -> `range(count - 1)`", "range(count - 1)"),
        ("9: `value * 2 + me.rank` -> `value * 2`", "append(value * 2)"),
        ("9: `me.rank` -> `0`", "value * 2 + 0"),
        ("10: `me.world_size` -> `2`", "values[1:] / 2"),
        ("10: `values[1:] / me.world_size` -> `values[1:] * me.world_size`", "values[1:] * me.world_size"),
        ("10: a return before `return values[1:] / me.world_size`", "    return\n"),
        ("total: gradients switched off", "_torch.set_grad_enabled(False)"),
        (f"total: {FOR_EVER}", "@lambda call, kept=[]"),
    ],
)
def test_people_make_such_defects(what, contained):
    assert contained in mutants()[what]


def test_a_branch_that_is_never_taken_leaves_the_other():
    made = mutants("def total(a):\n    if a:\n        return 1\n    else:\n        return 2", first=1)
    assert made["1: `if a:` -> never"] == "def total(a):\n    return 2"


def test_what_the_lesson_gives_is_left_as_it_is():
    code = "def given(a):\n    return a + 1\n" + SOLUTION
    assert not any("given" in what or "a + 1" in what for what in mutants(code, first=4))


def test_the_first_result_for_ever_is_what_it_says():
    solution = Solution(ast.parse("def total(a):\n    return a + 1"), "total", 1, 9)
    (frozen,) = [one for one in mutants_of(solution) if one.what.endswith(FOR_EVER)]
    total = run_solution(frozen.tree, "total", filename="<frozen>")
    assert [total(1), total(5)] == [2, 2]


def test_every_exercise_has_a_solution_between_marks():
    for lesson in exercises.lesson_numbers():
        for exercise in exercises.exercises_of(lesson):
            solution = solution_of(exercise.name)
            statements = (node for node in ast.walk(solution.tree) if isinstance(node, ast.stmt))
            assert any(solution.is_own(statement) for statement in statements), exercise.name


class Line:
    """The end of a pipe that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list = []

    def send(self, what: object) -> None:
        self.sent.append(what)

    def close(self) -> None:
        self.sent.append("closed")


def test_answers_are_handed_in_from_a_number_on_and_told_before_and_after(monkeypatch):
    monkeypatch.setattr(kept_answers, "right_answers", lambda name: (lambda n, w, r: None,))
    line = Line()
    hand_in("11.exposed", 1, ("right", "mutant"), "-> nothing", line)
    *told, end, closed = line.sent
    assert (end[1], closed) == ("end", "closed")
    assert [one[0] for one in told[:4]] == [1, 1, 2, 2]
    assert [(one[1], bool(one[3])) for one in told[:4]] == [
        ("right", False), ("right", True), ("mutant", False), ("mutant", True),
    ]  # fmt: skip
    assert all("-> nothing" in one[2] for one in told[2:])
    assert {one[3] for one in told if one[3]} <= {"not yet", "raised", "not attempted"}


def leaves_and_hangs(name: str, start: int, kinds, only: str, line) -> None:
    """In place of ``hand_in``: the second answer ends its process, the fourth one never ends."""
    import os
    import time

    statuses = ["passed", None, "not yet", ..., "passed", "passed"]
    for number in range(start, len(statuses)):
        kind = "right" if number == 0 else "mutant"
        line.send((number, kind, f"answer {number}", ""))
        if statuses[number] is None:
            os._exit(3)
        if statuses[number] is ...:
            time.sleep(1000)
        line.send((number, kind, f"answer {number}", statuses[number]))
    line.send((0, "end", "", ""))


@pytest.mark.long
def test_an_answer_that_ends_or_hangs_its_process_is_one_answer_refused(monkeypatch):
    monkeypatch.setattr(judges, "hand_in", leaves_and_hangs)
    monkeypatch.setattr(judges, "_SILENCE_S", 8.0)
    monkeypatch.setattr(kept_answers, "same_function", lambda name: {"answer 5": "it is the same"})
    report = judges.try_exercise("00.share")
    assert (report.num_right, report.refused_right) == (1, [])
    assert report.statuses == {"ended its process": 1, "not yet": 1, "hung": 1, "passed": 2}
    assert report.survivors == ["answer 4"]
    assert report.same == {"answer 5": "it is the same"}
    assert (report.num_refused, report.num_wrong) == (3, 4)


def test_the_bench_tells_and_keeps_what_was_accepted(monkeypatch, tmp_path, capsys):
    def tried(name: str, *, kinds, only: str) -> judges.JudgesReport:
        report = judges.JudgesReport(name, num_mutants=4, survivors=["1: `a` -> `b`"], same={"2": "why"}, num_right=3)
        report.refused_right.append("by_einsum: not yet")
        report.num_spoilt, report.num_idle = 5, 2
        report.unnoticed, report.harmless = ["leaves-a-seed: the solution"], {"only-float32: the solution": "one dtype"}
        return report

    monkeypatch.setattr(judges, "try_exercise", tried)
    kept = tmp_path / "judges.json"
    assert judges.main(["00.share", "06", "--json", str(kept)]) == 0
    text = capsys.readouterr().out
    for told in (
        "00.share",
        "06.backward",
        "66.7% (at least 97% is asked for)",
        "accepted  1: `a` -> `b`",
        "3 of 4",
        "accepted  leaves-a-seed: the solution",
    ):
        assert told in text
    assert "a right answer refused  by_einsum: not yet" in text
    assert "07.gpipe" not in text
    (first, *_) = json.loads(kept.read_text())["exercises"]
    assert (first["sabotaged"], first["nothing_to_spoil"]) == (5, 2)
    assert first["sabotaged_accepted"] == ["leaves-a-seed: the solution"]
    assert (first["refused"], first["mutants"], first["same_function"]) == (2, 4, {"2": "why"})


def test_an_unknown_name_gets_the_nearest(capsys):
    with pytest.raises(SystemExit):
        judges.main(["00.shore"])
    assert 'Did you mean "00.share"?' in capsys.readouterr().err


def test_a_room_says_which_answers_are_right_and_why_two_functions_are_the_same(monkeypatch):
    room = types.ModuleType("answers.lesson_00.right")
    room.RIGHT_ANSWERS, room.SAME_FUNCTION = {"00.share": (range,)}, {"00.share": {"1": "why"}}
    room.MEANS_NOTHING = {"00.share": {"only-float32": "it is given whole numbers"}}
    monkeypatch.setitem(sys.modules, room.__name__, room)
    monkeypatch.setattr(kept_answers.importlib.util, "find_spec", lambda name: room)
    assert kept_answers.same_function("00.share") == {"1": "why"}
    assert kept_answers.right_answers("00.share")[0] is range
    assert {one.__name__ for one in kept_answers.right_answers("00.share")[1:]} == {"whole_division"}
    assert kept_answers.means_nothing("00.share") == {"only-float32": "it is given whole numbers"}
    assert (kept_answers.same_function("00.mean"), kept_answers.means_nothing("00.mean")) == ({}, {})


def test_without_a_clone_there_are_no_answers_and_a_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(kept_answers, "_TESTS", tmp_path)
    with pytest.raises(ValueError, match="kept in a clone of the course alone"):
        kept_answers.right_answers("00.share")
