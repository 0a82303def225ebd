"""05.fsdp_bytes: wrong answers, by the name of the mistake that each makes, and a right one by a forbidden way."""

from __future__ import annotations

from answers.lesson_05.fsdp_builds.examples import examples_of
from answers.lesson_05.fsdp_builds.wrong_models import WithTorchs

EXERCISE = "05.fsdp_bytes"
EXAMPLES = examples_of(EXERCISE)
FORBIDDEN = WithTorchs
