"""04.ddp_overlap: a right answer by a forbidden way. The wrong ones stand in its table."""

from __future__ import annotations

from answers.lesson_04.ddp_builds.wrong import WithTorchs

EXERCISE = "04.ddp_overlap"
FORBIDDEN = WithTorchs
