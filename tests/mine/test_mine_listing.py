"""What is shown of a learner's library: by `course export` to whom they like, and to an instructor; as text alone."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from own_library import zigzag_kept

from course_lib import classroom
from course_lib.classroom.share import command as share
from course_lib.export.first_page import first_page
from course_lib.learn.records.store import store
from course_lib.mine.listing import listed


def states(learner):
    return {one.entry.name: one.state for one in listed(learner.folder)}


def test_a_list_says_what_the_file_is_now(anna, capsys):
    assert states(anna) == {}
    zigzag_kept(capsys)
    assert states(anna) == {"positions_of": "as it passed"}
    good = anna.context.read_text()
    anna.context.write_text(good.replace("PARTS = 2", "PARTS = 3"))
    assert states(anna) == {"positions_of": "changed since it passed"}
    anna.context.write_text("def half(:")
    assert states(anna) == {
        "positions_of": "mine/context.py has a syntax error on line 1 (invalid syntax)",
    }
    anna.context.unlink()
    assert states(anna) == {"positions_of": "mine/context.py is gone"}


@pytest.mark.parametrize("text", ["return 1\n", "x = " + "-" * 20_000 + "1\n", "\0", "a\f = 1\n" * 9, "# \u202e\n"])
def test_a_list_of_a_hostile_file_is_a_list(anna, capsys, text):
    zigzag_kept(capsys)
    anna.context.write_text(text)
    assert "positions_of" in states(anna)


def test_an_export_shows_the_source_as_text(anna, capsys):
    assert "Your own library" not in first_page(store())
    zigzag_kept(capsys)
    anna.context.write_text(anna.context.read_text() + "\n\n# <script>alert(1)</script>\n")
    anna.context.write_text(anna.context.read_text().replace("PARTS = 2", "PARTS = 2  # <script>alert(1)</script>"))
    html = first_page(store())
    assert "<h2>Your own library</h2>" in html
    assert "changed since it passed" in html
    source = html.partition("<pre class='source'>")[2].partition("</pre>")[0]
    assert "def positions_of(rank, num_ranks, num_tokens):" in source
    assert "&lt;script&gt;" in source
    assert "<script>" not in html


def looked_at(capsys, *words):
    capsys.readouterr()
    assert classroom.main(["mine", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_an_instructor_sees_who_has_kept_what_where_progress_is_shared(anna, capsys, tmp_path):
    zigzag_kept(capsys)
    drop = tmp_path / "drop"
    drop.mkdir()
    assert share.main([str(drop), "--name", "Anna"]) == 0
    assert "digest" not in next(drop.iterdir()).read_text()
    told = looked_at(capsys, drop)
    assert re.search(r"^Anna\s+mine\.positions_of\s+10\.zigzag\s+20\d\d-\d\d-\d\d", told, re.MULTILINE)


def test_an_instructor_sees_the_files_and_reads_them_as_text(learners, capsys, tmp_path):
    anna = learners("anna")
    zigzag_kept(capsys)
    seen = tmp_path / "ran"
    ben = learners("ben")
    shutil.copytree(anna.folder, ben.folder)
    text = ben.context.read_text().replace("PARTS = 2", f"PARTS = open({str(seen)!r}, 'w') and 2  # \x1b[2J\u202e")
    ben.context.write_text(text)
    told = looked_at(capsys, tmp_path)
    assert re.search(r"^anna/one-model-many-gpus/mine\s+mine\.positions_of .* as it passed$", told, re.MULTILINE)
    assert re.search(
        r"^ben/one-model-many-gpus/mine\s+mine\.positions_of .* no pass of it is known$", told, re.MULTILINE
    )
    told = looked_at(capsys, tmp_path, "--source", "10.zigzag")
    assert told.count("def positions_of(rank, num_ranks, num_tokens):") == 2
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert not seen.exists()


def test_links_are_not_followed_and_an_empty_folder_is_told(anna, capsys, tmp_path):
    zigzag_kept(capsys)
    place = tmp_path / "class" / "eve"
    place.mkdir(parents=True)
    (place / "mine").symlink_to(anna.folder)
    assert looked_at(capsys, tmp_path / "class") == "Nobody has kept a function of their own there yet.\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [(["nowhere"], "nowhere is no folder"), ([".", "--source", "ring"], "There is no 'ring' in a library of your own")],
)
def test_what_cannot_be_asked_is_told(capsys, words, says):
    assert classroom.main(["mine", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_copied_manifest_gives_nobody_a_pass(anna, capsys, tmp_path):
    """A record that lies within the package is not the learner's record."""
    zigzag_kept(capsys)
    events = anna.progress.read_text()
    anna.progress.unlink()
    (anna.folder / "data").mkdir()
    (anna.folder / "data" / "progress.jsonl").write_text(events)
    assert json.loads(events.splitlines()[-1])["event"] == "kept"
    assert "no pass of it is known" in looked_at(capsys, anna.folder)
