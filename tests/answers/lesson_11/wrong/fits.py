"""11.fits: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from course_lib.plan import Job, Layout
from course_lib.plan.estimate.stage_memory import BytesEach, stage_bytes


def by_the_library(job: Job, layout: Layout, stage: int, each: BytesEach) -> dict[str, float]:
    return stage_bytes(job, layout, stage, each)


EXERCISE = "11.fits"
FORBIDDEN = by_the_library
