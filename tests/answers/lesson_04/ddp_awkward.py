"""04.ddp_awkward: a learner's DDP, awkward models."""

from __future__ import annotations

import contextlib

from answer_table import Row
from answers.lesson_04.ddp_builds.earlier import (
    BroadcastsOneFlatTensor,
    BuffersInOneMessage,
    DividesFirst,
    LaidOutAsParameters,
    LastHookWaits,
    RefusesNothingToTrain,
)
from answers.lesson_04.ddp_builds.final import Final
from answers.lesson_04.ddp_builds.wrong_models import (
    AsksForTheFirst,
    AsTheyCome,
    CountsForwards,
    FlattensByView,
    MeanOfBuffers,
    MeanOverUsers,
    NotAlone,
    OwnBuffers,
    SendsInNoSync,
    SkipsUnused,
    StaysQuiet,
    TakesFrozen,
    ZerosForTheQuiet,
)


class SharedBuckets(Final):
    """All objects of the class have one list. (It stands here: a class of a module outlives its case.)"""

    shared = []  # noqa: RUF012

    def assign(self, bucket_bytes):
        self.shared += super().assign(bucket_bytes)
        return self.shared


class SendsForAllObjects(Final):
    """All objects of the class have one list: values are right, and each sends what the others have as well."""

    everybody = []  # noqa: RUF012

    def assign(self, bucket_bytes):
        own = super().assign(bucket_bytes)
        self.everybody.extend(own)
        return own

    def finish(self):
        super().finish()
        for bucket in self.everybody:
            if bucket not in self.buckets:
                self.all_reduce(bucket.flat.clone())


class EndsTheOuterOne(Final):
    """Whatever `no_sync` found, it leaves the hooks sending."""

    @contextlib.contextmanager
    def no_sync(self):
        self.syncs = False
        try:
            yield
        finally:
            self.syncs = True


ROWS = [
    Row(answer=Final, verdict="passed", why="the whole build"),
    Row(answer=LastHookWaits, verdict="not yet", mistake="waits-for-unused", why="the last gradient never comes"),
    Row(answer=RefusesNothingToTrain, verdict="passed", why="as PyTorch's"),
    Row(answer=BuffersInOneMessage, verdict="passed", why="buffers by one message"),
    Row(answer=LaidOutAsParameters, verdict="passed", why="views in the layout of channels_last"),
    Row(answer=DividesFirst, verdict="passed", why="a mean by another order"),
    Row(answer=BroadcastsOneFlatTensor, verdict="passed", why="begins alike by one message"),
    Row(answer=SkipsUnused, verdict="not yet", mistake="waits-for-unused", why="it sends less than the others"),
    Row(answer=AsTheyCome, verdict="not yet", mistake="order-of-arrival", why="sums of different layers"),
    Row(answer=SendsInNoSync, verdict="not yet", mistake="sends-in-no-sync", why="three times the bytes"),
    Row(answer=StaysQuiet, verdict="not yet", mistake="loses-the-quiet-part", why="nobody sends after an error"),
    Row(answer=ZerosForTheQuiet, verdict="not yet", mistake="loses-the-quiet-part", why="`.grad` has the sum"),
    Row(answer=OwnBuffers, verdict="not yet", mistake="buffers-of-its-own", why="statistics part"),
    Row(answer=MeanOfBuffers, verdict="not yet", why="rank 0's are promised"),
    Row(answer=TakesFrozen, verdict="not yet", mistake="frozen-have-none", why="a frozen parameter takes no hook"),
    Row(answer=AsksForTheFirst, verdict="not yet", mistake="nothing-to-train", why="there may be none"),
    Row(
        answer=SharedBuckets,
        verdict="not yet",
        mistake="shared-between-objects",
        why="a second model has the first one's as well",
    ),
    Row(
        answer=SendsForAllObjects,
        verdict="not yet",
        mistake="shared-between-objects",
        why="each of two models sends the buckets of both",
    ),
    Row(answer=EndsTheOuterOne, verdict="not yet", mistake="sends-in-no-sync", why="one inside another"),
    Row(answer=NotAlone, verdict="not yet", mistake="not-alone", why="a job may have one rank"),
    Row(answer=FlattensByView, verdict="raised", why="channels_last has no such view"),
    Row(answer=MeanOverUsers, verdict="not yet", why="the mean is over all ranks"),
    Row(answer=CountsForwards, verdict="not yet", why="two forward passes are no two batches"),
]
