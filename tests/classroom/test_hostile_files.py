"""Files of a class that were written to steer the instructor's terminal, or to stand in the page as something else."""

from __future__ import annotations

import json
import random
import re

import pytest

from course_lib import classroom
from course_lib.base.foreign_text import is_plain, one_line
from course_lib.classroom.board.board_data import Wish, board_of
from course_lib.classroom.board.page import board_page
from course_lib.classroom.board.read_shared import SharedReader
from course_lib.classroom.board.text import board_text
from course_lib.learn import exercises
from course_lib.learn.checks.lesson_index import places

BAD = [
    "\x1b]0;pwned\x07\x1b[2J", "\x9b31m", "\u202eright", "\u2067x\u2069", "a\nLeft out ada.jsonl: gone", "\r\rover",
    "\x00", "\x7f", "\u200b", "zero\u200dwidth", "x" * 100_000, "a" + "\u0301" * 500, "<script>alert(1)</script>",
    "'\"><meta http-equiv=refresh>", "\u2028line", "\ud800", "\U000e0041", "\u0085", 7, 1e308, -1e308, float("nan"),
    True, None, [], ["a\x1b"], {"k\x1b": "v\u202e"}, {},
]  # fmt: skip
EVENTS = ["guess", "predict", "check", "hint", "bet", "trial", "quiz", "solution", "shared", "\x1b[2J"]
FIELDS = [
    "kind", "unit", "value", "predicted", "measured", "model", "label", "verdict", "mistake", "status", "step", "right",
    "tries", "sure", "blocked", "time",
]  # fmt: skip
NAMES = ["04.bytes", "04.drift", "00.sum", "13.A1", "04.\u202e", "99.x", "04.bytes\n"]
LET = set("\n")


def spoil(folder, luck):
    """Some files in the place where a class shares, all of them hostile."""
    folder.mkdir()
    for number in range(luck.randint(1, 4)):
        lines = [
            {
                "event": "shared",
                "name": luck.choice(BAD),
                "id": luck.choice(BAD),
                "format": luck.choice([1] * 60 + BAD),
            }
        ]
        for _ in range(luck.randint(1, 8)):
            event = {"event": luck.choice(EVENTS), "name": luck.choice(NAMES)}
            event |= {name: luck.choice([*BAD, "number", "choice"]) for name in luck.sample(FIELDS, luck.randint(1, 9))}
            lines.append(event)
        name = luck.choice(["one", "\x1b[2J", "\u202egpj", "a\nb", "<b>", "x" * 200]) + f"{number}"
        text = "\n".join(json.dumps(line) for line in lines)
        (folder / f"{name}{luck.choice(['.jsonl', '.jsonl', '.txt'])}").write_text(text)
    return folder


def is_clean(text):
    return all(is_plain(line.strip()) or len(line) > 200 for line in text.split("\n")) and all(
        sign.isprintable() or sign in LET for sign in text
    )


@pytest.fixture(scope="module")
def known():
    return places()


def boards(folder, known):
    """The board as text and as a page, as the command makes them."""
    board = board_of(SharedReader([folder]).gather(), known, Wish(show={"all"}, reveal={"all"}))
    return board_text(board), board_page(board, drawn_at="now")


def drawn(folder, out, capsys):
    assert classroom.main(["board", str(folder), "--out", str(out), "--show", "all", "--reveal", "all"]) in (
        0,
        2,
    )
    said = capsys.readouterr()
    return said.out + said.err, out.read_text()


@pytest.mark.parametrize("luck", [20, pytest.param(400, marks=pytest.mark.long)])
def test_no_file_steers_the_terminal_or_the_page(tmp_path, known, luck):
    for number in range(luck):
        text, page = boards(spoil(tmp_path / f"drop{number}", random.Random(number)), known)
        assert is_clean(text.replace("  ", "")), (number, text)
        assert all(sign.isprintable() or sign == "\n" for sign in page), number
        assert not re.search(r"<(script|meta http-equiv=refresh|b>)", page), number
        assert max(map(len, text.split("\n"))) < 1000, number


def test_a_value_a_label_and_a_mistake_with_escapes(tmp_path, capsys):
    bad = "\x1b]0;pwned\x07\x1b[2J\u202e"
    events = [
        {"event": "guess", "name": "04.order", "kind": "choice", "value": f"a{bad}"},
        {"event": "predict", "name": "04.bytes", "kind": "number", "predicted": 1, "measured": 2, "label": f"b{bad}"},
        {"event": "check", "name": "04.drift", "status": "failed", "mistake": f"c{bad}"},
    ]
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop" / "one.jsonl").write_text("\n".join(map(json.dumps, events)))
    for text in drawn(tmp_path / "drop", tmp_path / "board.html", capsys):
        assert not set(text) & set("\x1b\x07\u202e")
        assert all(f"{letter}?]0;pwned??[2J" in text.replace("B?]", "b?]") for letter in "abc")


def test_choices_of_the_course_itself_come_through_as_they_are():
    """What a learner's file holds of a choice is still the choice, letter by letter."""
    asked = [one for number in exercises.lesson_numbers() for one in exercises.predictions_of(number)]
    texts = [str(choice) for one in asked for choice in one.choices or ()]
    assert texts
    assert [text for text in texts if one_line(text) != text] == []
