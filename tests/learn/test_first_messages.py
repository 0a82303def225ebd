"""The first message to a wrong answer says what was mixed up; the code that mends it waits for the hints."""

from __future__ import annotations

import re

import pytest

from course_lib.learn import exercises

CODE = re.compile(r"`([^`]+)`")
DOES_SOMETHING = re.compile(r"[-+*/%(\[=]")  # code of more than a name
# Where the cure is a line that the text of the lesson has shown already.
SHOWN_BEFORE = {
    ("04.accumulate", "leaves-the-flag-down"),
    ("04.accumulate", "averages-every-piece"),
    ("04.overlap", "reads-before-it-is-there"),
    ("06.backward", "no-leaf"),
    ("06.backward", "backward-twice"),
}


def code_in(text: str) -> set[str]:
    return {re.sub(r"\s", "", code) for code in CODE.findall(text)}


@pytest.mark.parametrize("lesson", exercises.lesson_numbers())
def test_a_message_gives_away_no_code_of_the_later_hints(lesson: str):
    told = []
    for exercise in exercises.exercises_of(lesson):
        first, *later = exercise.hints
        late = {
            code for code in code_in(" ".join(later)) - code_in(first) if len(code) > 6 and DOES_SOMETHING.search(code)
        }
        for mistake in exercise.mistakes:
            message = re.sub(r"\s", "", mistake.message)
            found = [code for code in late if code in message]
            if found and (exercise.name, mistake.name) not in SHOWN_BEFORE:
                told.append(f"{exercise.name}, {mistake.name}: {found}")
    assert not told


def test_the_first_message_of_the_first_exercise_holds_no_cure():
    mistakes = {mistake.name: mistake.message for mistake in exercises.exercise("00.share").mistakes}
    assert "%" not in mistakes["drops-the-rest"]
