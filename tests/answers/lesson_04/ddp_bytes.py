"""04.ddp_bytes: a learner's DDP, bytes and messages."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_04.ddp_builds.earlier import BlockingInViews, DividesFirst, InBuckets, LastHookWaits, Naive
from answers.lesson_04.ddp_builds.final import Final
from answers.lesson_04.ddp_builds.wrong_time import NeverWaits
from answers.lesson_04.ddp_builds.wrong_values import (
    BroadcastsEachTime,
    CountsNumbers,
    FromTheFront,
    MixesDtypes,
    OneBucket,
    TellsSizes,
    WithABarrier,
)

ROWS = [
    Row(answer=InBuckets, verdict="passed", why="`torch.cat` and a blocking all-reduce"),
    Row(answer=Naive, verdict="not yet", mistake="one-call-a-gradient", why="six messages, where one will do"),
    Row(answer=Final, verdict="passed", why="the whole build"),
    Row(answer=LastHookWaits, verdict="passed", why="more than this step demands"),
    Row(answer=BlockingInViews, verdict="passed", why="more than this step demands"),
    Row(answer=DividesFirst, verdict="passed", why="a mean by another order"),
    Row(answer=NeverWaits, verdict="not yet", mistake="not-waited-for", why="what is there is known to nobody"),
    Row(answer=OneBucket, verdict="not yet", mistake="one-bucket", why="`bucket_bytes` is not asked"),
    Row(answer=FromTheFront, verdict="not yet", mistake="from-the-front", why="it is complete last of all"),
    Row(answer=CountsNumbers, verdict="not yet", mistake="counts-numbers", why="a float64 has eight bytes"),
    Row(answer=MixesDtypes, verdict="not yet", mistake="mixes-dtypes", why="float32 travels in twice its bytes"),
    Row(answer=WithABarrier, verdict="not yet", mistake="sends-besides", why="nothing needs it"),
    Row(answer=BroadcastsEachTime, verdict="not yet", mistake="sends-besides", why="they stay alike"),
    Row(answer=TellsSizes, verdict="not yet", why="one more all-reduce a step"),
]
