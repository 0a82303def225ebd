"""How often to write a checkpoint: seldom costs work that must be done again, often costs writing.

``write_s`` is what training waits for a checkpoint, the *mean time between failures* M says how much a failure
throws away. To the first order a job loses write_s / interval to writing and interval / 2M to work done again; their
sum is least at sqrt(2 write_s M), Young's interval. An *interval* here is the work from one checkpoint to the next,
the writing not counted, in seconds.

Sources: Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM 17(9),
1974; Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
Computer Systems 22(3), 2006.
"""

from __future__ import annotations

import math

from course_lib.base.checked import checked
from course_lib.base.checks import finite_above_zero, not_negative

__all__ = ["best_interval_s", "daly_interval_s", "young_interval_s"]

_SERIES_IS_EXACT = 1e-8  # of write_s over M: what Daly's series leaves out is below what a float can hold


@checked
def young_interval_s(write_s: float, mean_time_between_s: float) -> float:
    """Young's best interval, in seconds: sqrt(2 write_s M). Good while ``write_s`` is far below M."""
    not_negative(write_s=write_s)
    finite_above_zero(mean_time_between_s=mean_time_between_s)
    return math.sqrt(2 * write_s) * math.sqrt(mean_time_between_s)


@checked
def daly_interval_s(write_s: float, mean_time_between_s: float) -> float:
    """Daly's best interval, in seconds: Young's with two further terms, less ``write_s``; M where 2 M < write_s."""
    young_s = young_interval_s(write_s, mean_time_between_s)
    if write_s >= 2 * mean_time_between_s:
        return mean_time_between_s
    part = write_s / (2 * mean_time_between_s)
    return young_s * (1 + math.sqrt(part) / 3 + part / 9) - write_s


@checked
def best_interval_s(write_s: float, mean_time_between_s: float) -> float:
    """The interval of least expected time where failures have no memory, in seconds: exact, for any ``write_s``.

    With M as the unit it is the t at which t + exp(-(t + write_s)) = 1, which Young and Daly approximate. It does not
    depend on how long a restart takes.
    """
    not_negative(write_s=write_s)
    finite_above_zero(mean_time_between_s=mean_time_between_s)
    write = write_s / mean_time_between_s
    if write < _SERIES_IS_EXACT:
        return daly_interval_s(write_s, mean_time_between_s)
    t = 1.0
    for _ in range(100):  # Newton's steps: from 1 they go down to the root, and never past it
        over = t + math.expm1(-(t + write))
        if over <= 1e-15 * t:
            break
        t += over / math.expm1(-(t + write))
    return t * mean_time_between_s
