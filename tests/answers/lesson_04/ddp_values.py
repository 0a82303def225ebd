"""04.ddp_values: a learner's DDP, the values."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_04.ddp_builds.earlier import BlockingInViews, BroadcastsOneFlatTensor, InBuckets, Naive
from answers.lesson_04.ddp_builds.final import Final
from answers.lesson_04.ddp_builds.wrong_values import (
    AveragesWeights,
    BeginsFromTheLast,
    BeginsUnlike,
    DividesByTwo,
    DropsKeywords,
    HidesTheModule,
    LosesTheMean,
    NeverSends,
    Prefixed,
    Seals,
    SeedsAll,
    SeedsBeside,
    SendsByDist,
    SendsShort,
    Sums,
    WrapsACopy,
)

ROWS = [
    Row(answer=Naive, verdict="passed", why="a message a gradient, in its hook"),
    Row(answer=BeginsUnlike, verdict="not yet", mistake="begins-unlike", why="apart they began, apart they stay"),
    Row(answer=InBuckets, verdict="passed", why="more than this step demands"),
    Row(answer=Final, verdict="passed", why="the whole build"),
    Row(answer=BlockingInViews, verdict="passed", why="more than this step demands"),
    Row(answer=BroadcastsOneFlatTensor, verdict="passed", why="begins alike by one message"),
    Row(answer=BeginsFromTheLast, verdict="not yet", mistake="begins-unlike", why="rank 0's weights are promised"),
    Row(answer=SeedsAll, verdict="not yet", mistake="begins-unlike", why="weights from a file would be lost"),
    Row(answer=SeedsBeside, verdict="not yet", mistake="", why="dropout would be alike on all ranks"),
    Row(answer=NeverSends, verdict="not yet", mistake="never-averages", why="every rank trains alone"),
    Row(answer=LosesTheMean, verdict="not yet", mistake="mean-is-lost", why="the optimizer reads another tensor"),
    Row(answer=Sums, verdict="not yet", mistake="sum-not-mean", why="as many times too large as there are ranks"),
    Row(answer=DividesByTwo, verdict="not yet", why="three ranks are not two"),
    Row(answer=DropsKeywords, verdict="not yet", mistake="drops-keywords", why="models have inputs by name"),
    Row(answer=HidesTheModule, verdict="not yet", mistake="other-parameters", why="`zero_grad()` finds nothing"),
    Row(answer=WrapsACopy, verdict="not yet", mistake="other-parameters", why="the module handed in stays as it is"),
    Row(answer=Prefixed, verdict="not yet", mistake="prefixed-names", why="the module's own names are promised"),
    Row(answer=SendsByDist, verdict="not yet", mistake="not-by-the-given", why="nobody can have it send by another"),
    Row(answer=AveragesWeights, verdict="not yet", why="weights are not gradients: momentum would part"),
    Row(answer=SendsShort, verdict="not yet", why="float64 has more digits"),
    Row(answer=Seals, verdict="not yet", why="dropout would be off"),
]
