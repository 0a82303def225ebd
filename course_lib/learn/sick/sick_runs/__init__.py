"""Six training runs, each with one thing wrong: what they show, and what a change of one setting gains. Lesson 11.

Ranks, messages, links and memory are real; computing and reading are paced, and links are shaped. In the order to
read: ``settings.py`` (what can be changed), ``job.py`` (how much there is to do), ``reads.py`` (batches, read ahead by
threads), ``program.py`` (a step of a rank), ``intervals.py`` and ``evidence.py`` (what a run shows), ``cases.py`` (the
six), ``runs.py`` (``SickRuns``: see one, change it, be scored).
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "CASES": "cases",
    "SickCase": "cases",
    "Change": "runs",
    "RunEvidence": "evidence",
    "HEALTHY": "cases",
    "SickJob": "job",
    "LINKS": "job",
    "SUSPECTS": "cases",
    "Settings": "settings",
    "SickRuns": "runs",
    "exposed_s": "intervals",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
