"""Messages that are on their way: waited for one by one or all, in any order, and forgotten afterwards."""

from __future__ import annotations

import weakref

import pytest
import torch

from course_lib.cluster.base.point_to_point import Message, Started, recv, send, start


class Work:
    """Counts how often it was waited for; what arrives is written then."""

    def __init__(self, *arriving):
        self.num_waits, self.arriving = 0, arriving

    def wait(self):
        self.num_waits += 1
        for buffer in self.arriving:
            buffer.fill_(7)


def test_each_message_is_waited_for_once_and_what_was_staged_is_copied_when_it_has_arrived():
    sent, room, buffer = torch.ones(2), torch.zeros(2), torch.zeros(2)
    works = [Work(), Work(buffer)]
    started = Started([send(sent, 1), recv(room, 1)], [sent, buffer], works)
    assert [work.num_waits for work in works] == [0, 0]
    started.wait_for(1)
    assert [work.num_waits for work in works] == [0, 1]
    assert room.tolist() == [7, 7]
    room.zero_()
    started.wait_for(1)  # safe to repeat: nothing is copied again
    started()
    started()
    assert [work.num_waits for work in works] == [1, 1]
    assert room.tolist() == [0, 0]


def test_one_piece_of_work_for_all_messages_as_nccl_gives_it_does_for_each():
    tensors = [torch.zeros(2) for _ in range(3)]
    work = Work()
    started = Started([Message(t, 1, is_recv=True) for t in tensors], tensors, [work])
    started.wait_for(2)
    assert work.num_waits == 1
    started.wait_for(0)
    started()
    assert work.num_waits == 3  # NCCL's may be waited for again: the stream that asks waits, not the host


def test_a_tensor_is_kept_until_its_message_was_waited_for_and_no_longer():
    tensors = [torch.ones(2), torch.ones(2)]
    alive = weakref.WeakSet(tensors)
    started = Started([send(t, 1) for t in tensors], tensors[:], [Work(), Work()])
    del tensors
    assert len(alive) == 2
    started.wait_for(0)
    assert len(alive) == 1
    started()
    assert len(alive) == 0


def test_nothing_to_send_is_done_at_once():
    start([])()


@pytest.mark.parametrize("stage", [False, True])
def test_messages_can_be_waited_for_in_any_order(cluster2, stage):
    def swap(me, stage):
        peer = 1 - me.rank
        rooms = [torch.empty(3) for _ in range(3)]
        messages = [send(torch.full((3,), 10.0 * me.rank + i), peer) for i in range(3)]
        started = start([*messages, *(recv(room, peer) for room in rooms)], stage=stage)
        found = []
        for place in (5, 3, 4):
            started.wait_for(place)
            found.append(rooms[place - 3].tolist())
        started()
        return found

    for rank, found in enumerate(cluster2.run(swap, stage)):
        assert found == [[10.0 * (1 - rank) + i] * 3 for i in (2, 0, 1)]
