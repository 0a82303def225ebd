"""What a pipeline keeps: as many activations as the schedule says, freed when they may be, and nothing afterwards."""

from __future__ import annotations

import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from waiting import holds_in_time

from course_lib.cluster import Rank
from course_lib.parallel.pipeline import Pipeline
from course_lib.parallel.pipeline.batch_run import BatchRun
from course_lib.parallel.pipeline.comm_plan import moves_of, proofs_of
from course_lib.schedules import SCHEDULES, get_schedule, peak_in_flight_by_stage

pytestmark = pytest.mark.xdist_group("pipeline")


class Watched(nn.Module):
    """Counts, at each forward, the tensors of its own that are still there.

    ``middles`` are activations that autograd keeps for the weights of ``outer``; ``outputs`` nothing needs but the
    next stage.
    """

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(5, 5), nn.Linear(5, 5)
        self.middles, self.outputs = weakref.WeakSet(), weakref.WeakSet()
        self.most_middles = self.most_outputs = 0

    def begin(self):
        self.most_middles = self.most_outputs = 0

    def forward(self, x):
        middle = self.inner(x)
        self.middles.add(middle)
        output = self.outer(middle)
        self.outputs.add(output.untyped_storage())
        self.most_middles = max(self.most_middles, len(self.middles))
        self.most_outputs = max(self.most_outputs, len(self.outputs))
        return output


def seen(me, kind, num_micro_batches):
    """By stage: the most activations, as the pipeline counts them and as they were; outputs; and what is left."""
    schedule = get_schedule(kind, me.world_size, num_micro_batches)
    stages = [Watched() for _ in range(schedule.num_stages)]
    pipeline = Pipeline(me, stages, schedule, F.mse_loss)
    x = torch.ones(num_micro_batches, 5)
    mine = {s: stages[s] for s in schedule.stages_of_rank[me.rank]}
    steps = []
    for _ in range(4):
        for watched in mine.values():
            watched.begin()
        pipeline.step(x, x)
        steps.append({s: (w.most_middles, w.most_outputs) for s, w in mine.items()})
    # The least of some steps: a thread that looks where this one stands may hold a tensor of its frame for a moment.
    most = {s: [min(counts) for counts in zip(*(step[s] for step in steps[1:]), strict=True)] for s in mine}
    # A thread of gloo may hold what it has just sent for a moment longer; what the pipeline holds stays.
    holds_in_time(lambda: not any(len(w.middles) + len(w.outputs) for w in mine.values()), 20.0)
    return {s: (pipeline.peak_in_flight[s], *most[s], len(w.middles) + len(w.outputs)) for s, w in mine.items()}


@pytest.mark.first_cases(8)
@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_as_many_activations_are_kept_as_the_schedule_says(cluster2, cluster4, kind, num_ranks):
    run = {2: cluster2, 4: cluster4}[num_ranks].run(seen, kind, 8)
    expected = peak_in_flight_by_stage(get_schedule(kind, num_ranks, 8))
    found = {stage: counts for rank in run for stage, counts in rank.items()}
    assert [found[s][0] for s in range(len(expected))] == [*expected]
    assert [found[s][1] for s in range(len(expected))] == [*expected]
    assert all(found[s][3] == 0 for s in found)


def test_what_was_sent_is_let_go_once_an_answer_proves_that_it_arrived(cluster4):
    """1F1B: of 12 outputs a stage holds no more than are on their way and back, and the one that it makes."""
    run = cluster4.run(seen, "1f1b", 12)
    for rank, (peak, _, most_outputs, _) in ((r, counts[r]) for r, counts in enumerate(run)):
        assert most_outputs <= peak + 1, rank


@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_a_message_is_proven_once_by_an_answer_made_after_it_was_used(kind, num_ranks):
    schedule = get_schedule(kind, num_ranks, 5)
    place = {
        ("B" if kind == "I" else kind, stage, i): number
        for row in schedule.rows
        for number, (kind, stage, i) in enumerate(row)
    }
    for rank in range(num_ranks):
        proofs, moves = proofs_of(schedule, rank), moves_of(schedule, rank)
        proven = [sent for found in proofs.values() for sent in found]
        assert len(set(proven)) == len(proven)
        for answer, found in proofs.items():
            for sent in found:
                assert (sent.sender, sent.receiver) == (rank, answer.sender)
                used = place[sent.kind, sent.to_stage, sent.micro_batch]
                assert used <= place[answer.kind, answer.from_stage, answer.micro_batch]
        begun = set()
        for move in moves:
            begun |= {*move.sends, *move.recvs}
            assert begun.issuperset(move.awaits)


@pytest.mark.parametrize("kind", SCHEDULES)
def test_recvs_are_started_one_action_early_and_nothing_else_is_changed(kind):
    """From one rank they still come in the order in which they were sent, by which gloo tells them apart."""
    schedule = get_schedule(kind, 3, 4)
    for rank in range(3):
        plain, early = (moves_of(schedule, rank, early=early) for early in (False, True))
        assert [m._replace(recvs=()) for m in plain] == [m._replace(recvs=()) for m in early]
        assert [r for m in plain for r in m.recvs] == [r for m in early for r in m.recvs]
        places = [{r: place for place, m in enumerate(moves) for r in m.recvs} for moves in (plain, early)]
        assert places[1] == {r: max(0, place - 1) for r, place in places[0].items()}


@pytest.mark.parametrize(("backend", "early"), [("gloo", True), ("nccl", False)])
def test_recvs_are_early_only_where_messages_do_not_wait_for_each_other(backend, early):
    schedule = get_schedule("1f1b", 2, 4)
    me = Rank(1, 2, torch.device("cpu"), backend)
    pipeline = Pipeline(me, [nn.Linear(5, 5), nn.Linear(5, 5)], schedule, F.mse_loss)
    assert pipeline._moves[True] == moves_of(schedule, 1, early=early) != moves_of(schedule, 1, early=not early)


def test_nothing_is_under_way_after_a_batch(cluster2):
    def under_way(me):
        left, go = [], BatchRun.go

        def watched(self, moves):
            go(self, moves)
            left.append(len(self._in_flight) + sum(len(s.inputs) + len(s.gradients) for s in self.stages.values()))

        BatchRun.go = watched
        try:
            pipeline = Pipeline(me, [nn.Linear(5, 5), nn.Linear(5, 5)], get_schedule("1f1b", 2, 3), F.mse_loss)
            pipeline.step(torch.ones(3, 5), torch.ones(3, 5))
            pipeline.forward_only(torch.ones(3, 5))
        finally:
            BatchRun.go = go
        return left

    assert list(cluster2.run(under_way)) == [[0, 0], [0, 0]]
