"""03.threads: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_03.threads import _applying


def _by_the_course(replicas: list[Any], parts: list[Any]) -> list[Any]:
    from course_lib.parallel.data import parallel_apply

    return parallel_apply(replicas, parts)


EXERCISE = "03.threads"
EXAMPLES: dict[str, Any] = {
    "last-for-all": _applying(late=True),
    "one-after-another": _applying(wait="at once"),
    "not-waited": _applying(wait="never"),
    "waits-for-a-time": _applying(limit_s=0.2),
    "order-of-arrival": _applying(by_append=True),
    "records-all-the-same": _applying(modes=False),
    "nobody-named": _applying(tell="as it is"),
    "another-number": _applying(tell="from 1"),
    "another's-error": _applying(tell="another's"),
    "error-lost": _applying(tell="by name alone"),
}


FORBIDDEN = _by_the_course
