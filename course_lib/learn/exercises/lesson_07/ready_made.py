"""Schedules that are to be had under no dotted name of their own, so that an exercise can forbid them by one."""

from __future__ import annotations

from course_lib.schedules import SCHEDULES

__all__ = ["GPIPES", "ONE_F_ONE_BS", "gpipe", "one_f_one_b"]

gpipe = SCHEDULES["gpipe"].make
one_f_one_b = SCHEDULES["1f1b"].make

_PYTORCHS = "torch.distributed.pipelining"
GPIPES = {
    f"{__name__}.gpipe": "course_lib.schedules.SCHEDULES",
    f"{_PYTORCHS}.ScheduleGPipe": f"{_PYTORCHS}.ScheduleGPipe",
}
ONE_F_ONE_BS = {
    f"{__name__}.one_f_one_b": "course_lib.schedules.SCHEDULES",
    f"{_PYTORCHS}.Schedule1F1B": f"{_PYTORCHS}.Schedule1F1B",
    f"{_PYTORCHS}.ScheduleInterleaved1F1B": f"{_PYTORCHS}.ScheduleInterleaved1F1B",
}
