"""The table of how large each part is: what counts as a word, as given, as written, as a question."""

from __future__ import annotations

from pathlib import Path

from nbformat.v4 import new_notebook

from course_lib.authoring.notebooks.rules.lesson import Lesson
from course_lib.authoring.notebooks.rules.sittings import LONGEST_SITTING_MIN, sittings_are_marked
from course_lib.authoring.notebooks.writing.build import Paths
from course_lib.authoring.notebooks.writing.size_table import STOP, PartSize, size_of, size_table
from course_lib.base.paths import project_root
from course_lib.lessons.info import lessons, source_files
from course_lib.lessons.source import parse_source, read_source

PAGE = '''# %% [markdown]
# # 02a · Collectives: what travels
#
# A promise.
#
# **30 minutes · difficulty 2 of 5 · needs: cpu**

# %%
from course_lib import ask

import torch

# a comment
x = torch.ones(2)
ask("02.one")

# %%
ask("02.one", guess=3)
ask("02.two")


# %%
def twice(x):
    """Two times x."""
    ### BEGIN SOLUTION
    ### STUB ...  # your turn
    y = 2 * x  # one line

    return y
    ### END SOLUTION


check("02.ring", twice)
'''


def test_a_part_is_counted_from_its_source():
    size = size_of(parse_source(PAGE, Path("02a_collectives.py")))
    assert (size.label, size.minutes) == ("02a", 30)
    assert size.words == len(
        ["a", "Collectives", "what", "travels", "A", "promise", "minutes", "difficulty", "of", "needs:", "cpu"]
    )
    assert size.written == 2  # the stub is neither, nor is the blank line
    assert size.given == 7  # x, three asks, the signature, its docstring, the check
    assert size.ratio == "3.5"
    assert (size.asked, size.checks) == (2, 1)


def test_a_part_in_which_nothing_is_written_has_no_ratio():
    size = size_of(parse_source(PAGE.partition("# %%\ndef twice")[0], Path("02a_collectives.py")))
    assert (size.given, size.written, size.ratio) == (4, 0, "–")


def test_the_table_has_each_part_once_and_a_sum():
    rows = [line.split(" | ") for line in size_table(project_root()).splitlines()]
    labels = [cells[0].removeprefix("| ") for cells in rows[2:]]
    assert labels == ["tour", *(info.label for info in lessons()), "all"]
    minutes = [int(cells[7].replace(",", "")) for cells in rows[2:]]
    assert minutes[-1] == sum(minutes[:-1])


def test_no_part_asks_more_than_six_questions():
    rows = [line.strip("| ").split(" | ") for line in size_table(project_root()).splitlines()[2:-1]]
    assert {cells[0]: int(cells[5]) for cells in rows if int(cells[5]) > 6} == {}


STOPPED = PAGE.replace("30 minutes", "2 × 30 minutes").replace(
    '# %%\nask("02.one", guess=3)', f'# %% [markdown]\n# {STOP}\n#\n# Later.\n\n# %%\nask("02.one", guess=3)'
)


def test_minutes_are_counted_for_each_sitting():
    one = size_of(parse_source(PAGE, Path("02a_collectives.py")))
    assert one.counted_min == (round(11 / 120 + 7 / 6 + 2 * 1.9),)
    two = size_of(parse_source(STOPPED, Path("02a_collectives.py")))
    assert (two.minutes, len(two.counted_min)) == (60, 2)
    assert two.counted_min[1] == round(5 / 6 + 2 * 1.9)  # what stands below the place to stop
    for name in ("02d_build_all_reduce.py", "tour.py"):
        source = parse_source(PAGE.replace("02a", "02d" if name[0] == "0" else "Tour"), Path(name))
        assert size_of(source).counted_min == ()


def test_pages_say_the_minutes_that_are_counted():
    sizes = [size_of(read_source(path)) for path in source_files(project_root())]
    off = {one.label: (one.minutes, one.counted_min) for one in sizes if one.counted_min and is_off(one)}
    assert off == {}


def is_off(size: PartSize) -> bool:
    """By more than ten minutes a sitting, which is about the error of a count."""
    return abs(size.minutes - sum(size.counted_min)) > 10 * len(size.counted_min)


def test_a_count_that_is_far_from_the_page_is_seen():
    assert is_off(PartSize("02a", 1, 1, 1, 0, 0, minutes=75, counted_min=(60,)))
    assert not is_off(PartSize("02a", 1, 1, 1, 0, 0, minutes=100, counted_min=(68, 50)))


def breaches(text: str) -> list[str]:
    source = parse_source(text, Path("02a_collectives.py"))
    lesson = Lesson(Paths.of(Path("notebooks/src/02a_collectives.py")), source, new_notebook(), new_notebook())
    return sittings_are_marked(lesson)


def test_a_place_to_stop_stands_between_two_sittings_and_nowhere_else():
    assert breaches(PAGE) == []
    assert breaches(STOPPED) == []
    (unmarked,) = breaches(PAGE.replace("30 minutes", "2 × 30 minutes"))
    assert "says 2 × 30 minutes, 2 times one sitting" in unmarked
    assert "make 1 of it; write both alike" in unmarked
    (too_many,) = breaches(STOPPED.replace("2 × 30 minutes", "30 minutes"))
    assert "says 30 minutes, 1 times one sitting" in too_many
    assert "make 2 of it" in too_many


def test_a_sitting_that_is_too_long_is_seen():
    (said,) = breaches(PAGE.replace("A promise.", "A promise. " + "word " * 9600))
    assert "a sitting has 85 minutes" in said
    assert f"{LONGEST_SITTING_MIN} are the most" in said
