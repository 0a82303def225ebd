"""The start page: what is done, what comes next and why, what is due, and what is said where something is wrong."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from start_page.conftest import MONDAY, Planted

from course_lib import start
from course_lib.base.paths import project_root
from course_lib.cli import main as course
from course_lib.learn.builds.catalogue import build_named
from course_lib.learn.checks.lesson_index import places
from course_lib.lessons.info import lessons, tour
from course_lib.lessons.ways import MORE_PATHS, PATHS
from course_lib.start_page import page
from course_lib.start_page.certificate import certificate, passed_builds
from course_lib.start_page.chosen_path import EVERYTHING, chosen_path, parts_of, path_named
from course_lib.start_page.page import StartPage, part_page, start_page
from course_lib.start_page.part_states import part_states

YESTERDAY = MONDAY - timedelta(days=1)


def section(found: StartPage, title: str) -> str:
    return "\n".join(next(one.lines for one in found.sections if one.title.startswith(title)))


def pass_quiz_and_checks_of_00(learner: Planted) -> None:
    for name in ("mean", "report", "share"):
        learner.did("check", f"00.{name}", status="passed")
    for name in ("memory", "ranks", "mean", "exit_codes", "evidence"):
        learner.did("quiz", f"00.{name}", right=True)


def pass_build(learner: Planted, name: str) -> None:
    for number, step in enumerate(build_named(name).steps):
        learner.did("check", step, MONDAY + timedelta(days=number), status="passed")


# --- Done, begun, next --------------------------------------------------------------------------------------------


def test_a_beginner_begins_with_the_first_part(learner: Planted) -> None:
    found = start_page()
    assert found.next is not None
    assert found.next.label == "00"
    assert "Your path begins with it." in section(found, "What comes next")
    assert f"0 of {len(lessons(project_root()))} parts done" in section(found, "Your path")
    assert "no missed question waits" in section(found, "Asked again")
    assert "Empty" in section(found, "Your own library")
    assert "nothing leaves this machine" in section(found, "Your record")


def test_a_part_is_done_when_its_checks_and_its_quiz_are(learner: Planted) -> None:
    pass_quiz_and_checks_of_00(learner)
    found = start_page()
    assert found.next is not None
    assert found.next.label == "01a"
    assert "is done, up to 00" in section(found, "What comes next")
    assert "1 of " in section(found, "Your path")


def test_a_part_is_not_done_by_its_checks_alone_nor_by_half_its_quiz(learner: Planted) -> None:
    for name in ("mean", "report", "share"):
        learner.did("check", f"00.{name}", status="passed")
    assert section(start_page(), "What comes next").startswith("00 ")
    learner.did("quiz", "00.ranks", right=True)
    assert "You have begun it: 3 of 3 checks, 1 of 5 questions, 0 of 4 pred" in section(start_page(), "What comes next")


def test_a_part_that_is_begun_comes_next_and_says_how_far_it_is(learner: Planted) -> None:
    pass_quiz_and_checks_of_00(learner)
    learner.did("check", "04.gradients", status="passed")
    found = start_page()
    assert found.next is not None
    assert found.next.label == "04a"
    assert "You have begun it: 1 of 2 checks, 0 of 6 predictions." in section(found, "What comes next")
    assert "Begun: 04a." in section(found, "Your path")


def test_a_part_without_checks_is_done_by_its_predictions(learner: Planted) -> None:
    index, infos = places(), [info for info in lessons(project_root()) if info.label == "01b"]
    for name in index.asked_in["01b"]:
        assert part_states(infos, index, learner.events)[0].state != "done"
        learner.did("predict", name, right=False)
    assert part_states(infos, index, learner.events)[0].state == "done"


def test_the_tour_is_done_when_anything_is(learner: Planted) -> None:
    learner.did("path", "You choose hardware")
    assert start_page().next == tour(project_root())[0]
    learner.did("guess", "01.backward")
    (opening,) = tour(project_root())
    assert start_page().next != opening


def test_minutes_left_are_those_of_the_parts_that_are_left(learner: Planted) -> None:
    learner.did("path", "You teach")
    path = path_named("You teach")
    infos = parts_of(path, [*tour(project_root()), *lessons(project_root())])
    pass_quiz_and_checks_of_00(learner)
    left = sum(info.minutes for info in infos if info.label not in ("00", ""))  # the tour too is done
    whole, rest = divmod(left, 60)
    assert f"{whole}\N{NO-BREAK SPACE}h\N{NO-BREAK SPACE}{rest}" in section(start_page(), "Your path: You teach")


def test_a_path_that_is_done_says_so(learner: Planted) -> None:
    learner.did("path", "ten minutes")
    learner.did("guess", "00.sum")
    found = start_page()
    assert found.next is None
    assert "Every part of your path is done." in section(found, "What comes next")


def test_what_a_placement_found_is_passed_over(learner: Planted) -> None:
    learner.did("placement", "placement", known={"00": ["01.state", "01.batch"], "01a": ["01.state", "01.batch"]})
    found = start_page()
    assert found.next is not None
    assert found.next.label == "01b"
    assert "2 known by your placement" in section(found, "Your path")
    assert "done or known, up to 01a" in section(found, "What comes next")


@pytest.mark.parametrize("known", [None, ["00"], {"00": "01.state"}, 3])
def test_a_placement_that_cannot_be_read_is_passed_over(learner: Planted, known: object) -> None:
    learner.did("placement", "placement", known=known)
    found = start_page()
    assert found.next is not None
    assert found.next.label == "00"


def test_why_a_part_comes_next_names_what_it_builds_on(learner: Planted) -> None:
    assert "It builds on no other part." in section(start_page(), "What comes next")
    pass_quiz_and_checks_of_00(learner)
    assert "It builds on 00 (done)." in section(start_page(), "What comes next")
    learner.did("path", "You teach")
    learner.did("check", "07.gpipe", status="passed")
    told = section(start_page(), "What comes next")
    assert "It builds on 01c (not done, and not on your path) and 06a (not done, and not on your path)." in told


def test_a_part_says_which_of_what_it_builds_on_is_done(learner: Planted) -> None:
    pass_quiz_and_checks_of_00(learner)
    learner.did("check", "04.gradients", status="passed")
    learner.did("placement", "placement", known={"02a": ["02.bytes", "02.rounds"]})
    found = start("04d")
    assert isinstance(found, StartPage)
    assert [one.title[:3] for one in found.sections] == ["04d", "02d", "04a", "04b"]
    assert "It builds on 02d, 04a and 04b" in section(found, "04d")
    assert "4 parts are left before it" in section(found, "04d")  # with 02b, on which 02d builds; 00 and 02a are over
    assert "Read 02b first." in section(found, "04d")
    assert section(found, "02d").startswith("Not begun.")
    assert section(found, "04a") == "Begun. 1 of 2 checks, 0 of 6 predictions."
    assert found.next is not None
    assert found.next.label == "02b"


def test_a_part_whose_prerequisites_are_done_can_begin(learner: Planted) -> None:
    pass_quiz_and_checks_of_00(learner)
    found = part_page("02a")
    assert "You have done or know all parts that it builds on, directly or indirectly. You can begin." in section(
        found, "02a"
    )
    assert section(found, "00").startswith("Done. 3 of 3 checks, 5 of 5 questions")
    assert found.next is not None
    assert found.next.label == "02a"
    assert section(part_page("00"), "00").endswith("It builds on no other part.")


@pytest.mark.parametrize("part", ["4d", "99", "tour", "04", "\x1b[2J"])
def test_a_part_that_there_is_not_gets_a_sentence(learner: Planted, part: str) -> None:
    with pytest.raises(ValueError, match=r"there is no part .*00, 01a, .*14b"):
        start(part)


# --- The path -----------------------------------------------------------------------------------------------------


def test_paths_are_those_of_the_pages() -> None:
    for path in (*MORE_PATHS, *PATHS):
        assert path_named(path.time) == path
        assert path_named(path.time.upper()) == path
    assert path_named("hardware").time == "You choose hardware"


def test_a_path_is_kept_and_the_last_one_counts(learner: Planted) -> None:
    start(path="hardware")
    assert chosen_path(learner.events).time == "You choose hardware"
    start(path="an evening")
    assert chosen_path(learner.events).time == "an evening"
    learner.did("path", "a path of an older course")
    assert chosen_path(learner.events) == EVERYTHING


@pytest.mark.parametrize("words", ["hardwear", "", "you", "\x1b[2J"])
def test_a_path_that_there_is_not_gets_a_sentence(learner: Planted, words: str) -> None:
    with pytest.raises(ValueError, match=r"there is no path .*You choose hardware"):
        path_named(words)
    assert learner.events == []


# --- Due, library, builds, record ---------------------------------------------------------------------------------


def test_a_missed_question_is_due_the_next_day(learner: Planted) -> None:
    learner.did("quiz", "00.mean", right=False)
    assert "The next is due on 03 November 2026." in section(start_page(), "Asked again")
    learner.did("quiz", "00.ranks", YESTERDAY, right=False)
    found = start_page()
    assert [one.name for one in found.due] == ["00.ranks"]
    assert "00.ranks, a quiz, missed on 01 November 2026." in section(found, "Asked again")


def test_builds_that_have_passed_have_a_page(learner: Planted) -> None:
    assert passed_builds(learner.events) == {}
    pass_build(learner, "04.ddp")
    assert passed_builds(learner.events) == {"04.ddp": "2026-11-06"}
    assert "04.ddp, on 2026-11-06: `course start --certificate 04.ddp`." in section(start_page(), "Builds passed")
    html = certificate("04.ddp", learner.events)
    assert "A DistributedDataParallel of your own" in html
    assert "2026-11-02" in html
    assert "Nobody has signed this page" in html
    assert "<script" not in html


def test_a_damaged_record_says_so_and_its_good_lines_count(learner: Planted) -> None:
    pass_quiz_and_checks_of_00(learner)
    with learner.path.open("ab") as file:
        file.write(b"\x00 rubbish\n")
    found = start_page()
    assert "1 line of your progress file could not be read." in section(found, "Your record")
    assert "1 of " in section(found, "Your path")


def test_a_record_that_is_no_file_says_so(learner: Planted) -> None:
    learner.path.mkdir(parents=True)
    assert "could not be read whole" in section(start_page(), "Your record")


def test_nothing_is_kept_where_nothing_may_be() -> None:
    assert "Progress is not kept in this run." in section(start_page(), "Your record")


def test_a_library_that_cannot_be_read_says_so(learner: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path) -> list[object]:
        raise ValueError("mine is a pipe")

    monkeypatch.setattr(page, "listed", broken)
    assert "It cannot be read: mine is a pipe." in section(start_page(), "Your own library")


# --- Shown --------------------------------------------------------------------------------------------------------


def test_the_table_links_the_next_part_where_it_lies(
    learner: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = start_page()
    (tmp_path / "notebooks" / "solutions").mkdir(parents=True)
    (tmp_path / "notebooks" / "00_start_here.ipynb").touch()
    for folder, link in (("notebooks", ""), ("notebooks/solutions", "../"), (".", "notebooks/")):
        monkeypatch.chdir(tmp_path / folder)
        assert f"<a href='{link}00_start_here.ipynb'>00 · Start here</a>" in found._html()
    monkeypatch.chdir("/")
    assert "<a " not in found._html()


def test_start_shows_what_is_asked_for(learner: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    start()
    assert "What comes next" in capsys.readouterr().out
    start(review=True)
    assert "Nothing that you missed is due today." in capsys.readouterr().out
    start(placement=True)
    assert "Question 1, of 20 at most:" in capsys.readouterr().out


def test_the_page_beside_the_lessons_calls_start_and_holds_no_output() -> None:
    notebook = json.loads((project_root() / "notebooks" / "start.ipynb").read_text())
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert code == ["from course_lib import start\n\nstart()"]
    assert all(not cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code")


# --- The command --------------------------------------------------------------------------------------------------


def test_the_command_shows_the_page_and_keeps_a_path(learner: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    assert course(["start", "--path", "hardware"]) == 0
    assert "Your path is now 'You choose hardware'." in capsys.readouterr().out
    assert course(["start"]) == 0
    assert "Your path: You choose hardware" in capsys.readouterr().out


def test_the_command_shows_what_a_part_builds_on(learner: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    assert course(["start", "02b"]) == 0
    assert "It builds on 02a; how far you are" in capsys.readouterr().out


def test_the_command_asks(
    learner: Planted, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    learner.did("quiz", "00.mean", YESTERDAY, right=False)
    monkeypatch.setattr("builtins.input", lambda ask: "")
    assert course(["start", "--review"]) == 0
    assert "0 right answers to 1 question." in capsys.readouterr().out
    assert course(["start", "--placement"]) == 0
    assert "Read 00 first" in capsys.readouterr().out
    monkeypatch.setattr("builtins.input", lambda ask: "q")
    assert course(["start", "--placement"]) == 0
    assert "Stopped. Nothing is kept." in capsys.readouterr().out


def test_the_command_writes_a_page_of_a_build_and_over_nothing(
    learner: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pass_build(learner, "04.ddp")
    assert course(["start", "--certificate", "04.ddp"]) == 0
    assert (tmp_path / "build-04.ddp.html").read_text().startswith("<!doctype html>")
    assert course(["start", "--certificate", "04.ddp"]) == 2
    assert "is there already, and nothing is written over" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["04z"], "there is no part '04z'; there are 00, 01a"),
        (["04d", "--review"], "04d asks what that part builds on"),
        (["--path", "hardwear"], "The nearest is 'You choose hardware'."),
        (["--path", ""], "there is no path ''"),
        (["--certificate", "04.ddp"], "04.ddp has steps to go. 0 of 5 steps have passed."),
        (["--certificate", "99"], "There is no build '99'; there is 02.all_reduce"),
        (["--out", "page.html"], "--out names the page of --certificate"),
        (["--certificate", "02.all_reduce", "--out", "no/such/page.html"], "there is no folder no/such"),
    ],
)
def test_the_command_says_what_is_wrong(
    learner: Planted, argv: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "no/such/page.html" in argv:
        pass_build(learner, "02.all_reduce")
    assert course(["start", *argv]) == 2
    assert says in capsys.readouterr().err
