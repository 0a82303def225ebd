"""``course class board``: the page, the text, what is covered until it is revealed, and what is never written over."""

from __future__ import annotations

import io
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from course_lib import classroom
from course_lib.classroom.board import command
from course_lib.classroom.share.shared import Identity, file_name, text_of

sys.path.insert(0, str(Path(__file__).parent))
import forty

VOID = {"meta", "br", "line", "rect"}


class Page(HTMLParser):
    """Reads a page strictly: every element is closed in its order; remembers elements and what is loaded."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data

    def all(self, tag):
        return [attrs for name, attrs in self.seen if name == tag]


@pytest.fixture(scope="module")
def class_of_forty(tmp_path_factory):
    drop = forty.make(tmp_path_factory.mktemp("class") / "drop")
    forty.spoil(drop)
    return drop


@pytest.fixture
def draw(class_of_forty, tmp_path, capsys):
    """Draw the board with these options: the page, and what the terminal says."""

    def draw(*options):
        assert classroom.main(["board", str(class_of_forty), "--out", str(tmp_path / "b.html"), *options]) == 0
        return (tmp_path / "b.html").read_text(), capsys.readouterr().out

    return draw


def one_question(folder, measured=777.25, model=888.5):
    """A class of two who have both seen the answer."""
    folder.mkdir()
    for word, value in (("wordone", 3), ("wordtwo", 40)):
        told = {"kind": "number", "unit": "ms", "predicted": value, "measured": measured, "model": model}
        events = [
            {"event": "guess", "name": "04.bytes", "kind": "number", "unit": "ms", "value": value},
            {"event": "predict", "name": "04.bytes", **told, "right": False},
        ]
        (folder / file_name(Identity(word))).write_text(text_of(Identity(word), events))
    return folder


def test_a_class_of_forty_one_is_on_the_page(draw):
    html, text = draw()
    page = Page(html)
    for words in ("41 learners share their progress", "Who is where", "What holds up", "Named mistakes"):
        assert words in page.text
    assert "Predictions, still covered" in page.text
    assert "sums and does not divide" in page.text
    assert "6 files were left out" in page.text
    assert "binary.jsonl" in text
    assert "binary.jsonl" not in html, "a file's name may say whose it is"
    assert not page.all("svg"), "no histogram before it is asked for"


def test_nothing_is_loaded_nothing_runs_and_no_alias_becomes_markup(draw):
    html, _ = draw("--reveal", "all")
    page = Page(html)
    for tag in ("script", "img", "link", "iframe", "b"):
        assert not page.all(tag), tag
    assert "http" not in re.sub(r"http-equiv", "", html)
    assert "<b>Bobby</b>" in page.text
    (policy,) = [one["content"] for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "prefers-color-scheme: dark" in html


def test_every_picture_has_a_text_and_every_table_heads(draw):
    page = Page(draw("--reveal", "all")[0])
    assert len(page.all("svg")) == 3
    for one in page.all("svg"):
        assert one["role"] == "img"
        assert re.search(r"Histogram of predictions\. .*\d.* measured: ", one["aria-label"])
    scopes = [one.get("scope") for one in page.all("th")]
    assert set(scopes) == {"col", "row"}
    assert all(one.get("aria-label") for one in page.all("table"))
    assert page.all("html")[0]["lang"] == "en"


def test_the_page_holds_no_answer_before_it_is_revealed(tmp_path, capsys):
    drop, out = one_question(tmp_path / "drop"), tmp_path / "b.html"
    for options in ([], ["--show", "04.bytes"], ["--show", "all"]):
        assert classroom.main(["board", str(drop), "--out", str(out), *options]) == 0
        for text in (out.read_text(), capsys.readouterr().out):
            assert not re.search(r"777|888|889|model:|cost model says|seen it", text.partition("</style>")[2] or text)
    classroom.main(["board", str(drop), "--out", str(out), "--reveal", "04.bytes"])
    page = out.read_text()
    assert "measured: 777 ms" in page
    assert "The cost model says 888 ms" in page or "The cost model says 889 ms" in page
    assert "stroke-dasharray" in page
    assert "class='model'" in page


def test_one_lesson_alone(draw):
    html, text = draw("--lesson", "04b")
    assert "The class: 04b DistributedDataParallel: batches" in Page(html).text
    assert "04.sampler" in text
    assert "04.gradients" not in text
    assert "04.gradients" in draw("--lesson", "04")[1]
    assert "00.sum" not in draw("--lesson", "04")[1]


def test_a_question_nobody_has_answered_is_told(draw):
    html, text = draw("--show", "09.nothing")
    assert "09.nothing: nobody has predicted it yet." in text
    assert "09.nothing" in html


def test_an_empty_folder_says_how_to_share(tmp_path, capsys):
    (tmp_path / "drop").mkdir()
    assert classroom.main(["board", str(tmp_path / "drop"), "--out", str(tmp_path / "b.html")]) == 0
    assert "course class share FOLDER" in (tmp_path / "b.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["nowhere"], "nowhere is no folder"),
        (["drop", "--lesson", "4"], "there is no lesson '4'"),
        (["drop", "--lesson", "77"], "there is no lesson '77'"),
        (["drop", "--out", "away/b.html"], "there is no folder away"),
        (["drop", "--out", "mine.html"], "exists and is no board"),
        (["drop", "--out", "link.html"], "is no plain file"),
        (["drop", "--out", "drop"], "is no plain file"),
    ],
)
def test_what_cannot_be_asked_gets_a_sentence(tmp_path, monkeypatch, capsys, options, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "drop").mkdir()
    (tmp_path / "mine.html").write_text("<p>my own page")
    (tmp_path / "link.html").symlink_to(tmp_path / "mine.html")
    assert classroom.main(["board", *options]) == 2
    assert words in capsys.readouterr().err
    assert (tmp_path / "mine.html").read_text() == "<p>my own page"


def test_a_board_takes_the_place_of_a_board_and_leaves_no_other_file(draw, tmp_path):
    draw()
    draw()
    assert [path.name for path in tmp_path.iterdir()] == ["b.html"]


def test_a_folder_that_refuses_the_page_is_told(class_of_forty, tmp_path, monkeypatch, capsys):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr(command.tempfile, "mkstemp", refuse)
    assert classroom.main(["board", str(class_of_forty), "--out", str(tmp_path / "b.html")]) == 1
    assert "Permission denied" in capsys.readouterr().err


def test_watching_obeys_what_is_typed(tmp_path, monkeypatch, capsys):
    drop, out = one_question(tmp_path / "drop"), tmp_path / "b.html"
    pages = []
    real = command._draw

    def draw(*args):
        text = real(*args)
        pages.append(out.read_text())
        return text

    monkeypatch.setattr(command, "_draw", draw)
    typed = "show 04.bytes\nreveal 04.bytes\nlesson 99\nhide 04.bytes\nhide 04.bytes\nlesson 04b\ndance\nquit\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert classroom.main(["board", str(drop), "--out", str(out), "--watch"]) == 0
    charts = ["<svg" in page for page in pages]
    assert charts == [False, True, True, True, False, False, False, False]
    assert ["777" in page.partition("</style>")[2] for page in pages][1:4] == [False, True, True]
    assert all('http-equiv="refresh" content="30"' in page for page in pages)
    said = capsys.readouterr().out
    assert "there is no lesson '99'" in said
    assert "04.bytes is not shown; there is nothing" in said
    assert "'dance' is none of: show NAME" in said


def test_what_was_asked_for_last_is_on_top(class_of_forty, tmp_path, monkeypatch, capsys):
    """A projector shows one question above the fold, and it is the one that the room talks about."""
    typed = "show 00.sum\nshow 04.calls\nreveal 00.sum\nquit\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert classroom.main(["board", str(class_of_forty), "--out", str(tmp_path / "b.html"), "--watch"]) == 0
    tops = re.findall(r"^(\d\d\.\w+)  \S.*\?$", capsys.readouterr().out, re.MULTILINE)
    assert tops == ["00.sum", "04.calls", "00.sum", "00.sum", "04.calls"]


def test_watching_goes_on_where_the_folder_is_away_for_a_moment(tmp_path, monkeypatch, capsys):
    drop, out = one_question(tmp_path / "drop"), tmp_path / "b.html"
    moves = iter([lambda: drop.rename(tmp_path / "away"), lambda: (tmp_path / "away").rename(drop)])

    def words(typed):
        for move in moves:
            move()
            yield ""
        yield "quit"

    monkeypatch.setattr(command, "_words_in", words)
    assert classroom.main(["board", str(drop), "--out", str(out), "--watch"]) == 0
    assert "Not drawn this time" in capsys.readouterr().err


def test_without_a_terminal_it_draws_every_half_minute(monkeypatch):
    slept = []
    monkeypatch.setattr(command.time, "sleep", slept.append)
    lines = command._words_in(command._lines(io.StringIO("")))
    assert [next(lines) for _ in range(3)] == ["", "", ""]
    assert slept == [30, 30, 30]


def test_a_terminal_that_cannot_be_read_is_as_none():
    class Gone(io.StringIO):
        def __next__(self):
            raise OSError(5, "Input/output error")

    assert command._lines(Gone("x")).get(timeout=60) is None
