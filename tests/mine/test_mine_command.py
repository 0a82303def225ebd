"""`course mine`: a learner's own library at a terminal."""

from __future__ import annotations

import pytest
from own_library import zigzag_kept

from course_lib.cli import main as course
from course_lib.mine.table import ENTRIES
from course_lib.mine.terminal import command


def said(capsys, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = command.main(words)
    told = capsys.readouterr()
    return code, told.out, told.err


def row(out: str, name: str) -> str:
    """What stands below a name in the list."""
    lines = out.splitlines()
    return lines[next(at for at, line in enumerate(lines) if line.startswith(f"  mine.{name} ")) + 1].strip()


def test_before_anything_is_built_all_is_the_courses(anna, capsys):
    code, out, _ = said(capsys)
    assert code == 0
    assert f"0 of {len(ENTRIES)}, 0 lines" in out
    for entry in ENTRIES:
        assert row(out, entry.name) == f"the course's, until {entry.exercise} has passed"


def test_what_passed_is_told_with_its_file_its_lines_and_its_day(anna, capsys):
    zigzag_kept(capsys)
    code, out, _ = said(capsys)
    assert code == 0
    assert f"1 of {len(ENTRIES)}, 8 lines" in out
    assert row(out, "positions_of").startswith("mine/context.py, 8 lines, as it passed 10.zigzag on ")
    assert "--check" not in out


def test_what_changed_is_not_what_lessons_run_and_a_check_takes_it_back(anna, capsys):
    zigzag_kept(capsys)
    anna.context.write_text(anna.context.read_text().replace("PARTS = 2", "PARTS = 1 + 1"))
    _, out, _ = said(capsys)
    assert row(out, "positions_of").startswith("mine/context.py, 8 lines: changed since it passed (10.zigzag on ")
    assert "`course mine --check` checks it again." in out
    code, out, _ = said(capsys, "--check")
    assert (code, out.splitlines()[-1]) == (0, "1 of 1 pass.")
    assert "as it passed" in row(said(capsys)[1], "positions_of")


def test_a_check_that_does_not_pass_is_told_and_ends_with_1(anna, capsys):
    zigzag_kept(capsys)
    anna.context.write_text(anna.context.read_text().replace("PARTS = 2", "PARTS = 1"))
    code, out, _ = said(capsys, "--check", "positions_of")
    assert code == 1
    assert "10.zigzag: not yet" in out
    assert out.splitlines()[-1] == "0 of 1 pass."


def test_nothing_of_somebody_elses_is_run(anna, capsys, tmp_path):
    zigzag_kept(capsys)
    anna.context.write_text(
        anna.context.read_text().replace("PARTS = 2", f"PARTS = open({str(tmp_path / 'ran')!r}, 'w') and 2")
    )
    anna.progress.unlink()
    _, out, _ = said(capsys)
    assert "no pass of it is known" in row(out, "positions_of")
    code, out, _ = said(capsys, "--check")
    assert code == 1
    assert "may be somebody else's" in out
    assert not (tmp_path / "ran").exists()


def test_the_source_is_shown_as_text_that_steers_nothing(anna, capsys):
    zigzag_kept(capsys)
    anna.context.write_text(anna.context.read_text().replace("PARTS = 2", "PARTS = 2  # \x1b[2J\u202e"))
    code, out, _ = said(capsys, "10.zigzag", "--source")
    assert code == 0
    assert "def positions_of(rank, num_ranks, num_tokens):" in out
    assert not {"\x1b", "\u202e"} & set(out)


@pytest.mark.parametrize("option", ["--check", "--source"])
def test_where_nothing_is_kept_that_is_said(anna, capsys, option):
    code, out, err = said(capsys, option)
    assert code == 1
    assert "no answer has been kept so far" in out + err


def test_an_unknown_name_is_refused_with_those_there_are(anna, capsys):
    code, out, err = said(capsys, "positions")
    assert (code, out) == (2, "")
    assert err.startswith("course mine: There is no 'positions' in a library of your own; there is my_share (00.share)")


def test_where_nothing_is_kept_of_anybody_that_is_said(anna, capsys, monkeypatch):
    monkeypatch.setenv("COURSE_MINE", "0")
    code, _, err = said(capsys)
    assert (code, err) == (
        2,
        "course mine: nothing is kept of you here: COURSE_MINE or COURSE_PROGRESS says so\n",
    )


def test_it_is_a_verb_of_course(anna, capsys):
    assert course(["mine", "my_share"]) == 0
    assert capsys.readouterr().out.count("mine.") == 1
