"""A step played again: by hand what it comes to, the same on a busy machine, and a limit for each way to be slow."""

from __future__ import annotations

import time

import cheats
import pytest
from test_capstone_attempts import FOUR
from test_capstone_cheats import JOB, run_of

from course_lib.capstone.attempts.attempting import attempt, links_of
from course_lib.capstone.running.replay import BegunOp, Did, in_order, replayed_s
from course_lib.cluster import Links
from course_lib.layouts.link import Link
from course_lib.meter.communication.call import Call

LINKS = Links.nodes(1, inside=Link(), across=Link(0.0, 1e6), ports_per_node=1)


def compute(time_s):
    return Did("compute", time_s)


def call(operation, place, *, number=1, size_bytes=100_000.0, ranks=(0, 1)):
    return Did("start", number=number, call=BegunOp(operation, ranks, place, ("world", ranks), 0, (size_bytes,) * 2))


def wait(number=1):
    return Did("wait", number=number)


def both(*of_each):
    """The same on two ranks; a place is put where a function waits for one."""
    return [[one(place) if callable(one) else one for one in of_each] for place in (0, 1)]


def reduced(number=1):
    return lambda place: call("all_reduce", place, number=number)


def test_computing_and_a_collective_by_hand():
    # 100 kB on 1 MB/s: two rounds of half of it, 0.1 s.
    assert replayed_s(LINKS, both(compute(0.2), reduced(), wait())) == pytest.approx(0.3)


def test_what_is_begun_early_hides_behind_computing():
    assert replayed_s(LINKS, both(reduced(), compute(0.2), wait())) == pytest.approx(0.2)
    assert replayed_s(LINKS, both(reduced(), compute(0.04), wait())) == pytest.approx(0.1)


def test_a_late_rank_makes_the_others_wait():
    late = both(compute(0.1), reduced(), wait())
    late[1].insert(0, compute(0.5))
    assert replayed_s(LINKS, late) == pytest.approx(0.7)


def test_calls_of_one_port_follow_each_other():
    assert replayed_s(LINKS, both(reduced(1), reduced(2), wait(1), wait(2))) == pytest.approx(0.2)


def test_a_message_begins_when_both_ends_are_there_and_whom_nobody_waits_for_costs_nothing():
    there = [[compute(0.3), call("send", 0)], [call("send", 1), wait(), compute(0.1)]]
    assert replayed_s(LINKS, there) == pytest.approx(0.5)
    assert replayed_s(LINKS, [there[0], [call("send", 1), compute(0.1)]]) == pytest.approx(0.3)


def test_a_broadcast_goes_from_its_root():
    assert replayed_s(LINKS, both(lambda place: call("broadcast", place), wait())) == pytest.approx(0.1)


def test_what_cannot_be_told_is_not_told():
    assert replayed_s(LINKS, [[call("send", 0), wait()], []]) is None, "its other end was in another step"
    anybody = [[call("send", 0), wait()], [Did("start", number=1), wait()]]
    assert replayed_s(LINKS, anybody) is None


def seen(operation, start_s, waited_s, *, number=1, group=(0, 1), **more):
    return Call(
        rank=0, number=number, operation=operation, group=group, size_bytes=80, sent_bytes={1: 80}, num_messages=1,
        start_s=start_s, end_s=9.0, hidden_s=None, line=None, group_name="g", waited_s=waited_s, **more,
    )  # fmt: skip


def test_a_rank_is_read_in_its_order():
    calls = [seen("all_reduce", 1.0, 4.0, root=None), seen("send", 2.0, None, number=2, peer=1)]
    calls += [seen("all_gather", 0.5, None, number=3), seen("all_reduce", 0.1, 0.1, number=4, group=(0,))]
    did = in_order(calls, [(3.0, "forward", 2.0), (5.0, "backward", 2.0)], 0.01)
    assert [(one.do, one.number or one.time_s) for one in did] == [
        ("start", 3),
        ("start", 1),
        ("start", 2),
        ("compute", 0.02),
        ("wait", 1),
        ("compute", 0.04),
        ("wait", 3),  # in C++, by the end at the latest
    ]


@pytest.mark.parametrize(("operation", "parts"), [("all_to_all", (0.0, 80.0)), ("scatter", (40.0, 40.0))])
def test_what_a_rank_has_for_each_place(operation, parts):
    (did, _) = in_order([seen(operation, 1.0, 2.0)], [], 0.01)
    assert did.call.parts_bytes == parts


class Slowed(cheats.Honest):
    """As it should be, on a machine that has something else to do for a long time."""

    def step(self):
        loss = super().step()
        time.sleep(0.3)
        return loss


def test_a_busy_machine_does_not_make_the_step_longer(clusters):
    """Two ranks by hand: forward, backward, an all-reduce for each parameter, and one for the loss."""
    idle = attempt(JOB, run_of("Honest"), clusters(2), num_timed=1, show=False)
    busy = attempt(JOB, lambda me, task: Slowed(me, task), clusters(2), num_timed=1, show=False)
    assert idle.paced_s == pytest.approx(busy.paced_s, rel=1e-6)
    assert busy.counted_s == busy.paced_s, "and not what the clock showed"
    assert busy.step_s >= 0.3
    assert idle.paced_s > 3 * JOB.job.forward_s / 2, "computing alone, half of the batch on each rank"


def test_the_links_of_a_job_are_those_of_its_ranks():
    alone = [[compute(1.0)], [], [], []]
    assert replayed_s(links_of(FOUR), alone) == 1.0
