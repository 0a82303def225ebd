"""``mine.NAME``: the learner's as it passed, the course's in every other case, and a line that says which."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from own_library import HELPERS, ZIGZAG, Notebook, zigzag_kept

from course_lib import check, mine
from course_lib.learn.records import store as store_module
from course_lib.mine import courses
from course_lib.mine.again import check_again

MARK = "PARTS = 2"


def line(capsys):
    """Whose function stands there, and the line that says so."""
    function = mine.positions_of
    return function, capsys.readouterr().out.strip()


def edit(learner, old, new):
    text = learner.context.read_text()
    assert old in text
    learner.context.write_text(text.replace(old, new))


def test_before_a_check_has_passed_it_is_the_courses_and_nothing_is_written(anna, capsys):
    function, told = line(capsys)
    assert function is courses.positions_of
    assert told == "mine.positions_of is the course's; once 10.zigzag has passed, it is yours."
    assert not anna.home.exists()


def test_what_passes_is_kept_and_used_and_the_page_says_so(anna, capsys):
    said = zigzag_kept(capsys)
    assert f"Kept in {anna.context}: from here on `mine.positions_of` is yours." in said
    function, told = line(capsys)
    assert function is not courses.positions_of
    assert function(1, 2, 8) == function(rank=1, num_ranks=2, num_tokens=8) == [2, 3, 4, 5]
    assert told.startswith(f"mine.positions_of is yours: {anna.context}, which passed 10.zigzag on ")
    assert "may take 60 s of a page" in told


def test_the_line_stands_once_in_a_cell(anna, capsys):
    assert line(capsys)[1]
    assert not line(capsys)[1]


def test_what_does_not_pass_is_not_kept(anna, capsys):
    notebook = Notebook()
    notebook.cell("def positions_of(rank, num_ranks, num_tokens):\n    return [rank]")
    assert not check("10.zigzag", notebook["positions_of"]).passed
    assert not anna.folder.exists()


def test_a_pass_that_cannot_be_kept_is_a_pass_and_says_why(anna, capsys):
    notebook = Notebook()
    notebook.cell(
        "def made():\n    PARTS = 2" + (HELPERS + ZIGZAG).replace("\n", "\n    ") + "\n    return positions_of"
    )
    notebook.cell("f = made()")
    assert check("10.zigzag", notebook["f"]).passed
    assert "was not kept for later lessons: it was made within another function" in capsys.readouterr().out
    assert not anna.folder.exists()


@pytest.mark.parametrize("switch", [{"COURSE_MINE": "0"}, {"COURSE_MINE": "off"}, {}])
def test_switched_off_pages_run_as_for_who_has_built_nothing(anna, capsys, monkeypatch, switch):
    """The empty one: where no progress is kept, as while lessons are built and compared."""
    built_nothing = line(capsys)
    zigzag_kept(capsys)
    anna.become()
    for name, value in switch.items():
        monkeypatch.setenv(name, value)
    if not switch:
        monkeypatch.setattr(store_module, "_is_off", lambda: True)
    assert line(capsys) == built_nothing
    before = anna.context.read_text()
    assert "Kept" not in zigzag_kept(capsys)
    assert anna.context.read_text() == before


def test_an_edit_waits_for_its_check_and_the_line_says_how(anna, capsys):
    zigzag_kept(capsys)
    edit(anna, MARK, "PARTS = 1 + 1")
    function, told = line(capsys)
    assert function is courses.positions_of
    assert "in the place of yours: what stands in mine/context.py has not passed 10.zigzag" in told
    assert 'mine.check_again("positions_of")' in told
    assert check_again("positions_of").passed
    anna.become()
    function, _ = line(capsys)
    assert function is not courses.positions_of
    assert function(1, 2, 8) == [2, 3, 4, 5]


def test_an_edit_that_is_wrong_is_told_what_is_wrong_and_stays_out(anna, capsys):
    zigzag_kept(capsys)
    edit(anna, MARK, "PARTS = 4")
    assert not check_again("positions_of").passed
    anna.become()
    assert line(capsys)[0] is courses.positions_of
    edit(anna, "PARTS = 4", MARK)
    assert line(capsys)[0] is not courses.positions_of  # as it passed before


def test_lines_that_do_not_concern_it_need_no_check_and_do_not_run(anna, capsys):
    zigzag_kept(capsys)
    anna.context.write_text(anna.context.read_text() + '\n\nraise SystemExit("it ran")\n')
    assert line(capsys)[0] is not courses.positions_of


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: path.unlink(), "mine/context.py is gone. Run the check of 10.zigzag again"),
        (lambda path: path.write_text("def half(:"), "mine/context.py has a syntax error on line 1"),
        (lambda path: path.write_text("x = 1\n"), "mine/context.py has no positions_of"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "mine/context.py is no text in UTF-8"),
        (lambda path: path.write_bytes(b"x = 1\0"), "mine/context.py has a syntax error"),
        (lambda path: path.write_text("(" * 100_000), "mine/context.py has a syntax error"),
        (lambda path: (path.unlink(), path.mkdir()), r"cannot be read \(it is a folder"),
        (lambda path: (path.unlink(), path.symlink_to("/etc/hostname")), "links are not followed"),
        (lambda path: shutil.rmtree(path.parent), "mine/context.py is gone"),
    ],
)
def test_a_spoilt_file_gives_the_courses_and_a_sentence(anna, capsys, spoil, says):
    zigzag_kept(capsys)
    spoil(anna.context)
    function, told = line(capsys)
    assert function is courses.positions_of
    assert re.search(says, told), told


def test_a_folder_that_may_not_be_read_gives_the_courses(anna, capsys, monkeypatch):
    from course_lib.mine.source import package

    zigzag_kept(capsys)

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied", str(anna.context))

    monkeypatch.setattr(package, "bytes_of", refused)
    function, told = line(capsys)
    assert function is courses.positions_of
    assert "cannot be read (Permission denied)" in told


def test_what_fails_where_it_is_defined_gives_the_courses(anna, capsys, monkeypatch):
    """It passed where a package was that is not here now."""
    from course_lib.mine.source import load

    zigzag_kept(capsys)
    broken = compile("raise ImportError('no such package')", "f", "exec")
    monkeypatch.setattr(load, "compile", lambda *_, **__: broken, raising=False)
    function, told = line(capsys)
    assert function is courses.positions_of
    assert "fails where it defines it (ImportError: no such package)" in told


def evil(learner, seen):
    """The learner's file, in a version that leaves a trace when any line of it runs."""
    text = learner.context.read_text().replace(MARK, f"PARTS = open({str(seen)!r}, 'w') and 2")
    learner.context.write_text(text)


