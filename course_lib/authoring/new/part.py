"""The files of a new lesson part: a page with one question, its prediction, and a test of that."""

from __future__ import annotations

from pathlib import Path
from string import Template

from course_lib.authoring.new.names import part_name

__all__ = ["files"]

_PAGE = Template("""\
# %% [markdown]
# # $part · $title
#
# Say here what the learner will run into, in two sentences, and nothing of the answer.
#
# **30 minutes · difficulty 2 of 5 · needs: cpu**
#
# At the end you can
#
# - say how long a message between two ranks takes, before you have measured it.

# %%
from course_lib import ask, reveal, shared_cluster

# %% tags=["nbval-ignore-output"]
two = shared_cluster(2)

# %% [markdown]
# ## A question before the answer
#
# Two ranks. How many of them say hello?

# %%
ask("$part.hello")


# %%
def hello(me):
    return f"rank {me.rank} says hello"


run = two.run(hello)

# %%
reveal("$part.hello", run)
""")
_QUESTIONS = Template('''\
"""What lesson $part asks before a run, and tells after it."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["PREDICTIONS"]


def _hello(run: Sequence[str]) -> Explanation:
    return Explanation(
        measured=len(run),
        model=2,
        misreadings={1: "One process started them; both of them ran the function."},
        because="Every rank runs the function that it is sent.",
    )


PREDICTIONS = (Asked(name="$part.hello", question="How many of the two ranks say hello?", tell=_hello, unit="ranks"),)
''')
_TEST = Template('''\
"""What lesson $part tells after its runs."""

from __future__ import annotations

from course_lib.learn.exercises.lesson_$lesson.predictions.$name import PREDICTIONS


def test_every_rank_is_counted():
    (hello,) = PREDICTIONS
    assert hello.tell(["rank 0 says hello", "rank 1 says hello"]).measured == 2
''')


def files(root: Path, number: str, name: str) -> tuple[dict[str, str], list[str]]:
    """Their texts by name, and what is left to do. Raises ValueError for a part that cannot be."""
    lesson, name = part_name(root, number, name)
    given = {"lesson": lesson, "part": number, "name": name, "title": name.replace("_", " ").capitalize()}
    page, room = f"notebooks/src/{number}_{name}.py", f"course_lib/learn/exercises/lesson_{lesson}"
    texts = {
        page: _PAGE.substitute(given),
        f"{room}/predictions/{name}.py": _QUESTIONS.substitute(given),
        f"tests/lessons/test_predictions_{number}.py": _TEST.substitute(given),
    }
    return texts, [
        f"{page}: the page; docs/maintaining/write-a-lesson.md says how one is written",
        f"{room}/__init__.py: the questions of predictions/{name}.py in PREDICTIONS, in the order of the pages",
        f"the line of links in the first cell of every part of lesson {lesson}; the builder names those that disagree",
        f"course_lib/lessons/prerequisites.py: a row of the parts on which {number} builds",
        f"./course build {lesson}; ./course test unit tests/browser -k {number} --long",
        f"docs/instructor/lessons/{lesson}.md and docs/instructor/plans.md",
    ]
