"""Where a step's time went: computing, messages and waiting, from planted calls and from a run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

from course_lib import Cluster
from course_lib.meter import Call, Communication, StepSplit, mean_split, metered, split_step


def call(rank: int, operation: str, start_s: float, end_s: float | None, **given: Any) -> Call:
    """A call on two ranks; it is waited for from its start, unless ``waited_s`` says otherwise."""
    fields = {"group": (0, 1), "size_bytes": 8, "sent_bytes": {}, "num_messages": 1, "hidden_s": 0.0, "line": None}
    return Call(rank, 0, operation, start_s=start_s, end_s=end_s, **{**fields, "waited_s": start_s, **given})


def of(*calls: Call) -> Communication:
    return Communication.of_calls(2, calls)


def barriers(end_s: float, late_s: float = 0.0) -> list[Call]:
    """The barrier before a step, over at 0 s, and the one after it: rank 1 comes to it ``late_s`` later than rank 0."""
    first = [call(rank, "barrier", -1.0, 0.0) for rank in (0, 1)]
    return [*first, call(0, "barrier", end_s - late_s, end_s), call(1, "barrier", end_s, end_s)]


def in_order(*calls: Call) -> Communication:
    return of(*sorted(calls, key=lambda one: one.start_s))


def seconds(split: StepSplit) -> tuple[float, float, float]:
    return split.computing_s, split.messages_s, split.waiting_s


def test_a_collective_is_waited_for_until_the_last_has_come() -> None:
    run = in_order(*barriers(10.0), call(0, "all_reduce", 2.0, 6.0), call(1, "all_reduce", 5.0, 6.0))
    first, second = split_step(run, 0)
    assert seconds(first) == (6.0, 1.0, 3.0)
    assert seconds(second) == (9.0, 1.0, 0.0)


def test_a_rank_that_is_through_waits_at_the_barrier() -> None:
    first, second = split_step(in_order(*barriers(10.0, late_s=4.0)), 0)
    assert seconds(first) == (6.0, 0.0, 4.0)
    assert seconds(second) == (10.0, 0.0, 0.0)


def test_a_receiver_waits_for_its_sender_and_a_message_hidden_by_computing_costs_nothing() -> None:
    send = call(0, "send", 3.0, 3.0, peer=1)
    recv = call(1, "recv", 1.0, 4.0, peer=0)
    first, second = split_step(in_order(*barriers(8.0), send, recv), 0)
    assert seconds(first) == (8.0, 0.0, 0.0)
    assert seconds(second) == (5.0, 1.0, 2.0)
    early = call(1, "recv", 1.0, 4.0, peer=0, waited_s=4.0)  # asked for, then computed until it was there
    assert seconds(split_step(in_order(*barriers(8.0), send, early), 0)[1]) == (8.0, 0.0, 0.0)


def test_calls_that_are_waited_for_together_count_once() -> None:
    both = [call(rank, "all_reduce", start, 5.0, waited_s=3.0) for rank in (0, 1) for start in (1.0, 2.0)]
    for split in split_step(in_order(*barriers(6.0), *both), 0):
        assert seconds(split) == (4.0, 2.0, 0.0)


def test_a_step_is_named_by_the_barrier_before_it() -> None:
    later = [call(rank, "barrier", 30.0, 30.0) for rank in (0, 1)]
    run = in_order(*barriers(10.0), *later)
    assert [split.step_s for split in split_step(run, 0)] == [10.0, 10.0]
    assert [split.step_s for split in split_step(run, 1)] == [20.0, 20.0]
    for step in (-1, 2):
        with pytest.raises(ValueError, match=r"the rank called 3; call one more"):
            split_step(run, step)


def test_where_no_clock_saw_the_end_the_step_is_not_divided() -> None:
    run = in_order(*barriers(10.0), call(0, "all_reduce", 2.0, None), call(1, "all_reduce", 2.0, 3.0))
    first, second = split_step(run, 0)
    assert (first.undivided_s, *seconds(first)) == (11.0, 0.0, 0.0, 0.0)  # from barrier to barrier as they began
    assert second.undivided_s == 0.0


def test_the_mean_is_part_by_part() -> None:
    assert mean_split([StepSplit(1.0, 2.0, 3.0), StepSplit(3.0, 0.0, 1.0)]) == StepSplit(2.0, 1.0, 2.0)
    with pytest.raises(ValueError, match="give the splits of at least one rank"):
        mean_split([])


def test_the_parts_of_a_real_run_add_up_to_its_step() -> None:
    def step(me: Any) -> None:
        dist.barrier()
        dist.all_reduce(torch.ones(4))
        dist.barrier()

    with Cluster(2) as two:
        splits = split_step(metered(two, step).communication, 0)
    assert len(splits) == 2
    for split in splits:
        assert min(seconds(split)) >= 0.0
        assert split.undivided_s == 0.0
        assert split.step_s == pytest.approx(sum(seconds(split)))
