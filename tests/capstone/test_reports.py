"""A report: it says what the result says, needs nothing beside it, and never takes an earlier one's place."""

from __future__ import annotations

import os
import re
import threading
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import pytest
from capstone_results import RESULT, cheated, made, over_memory
from PIL import Image

from course_lib.capstone.reports.leaderboard import board
from course_lib.capstone.reports.report_page import report_page
from course_lib.capstone.reports.report_picture import picture_of
from course_lib.capstone.reports.reports import record_of, report
from course_lib.capstone.reports.result_file import read_record
from course_lib.plot.dark import DARK_FILTER

VOID = {"meta", "img", "br", "link", "hr", "input"}


class Page(HTMLParser):
    """A page's tags with their attributes, its text, and whether every tag is closed where it should be."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data if "style" not in self.open else ""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return report(RESULT, tmp_path_factory.mktemp("reports"), name="Ada", defence="By the table.\n\nAnd a run.")


def test_a_report_is_three_files(written):
    assert sorted(path.name for path in written.folder.iterdir()) == [
        "capstone.html",
        "capstone.png",
        "result.json",
    ]
    assert written.folder.name == "level2-seed7-001"
    assert str(written.page) in repr(written)
    assert Image.open(BytesIO(written.picture.read_bytes())).size[0] > 800


def test_the_page_needs_nothing_beside_it(written):
    text = written.page.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert not {"script", "link", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    loaded = [attrs[name] for _, attrs in page.tags for name in ("src", "href") if name in attrs]
    assert loaded
    assert all(one.startswith("data:image/png;base64,") for one in loaded)
    style = text.replace(DARK_FILTER, "")  # which lies within the page
    assert not re.search(r"https?:|url\(|@import", style)


def test_the_page_is_for_light_dark_and_a_phone(written):
    text = written.page.read_text(encoding="utf-8")
    page = Page(text)
    names = {attrs.get("name"): attrs.get("content") for tag, attrs in page.tags if tag == "meta"}
    assert names["viewport"].startswith("width=device-width")
    assert names["color-scheme"] == "light dark"
    assert "prefers-color-scheme: dark" in text
    assert dict(page.tags)["html"] == {"lang": "en"}
    (alt,) = [attrs["alt"] for tag, attrs in page.tags if tag == "img"]
    assert "yours 240 ms, planner's promise 210 ms, best known 220 ms; the budget is 300 ms" in alt
    assert "parameter 293 KiB" in alt


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_letters_stand_out_in_light_and_in_dark(written):
    text = written.page.read_text(encoding="utf-8")
    themes = re.findall(r":root \{([^}]*)\}", text)
    assert len(themes) == 2
    for theme in themes:
        colour = dict(re.findall(r"--(\w+): (#\w{6})", theme))
        for ground in ("ground", "box"):
            for ink in ("ink", "soft"):
                light, dark = sorted((luminance(colour[ground]), luminance(colour[ink])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (ground, ink)
        light, dark = sorted((luminance(colour["ground"]), luminance(colour["mark"])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3


def test_the_page_says_what_the_result_says(written):
    words = Page(written.page.read_text(encoding="utf-8")).words
    for said in (
        "Capstone, level 2, seed 7 · Ada",
        "90 of 100 points",
        "240 ms (340 ms by the clock)",
        "210 ms promised (pp=4)",
        "220 ms (pp=2 dp_shard=2, 310 ms by the clock, run here)",
        "1.5 MiB",
        "15 of 20",
        "A third more than the best.",
        "By the table.",
        "32 sequences of 16 tokens",
        "195 KiB between nodes",
    ):
        assert said in words, said


def test_its_result_stands_on_a_board(written):
    found = board(written.folder.parent)
    assert [line.record for line in found.lines] == [written.record]
    assert read_record(written.result) == written.record
    assert written.record.regret == pytest.approx(0.24 / 0.22 - 1)


def test_a_run_that_was_ended_says_why_and_has_no_time(tmp_path):
    found = report(over_memory(), tmp_path)
    words = Page(found.page.read_text(encoding="utf-8")).words
    assert "Rank 0 held 2,100,000 bytes" in words
    assert "0 of 100 points" in words
    assert "None was written." in words
    assert "yours without a time" in found.page.read_text(encoding="utf-8")
    assert "(no name)" in str(board(tmp_path))
    assert board(tmp_path).lines[0].record.step_s is None


def test_a_broken_rule_is_named(tmp_path):
    found = report(cheated(), tmp_path)
    assert "Broken rules: one-rank." in Page(found.page.read_text(encoding="utf-8")).words
    assert "0 (cheat)" in str(board(tmp_path))


def test_nobody_has_searched(tmp_path):
    record = record_of(made(real=None))
    assert "220 ms (pp=2 dp_shard=2, expected: no search has run all meshes)" in [row.best for row in record.rows]
    record = record_of(made(real=None, best=None, paced_s=None))
    assert record.best_s is None
    assert "best known without a time" in picture_of(record).alt
    assert record.regret is None
    assert "340 ms by the clock" in [row.yours for row in record.rows]


def test_reports_are_numbered_and_none_is_written_over(tmp_path):
    first = report(RESULT, tmp_path / "mine", name="Ada")
    before = {path: path.read_bytes() for path in first.folder.iterdir()}
    second = report(over_memory(), tmp_path / "mine", name="Ada")
    assert [first.folder.name, second.folder.name] == ["level2-seed7-001", "level2-seed7-002"]
    assert {path: path.read_bytes() for path in first.folder.iterdir()} == before
    assert len(board(tmp_path).lines) == 2


def test_two_at_the_same_moment_get_a_folder_each(tmp_path):
    folders = []
    threads = [threading.Thread(target=lambda: folders.append(report(RESULT, tmp_path).folder)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(folders)) == 4


def test_what_a_learner_writes_stays_text():
    nasty = '</p><script>alert("x")</script>\x1b[2J'
    record = record_of(made(words=nasty), name=nasty, defence=nasty)
    page = Page(report_page(record, b"png", nasty))
    assert not {"script"} & {tag for tag, _ in page.tags}
    assert page.open == []
    assert "alert(" in page.words
    assert "\x1b" not in page.words


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": 61 * "x"}, "the name has 61 letters, and a report keeps at most 60"),
        ({"defence": 4001 * "x"}, "the defence has 4001 letters"),
        ({"name": None}, "the name is None"),
    ],
)
def test_too_much_is_refused_before_anything_is_written(tmp_path, given, said):
    with pytest.raises(ValueError, match=said):
        report(RESULT, tmp_path / "mine", **given)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "mine").write_text("kept")
    for folder in (tmp_path / "mine", tmp_path / "mine" / "deeper"):
        with pytest.raises(ValueError, match="is a file, or lies below one"):
            report(RESULT, folder)
    assert (tmp_path / "mine").read_text() == "kept"


def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ValueError, match=r"no report can be written into .*: Permission denied"):
        report(RESULT, tmp_path)
