"""The progress file: two writers, damage, a full or read-only folder; and the map of lessons drawn from it."""

from __future__ import annotations

import errno
import math
import multiprocessing
import os
import subprocess
import sys
from fractions import Fraction
from types import SimpleNamespace

import pytest

from course_lib.learn import exercises, progress
from course_lib.learn.catalogue.exercise import Exercise
from course_lib.learn.judging.judge import by_value
from course_lib.learn.records.store import Store, parse
from course_lib.learn.records.summary import summary
from course_lib.lessons import LessonInfo

store_module = sys.modules["course_lib.learn.records.store"]
progress_module = sys.modules["course_lib.learn.checks.progress_map"]


def passed(name):
    return {"event": "check", "name": name, "status": "passed"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new folder" / "progress.jsonl"


@pytest.fixture
def kept(path, monkeypatch):
    """The learner's store, switched on for this test and led to a folder of its own."""
    monkeypatch.setattr(store_module, "_is_off", lambda: False)
    monkeypatch.setattr(store_module, "data_dir", lambda: path.parent)
    monkeypatch.setattr(store_module, "_told", set())
    return Store(path)


def test_events_come_back_in_order(path):
    kept = Store(path)
    for name in ("00.a", "00.b", "01.ü"):
        kept.append(passed(name))
    assert kept.read() == [passed("00.a"), passed("00.b"), passed("01.ü")]
    assert path.read_bytes().count(b"\n") == 3
    assert kept.messages == []


def test_nothing_is_kept_under_pytest_and_in_a_store_without_a_path(capsys):
    assert store_module.store().path is None
    Store(None).append(passed("00.a"))
    assert Store(None).read() == []
    assert "not kept in this run" in repr(progress())


def _write_many(path, name, count):
    for number in range(count):
        Store(path).append(passed(f"00.{name}{number}"))


def test_two_writers_at_once_lose_nothing(path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(path, name, 150)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    events, damaged = parse(path.read_bytes())
    assert damaged == 0
    assert sorted(event["name"] for event in events) == sorted(f"00.{w}{n}" for w in "ab" for n in range(150))


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\x00\xff\xfe\n",
        b'{"event": "check", "na\n',
        b"[1, 2]\n",
        b'{"event": 3, "name": "a"}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_damaged_file_is_set_aside_and_its_good_lines_stay(path, rubbish):
    kept = Store(path)
    kept.append(passed("00.a"))
    with path.open("ab") as file:
        file.write(rubbish)
    kept.append(passed("00.b"))
    before = path.read_bytes()
    assert kept.read() == [passed("00.a"), passed("00.b")]
    (aside,) = path.parent.glob("progress-damaged-*.jsonl")
    assert aside.read_bytes() == before
    assert len(kept.messages) == 1
    assert str(aside) in kept.messages[0]
    assert parse(path.read_bytes()) == ([passed("00.a"), passed("00.b")], 0)
    again = Store(path)
    assert again.read() == [passed("00.a"), passed("00.b")]
    assert again.messages == []


def test_a_half_line_at_the_end_does_not_spoil_the_next(path):
    kept = Store(path)
    kept.append(passed("00.a"))
    with path.open("ab") as file:
        file.write(b'{"event":"che')
    kept.append(passed("00.b"))
    assert kept.read() == [passed("00.a"), passed("00.b")]


def test_a_full_disk_is_told_once_and_leaves_no_half_line(path, kept, monkeypatch, capsys):
    kept.append(passed("00.a"))
    write = os.write
    monkeypatch.setattr(store_module.os, "write", lambda file, line: write(file, line[:5]))
    kept.append(passed("00.b"))
    kept.append(passed("00.c"))
    monkeypatch.undo()
    told = capsys.readouterr().err
    assert told.count("cannot be written") == 1
    assert os.strerror(errno.ENOSPC) in told
    assert parse(path.read_bytes()) == ([passed("00.a")], 0)


def test_a_folder_that_cannot_be_made_is_told_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(store_module, "_told", set())
    (tmp_path / "file").write_text("")
    kept = Store(tmp_path / "file" / "progress.jsonl")
    kept.append(passed("00.a"))
    kept.append(passed("00.a"))
    assert capsys.readouterr().err.count("Lessons go on") == 1
    assert kept.read() == []


def test_a_user_without_a_home_folder_is_told_and_goes_on(monkeypatch, capsys):
    def homeless():
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr(store_module, "_is_off", lambda: False)
    monkeypatch.setattr(store_module, "data_dir", homeless)
    store_module._told.clear()
    for _ in range(2):
        store_module.record("check", "00.share", status="passed")
    assert capsys.readouterr().err.count("could not determine the home directory") == 1


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    kept = Store(tmp_path)  # a folder where the file should be
    assert kept.read() == []
    assert "could not be read" in kept.messages[0]


def test_an_event_says_what_was_done_and_holds_no_code(kept, monkeypatch):
    from course_lib.learn import check

    one = Exercise(name="99.one", title="One", judge=by_value(7), mistakes=(), hints=("a", "b", "c"))
    monkeypatch.setattr(exercises, "exercise", lambda name: one)
    check("99.one", "my secret answer")
    (event,) = kept.read()
    assert set(event) == {"time", "event", "name", "status", "course"}
    assert (event["event"], event["name"], event["status"]) == ("check", "99.one", "not yet")
    assert "secret" not in kept.path.read_text()
    assert event["time"].endswith("+00:00")


def test_predictions_hints_and_quizzes_are_recorded(kept, monkeypatch):
    from course_lib.learn import Predict, hint, quiz
    from course_lib.learn.catalogue.quiz_spec import Question
    from course_lib.learn.checks import hints

    question = Question(name="q", text="?", choices=(1, 2), answer=lambda: 1, misconceptions={2: "no"}, because="")
    one = Exercise(name="99.one", title="One", judge=by_value(7), mistakes=(), hints=("a", "b", "c"))
    monkeypatch.setattr(exercises, "exercise", lambda name: one)
    monkeypatch.setattr(exercises, "quiz_of", lambda lesson: (question,))
    monkeypatch.setattr(hints, "_given", {})
    p = Predict("99.recorded", "?", unit="ms")
    p.commit(10)
    p.reveal(measured=40)
    p.reveal(measured=40)
    hint("99.one")
    quiz("99").answer("q", "b")
    quiz("99").answer("q", "a")
    found = summary(kept.read())["99"]
    assert found.off == {"99.recorded": 0.25}
    assert found.predicted == {"99.recorded"}
    assert found.predicted_right == set()
    assert found.hints == {"99.one": 1}
    assert found.quiz_right == {"99.q"}
    assert found.quiz_tries == {"99.q": 2}
    assert [event["event"] for event in kept.read()] == ["guess", "predict", "hint", "quiz", "quiz"]


def test_a_question_of_a_parts_quiz_counts_for_its_lesson(kept):
    from course_lib.learn import quiz

    quiz("04f").answer("axes", 8000)
    (line,) = (one for one in progress_module.progress_map(kept).lines if one.number == "04")
    assert (line.questions_right, line.questions) == (1, 6 + 2)


def test_what_was_predicted_is_kept_when_it_is_locked_and_beside_what_it_met(kept):
    from course_lib.learn import Predict

    p = Predict("99.beside", "How much?", unit="MiB")
    p.commit(10)
    p.commit(11)  # locked: this is no guess
    (guess,) = kept.read()
    assert (guess["event"], guess["value"], guess["kind"], guess["unit"]) == ("guess", 10, "number", "MiB")
    assert not {"model", "measured", "right"} & guess.keys()
    p.reveal(measured=Fraction(40), model=math.inf, label="computed")
    told = kept.read()[-1]
    assert (told["predicted"], told["measured"], told["model"], told["label"]) == (
        10,
        40.0,
        "inf",
        "computed",
    )
    p.reset()
    p.commit(12)
    assert [event["event"] for event in kept.read()] == ["guess", "predict", "guess"]


def test_a_file_of_an_older_course_is_read_as_ever(kept):
    old = {"event": "predict", "name": "99.old", "kind": "number", "right": True, "off": 1.1}
    kept.append(old)
    assert summary(kept.read())["99"].predicted_right == {"99.old"}


def test_a_summary_counts_tries_and_named_mistakes():
    events = [
        {"event": "check", "name": "01.a", "status": "not attempted"},
        {"event": "check", "name": "01.a", "status": "not yet", "mistake": "off-by-one"},
        {"event": "check", "name": "01.a", "status": "not yet", "mistake": "off-by-one"},
        passed("01.a"),
        passed("00.z"),
        {"event": "quiz", "name": "01.q", "right": False},
        {"event": "of a later version", "name": "01.a"},
        {"event": "check", "name": "nowhere"},
    ]
    found = summary(events)
    assert list(found) == ["00", "01"]
    assert found["01"].passed == {"01.a"}
    assert found["01"].tries["01.a"] == 3
    assert found["01"].quiz_right == set()
    assert found["01"].quiz_tries["01.q"] == 1
    assert found["01"].mistakes == {"01.a off-by-one": 2}


def test_the_minutes_of_a_lesson_are_those_of_its_parts(monkeypatch):
    parts = [("98", "Split: one", 45, "a"), ("98", "Split: two", 30, "b"), ("99", "Whole: a colon", 20, "")]
    infos = [
        LessonInfo(number, "name", title, "A promise.", minutes, 1, "cpu", part)
        for number, title, minutes, part in parts
    ]
    monkeypatch.setattr("course_lib.lessons.lessons", lambda: infos)
    assert progress_module._titles() == {"98": ("Split", 75), "99": ("Whole: a colon", 20)}


@pytest.fixture
def lesson(monkeypatch):
    named = [SimpleNamespace(name="98.a"), SimpleNamespace(name="98.b")]
    monkeypatch.setattr(exercises, "lesson_numbers", lambda: ("98", "99"))
    monkeypatch.setattr(exercises, "exercises_of", lambda lesson: named if lesson == "98" else [])
    monkeypatch.setattr(exercises, "quiz_of", lambda lesson: [SimpleNamespace(name="q")])
    problems = [SimpleNamespace(name="98.p"), SimpleNamespace(name="98.r")]
    monkeypatch.setattr(exercises, "problems_of", lambda lesson: problems if lesson == "98" else [])
    monkeypatch.setattr(progress_module, "_titles", lambda: {"97": ("Soon", 30), "98": ("Split", 45)})


@pytest.mark.parametrize(
    ("events", "state", "row"),
    [
        ([], "not begun", "98 Split  45 min  ○ not begun  0 of 2     0 of 1  0            0 of 2"),
        ([passed("98.a")], "begun", "98 Split  45 min  ◐ begun      1 of 2     0 of 1  0            0 of 2"),
        (
            [{"event": "problem", "name": "98.p", "right": True}, {"event": "problem", "name": "98.r", "right": False}],
            "begun",
            "98 Split  45 min  ◐ begun      0 of 2     0 of 1  0            1 of 2",
        ),
        (
            [
                passed("98.a"),
                passed("98.b"),
                {"event": "quiz", "name": "98.q", "right": True},
                passed("98.gone"),
            ],
            "done",
            "98 Split  45 min  ✓ done       2 of 2     1 of 1  0            0 of 2",
        ),
    ],
)
def test_the_map_tells_what_is_done(kept, lesson, events, state, row):
    for event in events:
        kept.append(event)
    shown = progress()
    assert [line.number for line in shown.lines] == ["97", "98", "99"]
    assert shown.lines[1].state == state
    assert row in repr(shown)
    assert "<td" in shown._html()
    assert f" {state}</td>" in shown._html()
    assert "<th scope='col'" in shown._html()


def test_a_lesson_without_exercises_is_not_done_before_it_is_begun(kept, lesson):
    assert progress().lines[0].state == "not begun"


def test_the_map_tells_of_a_damaged_file(kept, lesson):
    kept.append(passed("98.a"))
    with kept.path.open("ab") as file:
        file.write(b"rubbish\n")
    shown = progress()
    assert "set aside as" in repr(shown)
    assert shown.lines[1].exercises_passed == 1


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [("off", False), ("OFF", False), ("", True), ("on", True), ("marked by nbgrader", False)],
)
def test_course_progress_off_keeps_nothing(tmp_path, value, is_kept):
    code = (
        "from course_lib.learn.records import store as kept\n"
        "kept._started_by_pytest = lambda: False; print(kept.store().path)"
    )
    env = {**os.environ, "COURSE_HOME": str(tmp_path), "COURSE_PROGRESS": value}
    env |= {"NBGRADER_EXECUTION": "autograde"} if value == "marked by nbgrader" else {}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
    assert done.stdout.strip() == (str(tmp_path / "data" / "progress.jsonl") if is_kept else "None"), done


def test_a_process_that_pytest_started_keeps_nothing(tmp_path):
    code = "from course_lib.learn.records.store import store; print(store().path)"
    parent = (
        "import subprocess, sys; "
        f"print(subprocess.run([sys.executable, '-c', {code!r}], capture_output=True, text=True).stdout)"
    )
    pytest_like = tmp_path / "pytest"
    pytest_like.write_text(parent)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COURSE_PROGRESS"))}
    command = [sys.executable, str(pytest_like)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
    assert done.stdout.strip() == "None", done


HALF_A_CHARACTER = b'{"event":"check","name":"99.\\ud800"}'


def test_half_a_character_in_a_name_spoils_neither_reading_nor_writing(path):
    """JSON may hold a surrogate without its other half; UTF-8 cannot. A damaged line beside it has the file mended."""
    path.parent.mkdir()
    path.write_bytes(HALF_A_CHARACTER + b"\nrubbish\n")
    store = Store(path)
    assert [event["name"] for event in store.read()] == ["99.\ud800"]
    assert "1 line of your progress file could not be read" in store.messages[0]
    store.append({"event": "check", "name": "99.\udfff", "status": "passed"})
    store.append({"event": "check", "name": "99.ü"})
    assert [event["name"] for event in Store(path).read()] == ["99.\ud800", "99.\udfff", "99.ü"]
    assert "ü".encode() in path.read_bytes()


def test_a_pipe_in_the_place_of_the_file_is_told_and_nobody_waits_for_its_other_end(path, capsys):
    path.parent.mkdir()
    os.mkfifo(path)
    store = Store(path)
    store.append(passed("99.split"))
    assert "Your progress is not being kept" in capsys.readouterr().err
    assert store.read() == []
    assert store.messages == [f"Your progress could not be read whole: {path} (it is no file)."]
