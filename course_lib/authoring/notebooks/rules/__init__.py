"""The rules that every lesson keeps: functions that take a Lesson and return a sentence for each breach.

In the order to read:

- ``arithmetic.py``: which numbers of a lesson come from the arithmetic of tensors, as far as its code tells without
  being run
- ``lesson.py``: A lesson as the rules see it
- ``code.py``: rules over a lesson's code
- ``digits.py``: A rule over outputs that are compared
- ``outputs.py``: rules over the built notebooks
- ``prose.py``: rules over a lesson's text
- ``sentences_that_stand.py``: Sentences that a rule over wordings finds, and that stand all the same
- ``sentences.py``: Rules over sentences
- ``sittings.py``: A rule over sittings
"""

from __future__ import annotations

from course_lib.authoring.notebooks.rules.code import (
    cells_are_short,
    code_parses,
    imports_are_public,
    no_bare_figures,
    no_forbidden_constructs,
)
from course_lib.authoring.notebooks.rules.digits import digits_are_certain
from course_lib.authoring.notebooks.rules.lesson import Lesson, Rule, load_lesson
from course_lib.authoring.notebooks.rules.outputs import (
    checks_have_passed,
    learner_copy_is_clean,
    outputs_hold_no_private_paths,
    solution_is_executed,
    stubs_match_solutions,
    timings_are_tagged,
)
from course_lib.authoring.notebooks.rules.prose import (
    colours_are_not_named,
    images_have_alt_text,
    links_resolve,
    parts_lead_to_each_other,
    widgets_have_pictures,
    words_are_plain,
)
from course_lib.authoring.notebooks.rules.sentences import sentences_are_read_once
from course_lib.authoring.notebooks.rules.sittings import sittings_are_marked

__all__ = ["RULES", "Lesson", "Rule", "load_lesson"]

RULES: tuple[Rule, ...] = (
    code_parses,
    cells_are_short,
    no_forbidden_constructs,
    no_bare_figures,
    imports_are_public,
    images_have_alt_text,
    words_are_plain,
    sentences_are_read_once,
    colours_are_not_named,
    links_resolve,
    parts_lead_to_each_other,
    sittings_are_marked,
    widgets_have_pictures,
    learner_copy_is_clean,
    solution_is_executed,
    checks_have_passed,
    stubs_match_solutions,
    timings_are_tagged,
    digits_are_certain,
    outputs_hold_no_private_paths,
)
