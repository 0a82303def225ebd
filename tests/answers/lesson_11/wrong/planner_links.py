"""11.planner_links: wrong answers, by the name of the mistake that each makes, and a right one by a forbidden way."""

from __future__ import annotations

from answers.lesson_11.planner_builds.wrong import ByTheCourse, examples_of

EXERCISE = "11.planner_links"
EXAMPLES = examples_of(EXERCISE)
FORBIDDEN = ByTheCourse