def test_a_package_of_another_person_never_runs(learners, capsys, tmp_path):
    anna = learners("anna")
    zigzag_kept(capsys)
    ben = learners("ben")
    shutil.copytree(anna.folder, ben.folder)
    evil(ben, tmp_path / "ran")
    function, told = line(capsys)
    assert function is courses.positions_of
    assert told.endswith("once 10.zigzag has passed, it is yours.")
    verdict = check_again("positions_of")
    assert verdict.status == "blocked"
    assert "may be somebody else's" in verdict.message
    assert not (tmp_path / "ran").exists()


def test_another_persons_version_in_the_place_of_ones_own_never_runs(learners, capsys, tmp_path):
    anna = learners("anna")
    zigzag_kept(capsys)
    ben = learners("ben")
    zigzag_kept(capsys)
    evil(anna, tmp_path / "ran")
    shutil.copy(anna.context, ben.context)
    function, told = line(capsys)
    assert function is courses.positions_of
    assert "has not passed 10.zigzag" in told
    assert not (tmp_path / "ran").exists()


def test_a_name_that_only_anothers_file_binds_does_not_slip_in(learners, capsys, tmp_path):
    """The answer reads a name that the notebook does not have, in a branch that no case reaches."""
    anna = learners("anna")
    anna.folder.mkdir(parents=True)
    (anna.folder / "test_mine.py").write_text("")
    anna.context.write_text(f"never = open({str(tmp_path / 'ran')!r}, 'w')\n")
    notebook = Notebook()
    notebook.cell(HELPERS + ZIGZAG.replace("    base,", "    if rank < 0:\n        return never()\n    base,"))
    assert check("10.zigzag", notebook["positions_of"]).passed
    assert "something of its own under `never`" in capsys.readouterr().out
    assert line(capsys)[0] is courses.positions_of
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "text",
    [
        "from course_lib.mine.courses import positions_of",
        "from course_lib import mine\npositions_of = mine.positions_of",
        "from course_lib import mine\ndef positions_of(*given):\n    return mine.positions_of(*given)",
        "from course_lib import mine\ndef positions_of(*given):\n    return getattr(mine, 'positions_' + 'of')(*given)",
    ],
)
def test_the_courses_stand_in_is_no_answer(anna, capsys, text):
    notebook = Notebook()
    notebook.cell(text)
    assert not check("10.zigzag", notebook["positions_of"]).passed
    assert not anna.folder.exists()


def test_the_record_holds_a_digest_and_no_code(anna, capsys):
    zigzag_kept(capsys)
    events = [json.loads(row) for row in anna.progress.read_text().splitlines()]
    (kept,) = [event for event in events if event["event"] == "kept"]
    assert kept.keys() == {"time", "event", "name", "digest", "course"}
    assert len(kept["digest"]) == 64


def test_a_folder_that_is_named_is_taken(anna, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_FOLDER", str(tmp_path / "elsewhere"))
    zigzag_kept(capsys)
    assert (tmp_path / "elsewhere" / "mine" / "context.py").is_file()
    assert not anna.folder.exists()


def test_learners_of_one_account_have_a_folder_each(learners, capsys):
    anna, ben = learners("anna"), learners("ben")
    zigzag_kept(capsys)
    assert ben.context.is_file()
    assert not anna.folder.exists()
