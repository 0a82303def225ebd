"""04.ddp: by mistake, a whole build that makes this mistake and no other."""

from __future__ import annotations

from answers.lesson_04.ddp_builds.wrong_models import (
    AsksForTheFirst,
    AsTheyCome,
    NotAlone,
    OwnBuffers,
    SendsInNoSync,
    SkipsUnused,
    TakesFrozen,
    ZerosForTheQuiet,
)
from answers.lesson_04.ddp_builds.wrong_time import (
    AllAtTheEnd,
    CopiesBack,
    KeepsTwo,
    SleepsForAWait,
    TooSoon,
    WaitsInTheHook,
)
from answers.lesson_04.ddp_builds.wrong_values import (
    BeginsUnlike,
    CountsNumbers,
    DropsKeywords,
    FromTheFront,
    HidesTheModule,
    LosesTheMean,
    MixesDtypes,
    NeverSends,
    OneBucket,
    OneCallEach,
    Prefixed,
    SendsByDist,
    Sums,
    WithABarrier,
)
from torch import nn

from course_lib.learn.exercises.lesson_04.ddp import DDP_STEPS

_EXAMPLES = {
    "begins-unlike": BeginsUnlike,
    "never-averages": NeverSends,
    "mean-is-lost": LosesTheMean,
    "sum-not-mean": Sums,
    "drops-keywords": DropsKeywords,
    "other-parameters": HidesTheModule,
    "prefixed-names": Prefixed,
    "not-by-the-given": SendsByDist,
    "not-waited-for": SleepsForAWait,
    "one-call-a-gradient": OneCallEach,
    "one-bucket": OneBucket,
    "from-the-front": FromTheFront,
    "counts-numbers": CountsNumbers,
    "mixes-dtypes": MixesDtypes,
    "sends-besides": WithABarrier,
    "copies-back": CopiesBack,
    "keeps-two": KeepsTwo,
    "waits-in-the-hook": WaitsInTheHook,
    "leaves-too-soon": TooSoon,
    "leaves-late": AllAtTheEnd,
    "waits-for-unused": SkipsUnused,
    "order-of-arrival": AsTheyCome,
    "sends-in-no-sync": SendsInNoSync,
    "loses-the-quiet-part": ZerosForTheQuiet,
    "buffers-of-its-own": OwnBuffers,
    "frozen-have-none": TakesFrozen,
    "nothing-to-train": AsksForTheFirst,
    "not-alone": NotAlone,
}


def examples_of(name: str) -> dict[str, type[nn.Module]]:
    """By mistake of this step, a whole build that makes this mistake and no other."""
    mistakes = {mistake.name for step in DDP_STEPS if step.name == name for mistake in step.mistakes}
    return {mistake: answer for mistake, answer in _EXAMPLES.items() if mistake in mistakes}
