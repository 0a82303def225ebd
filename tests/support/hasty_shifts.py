"""Answers to 02.shift that forget to wait, for tests of what is refused and of what is told."""

from __future__ import annotations

import torch
import torch.distributed as dist


def neighbours(me):
    return (me.rank + 1) % me.world_size, (me.rank - 1) % me.world_size


def shift_that_forgets_to_wait(me, mine):
    theirs = torch.empty_like(mine)
    after, before = neighbours(me)
    dist.isend(mine, after)
    dist.irecv(theirs, before)
    return theirs


def shift_that_ignores_the_works(me, mine):
    theirs = torch.empty_like(mine)
    after, before = neighbours(me)
    dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, after), dist.P2POp(dist.irecv, theirs, before)])
    return theirs
