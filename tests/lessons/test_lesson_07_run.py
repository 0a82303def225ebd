"""07.run, the loop over a row, against answers that are neither the reference nor a catalogued example."""

from __future__ import annotations

import pytest
import torch.distributed as dist

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

pytestmark = pytest.mark.xdist_group("exercises")


def verdict(answer):
    return judged(exercises.exercise("07.run"), answer)


def _peers(me, kind):
    near = (me.rank - 1, me.rank + 1) if kind == "F" else (me.rank + 1, me.rank - 1)
    return [peer if 0 <= peer < me.world_size else None for peer in near]


def loop(me, row, stage, *, get, put):
    """One message at a time; ``get`` and ``put`` are how it travels."""
    for action in row:
        kind, i = action[0], int(action[1:])
        before, after = _peers(me, kind)
        arrived = None if before is None else stage.room()
        if before is not None:
            get(arrived, before)
        made = stage.forward(i, arrived) if kind == "F" else stage.backward(i, arrived)
        if after is not None:
            put(made, after)


def by_exchange_in_turn(me, row, stage):
    """As the page's own first loop."""
    loop(
        me,
        row,
        stage,
        get=lambda t, rank: exchange([recv(t, rank)]),
        put=lambda t, rank: exchange([send(t, rank)]),
    )


def everything_twice(me, row, stage):
    works = []

    def put(made, rank):
        works.extend((dist.isend(made, rank), made) for _ in range(2))

    def get(room, rank):
        dist.recv(room, rank)
        dist.recv(room, rank)

    loop(me, row, stage, get=get, put=put)
    for work, _ in works:
        work.wait()


def waits_at_the_end(me, row, stage):
    works = []
    loop(me, row, stage, get=dist.recv, put=lambda made, rank: works.append((dist.isend(made, rank), made)))
    for work, _ in works:
        work.wait()


def backwards_are_left_out(me, row, stage):
    loop(me, [action for action in row if action[0] == "F"], stage, get=dist.recv, put=dist.send)


def up_is_down(me, row, stage):
    """Gradients are asked of the rank before."""
    for action in row:
        before, after = me.rank - 1, me.rank + 1
        arrived = stage.room() if before >= 0 else None
        if arrived is not None:
            dist.recv(arrived, before)
        made = (stage.forward if action[0] == "F" else stage.backward)(int(action[1:]), arrived)
        if after < me.world_size:
            dist.send(made, after)


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "mistake", "words"),
    [
        (by_exchange_in_turn, "they-cross", "waits in a send to rank 1"),
        (everything_twice, None, "messages, where"),
        (backwards_are_left_out, None, "where its row is"),
        (up_is_down, None, "needs a gradient from a neighbour"),
    ],
)
def test_a_wrong_loop_is_told_what_was_seen(answer, mistake, words):
    seen = verdict(answer)
    assert not seen.passed
    assert seen.mistake == mistake
    assert words in f"{seen.message} {seen.evidence} {seen.details}", seen


def test_what_works_on_gloo_alone_passes_with_a_warning():
    seen = verdict(waits_at_the_end)
    assert seen.passed
    assert "On NCCL this may hang" in seen.warning


def test_a_backward_before_its_forward_is_told_so():
    seen = verdict(lambda me, row, stage: stage.backward(0))
    assert "backward(0) was called before forward(0)" in seen.message


def together(me, row, stage):
    """Right: what an action made starts with what the next one waits for."""
    going = []
    for action in row:
        kind, i = action[0], int(action[1:])
        before, after = _peers(me, kind)
        arrived = None if before is None else stage.room()
        exchange(going + ([] if before is None else [recv(arrived, before)]))
        made = (stage.forward if kind == "F" else stage.backward)(i, arrived)
        going = [] if after is None else [send(made, after)]
    exchange(going)


def by_one_digit(me, row, stage):
    together(me, [action[:2] for action in row], stage)


def counting_up(me, row, stage):
    forwards, backwards = iter(range(99)), iter(range(99))
    together(me, [f"{a[0]}{next(forwards if a[0] == 'F' else backwards)}" for a in row], stage)


@pytest.mark.long
@pytest.mark.parametrize("answer", [by_one_digit, counting_up])
def test_a_row_with_other_micro_batches_is_turned_away_and_told_so(answer):
    seen = verdict(answer)
    assert not seen.passed
    assert seen.mistake == "other-numbers"


def test_even_and_odd_ranks_that_alternate_hang_with_one_micro_batch_and_are_told_so():
    from answers.lesson_07.wrong.run import even_and_odd

    seen = verdict(even_and_odd)
    assert not seen.passed
    assert seen.mistake == "receive-before-send"
    assert "three stages, one micro-batch" in f"{seen.message} {seen.evidence}"
