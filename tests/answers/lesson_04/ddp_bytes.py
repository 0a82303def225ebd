"""04.ddp_bytes: a learner's DDP, bytes and messages."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_04.ddp_builds.earlier import BlockingInViews, DividesFirst, InBuckets, LastHookWaits, Naive
from answers.lesson_04.ddp_builds.final import Final
from answers.lesson_04.ddp_builds.wrong import (
    BeginsUnlike,
    BroadcastsEachTime,
    BucketsByDist,
    CountsNumbers,
    DropsKeywords,
    FromTheFront,
    LosesTheMean,
    MixesDtypes,
    NeverSends,
    NeverWaits,
    OneBucket,
    PrefixedInBuckets,
    Sums,
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
    Row(answer=BeginsUnlike, verdict="not yet", mistake="begins-unlike", why="it sends, and means nothing"),
    Row(answer=NeverSends, verdict="not yet", mistake="never-averages", why="no bytes at all"),
    Row(answer=LosesTheMean, verdict="not yet", mistake="mean-is-lost", why="the optimizer reads another tensor"),
    Row(answer=Sums, verdict="not yet", mistake="sum-not-mean", why="no division"),
    Row(answer=DropsKeywords, verdict="not yet", mistake="drops-keywords", why="models have inputs by name"),
    Row(
        answer=PrefixedInBuckets, verdict="not yet", mistake="prefixed-names", why="the module's own names are promised"
    ),
    Row(answer=BucketsByDist, verdict="not yet", mistake="not-by-the-given", why="nobody can have it send by another"),
    Row(answer=NeverWaits, verdict="not yet", mistake="not-waited-for", why="what is there is known to nobody"),
    Row(answer=OneBucket, verdict="not yet", mistake="one-bucket", why="`bucket_bytes` is not asked"),
    Row(
        answer=FromTheFront,
        verdict="not yet",
        mistake="from-the-front",
        why="the last bucket to be complete would be the first",
    ),
    Row(answer=CountsNumbers, verdict="not yet", mistake="counts-numbers", why="a float64 has eight bytes"),
    Row(answer=MixesDtypes, verdict="not yet", mistake="mixes-dtypes", why="float32 travels in twice its bytes"),
    Row(answer=WithABarrier, verdict="not yet", mistake="sends-besides", why="nothing needs it"),
    Row(
        answer=BroadcastsEachTime, verdict="not yet", mistake="sends-besides", why="weights that began alike stay alike"
    ),
    Row(answer=TellsSizes, verdict="not yet", why="one more all-reduce a step"),
]
