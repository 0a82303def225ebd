"""Instruments for a job of your own: under ``torchrun``, without a ``Cluster``, in two lines.

::

    from course_lib.own_job import recorded, watchdog

    with watchdog(quiet_s=60), recorded() as run:
        train()
    print(run.communication)  # on rank 0 of all ranks

In the order to read:

- ``store_exchange.py``: ranks hand texts to each other through the job's own store, without a collective
- ``recorded.py``: what every rank of a running job sent, by operation, in bytes and in time
- ``watchdog.py``: when the job hangs: who waits where, and who never came

``MemoryLedger``, ``Timeline`` and ``measure`` of ``course_lib.meter`` need nothing of ours to run, and stand in a job
as they stand in a lesson. ``docs/your-own-job.md`` shows all of them.
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {"RecordedRun": "recorded", "recorded": "recorded", "watchdog": "watchdog"}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
