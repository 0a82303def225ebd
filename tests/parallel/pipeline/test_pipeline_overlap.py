"""Cells in which a forward and a backward overlap, on real ranks: at the same time, and with the same gradients."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from models_to_cut import gradients_of
from torch import nn

from course_lib.cluster import Rank, RankFailed
from course_lib.parallel.pipeline import PacedStage, Pipeline, run_pipeline
from course_lib.parallel.pipeline.batch_run import BatchRun
from course_lib.parallel.pipeline.stage_run import StageRun
from course_lib.schedules import dual_pipe_v, from_text, peak_in_flight_by_stage
from course_lib.schedules.stage_times import StageTimes

pytestmark = pytest.mark.xdist_group("pipeline")

LONGEST_WAIT_S = 60  # against a hang, where the two do not run together
ON_ONE_STAGE = from_text("F0 F1 F2&B0 F3&B1 B2 B3\nF0 F1&B0 F2&B1 F3&B2 B3", name="on one stage")


def model(num_stages):
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(num_stages)]).double()


def batch(num_samples):
    return torch.randn(2, num_samples, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64).unbind()


def steps(me, schedules, num_samples):
    """By schedule: loss, gradients and peaks after two steps with overlap, and the loss by one pass forward."""
    found = []
    for schedule in schedules:
        pipeline = Pipeline(me, list(model(schedule.num_stages)), schedule, F.mse_loss, overlap=True)
        x, y = batch(num_samples)
        pipeline.step(x, y)
        loss = pipeline.step(x, y)
        ran = [span.action for span in pipeline.spans] == [*schedule.rows[me.rank]]
        output = pipeline.forward_only(x)
        found.append((loss, gradients_of(pipeline.stages), pipeline.peak_in_flight, ran, output))
    return found


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("num_ranks", [1, 2, 3])
def test_gradients_are_those_of_one_process(clusters, num_ranks):
    """Enough micro-batches, fewer than the schedule asks for, ragged ones; and both actions on one stage."""
    schedules = [dual_pipe_v(num_ranks, m) for m in (2 * num_ranks, 2 * num_ranks + 3, 3)]
    schedules += [ON_ONE_STAGE] if num_ranks == 2 else []
    run = clusters(num_ranks).run(steps, schedules, 11)
    for number, schedule in enumerate(schedules):
        whole, (x, y) = model(schedule.num_stages), batch(11)
        loss = F.mse_loss(whole(x), y)
        (2 * loss).backward()
        gradients, peaks = {}, {}
        for rank, found in enumerate(run):
            got, its_gradients, its_peaks, ran, output = found[number]
            gradients |= its_gradients
            peaks |= its_peaks
            assert ran
            if rank == schedule.rank_of_stage[-1]:
                torch.testing.assert_close(got, loss.detach(), rtol=0, atol=1e-10)
                torch.testing.assert_close(output, whole(x).detach(), rtol=0, atol=1e-10)
            else:
                assert got is output is None
        want = gradients_of(whole)
        assert gradients.keys() == want.keys()
        for name, gradient in want.items():
            torch.testing.assert_close(gradients[name], gradient, rtol=0, atol=1e-10)
        assert peaks == dict(enumerate(peak_in_flight_by_stage(schedule)))


class Meets(torch.autograd.Function):
    """The identity; forward and backward call what they were given."""

    @staticmethod
    def forward(ctx, x, on_forward, on_backward):
        ctx.on_backward = on_backward
        on_forward()
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        ctx.on_backward()
        return gradient, None, None


class Meeting(nn.Module):
    def __init__(self, on_forward, on_backward):
        super().__init__()
        self.on_forward, self.on_backward = on_forward, on_backward
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return Meets.apply(x * self.scale, self.on_forward, self.on_backward)


def meet(me, overlap):
    """One rank: F1.1 runs beside B0.0. Whether each found the other at work."""
    here = {"forward": threading.Event(), "backward": threading.Event()}
    count, found, threads = {"F": 0, "B": 0}, [], []

    def on_forward():
        count["F"] += 1
        if count["F"] == 2:
            here["forward"].set()
            found.append(here["backward"].wait(LONGEST_WAIT_S if overlap else 0))

    def on_backward():
        count["B"] += 1
        if count["B"] == 1:
            here["backward"].set()
            found.append(here["forward"].wait(LONGEST_WAIT_S if overlap else 0))
            threads.append("overlapped" in threading.current_thread().name)

    stages = [Meeting(lambda: None, on_backward), Meeting(on_forward, lambda: None)]
    pipeline = Pipeline(me, stages, dual_pipe_v(1, 2), F.mse_loss, overlap=overlap)
    x = torch.ones(2, 1, requires_grad=True)
    pipeline.step(x, torch.zeros(2, 1))
    left = [thread for thread in threading.enumerate() if "overlapped" in thread.name]
    return sorted(found), threads, len(left)


def test_they_run_at_the_same_time_or_one_after_the_other_and_no_thread_stays(clusters):
    assert clusters(1).run(meet, True)[0] == ([True, True], [True], 0)
    # The forward was there before the backward.
    assert clusters(1).run(meet, False)[0] == ([False, True], [False], 0)


def late_forward(me):
    """One rank and stage: F1 begins when B0, which runs beside it, has let go of its activations."""
    let_go = threading.Event()
    plain = StageRun._forward

    def late(stage, i):
        if i == 1:
            assert let_go.wait(LONGEST_WAIT_S)
        plain(stage, i)

    schedule = from_text("F0 F1&B0 B1")
    pipeline = Pipeline(me, [Meeting(lambda: None, let_go.set)], schedule, F.mse_loss, overlap=True)
    x = torch.ones(2, 1, requires_grad=True)
    StageRun._forward = late
    try:
        pipeline.step(x, torch.zeros(2, 1))
    finally:
        StageRun._forward = plain
    return pipeline.peak_in_flight


def test_both_count_as_in_flight_whichever_comes_first(clusters):
    assert clusters(1).run(late_forward)[0] == {0: 2}


class Breaks(nn.Module):
    """Breaks in the forward or backward of one micro-batch, counted from 0."""

    def __init__(self, where, at):
        super().__init__()
        self.where, self.left = where, at
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return Meets.apply(x * self.scale, *(self.or_not if self.where == kind else no for kind in "FB"))

    def or_not(self):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError(f"a planted fault in {self.where}")


def no():
    pass


def broken(me, number, where):
    stages = [nn.Identity(), nn.Identity()]
    stages[number] = Breaks(where, at=1 if where == "F" else 0)  # F1.1 and B0.0, which overlap
    pipeline = Pipeline(me, stages, dual_pipe_v(1, 2), F.mse_loss, overlap=True)
    x = torch.ones(2, 1, requires_grad=True)
    pipeline.step(x, torch.zeros(2, 1))


@pytest.mark.parametrize(
    ("number", "where", "said"),
    [
        (0, "B", "stage 0 failed in the backward of micro-batch 0: RuntimeError: a planted fault in B"),
        (1, "F", "stage 1 failed in the forward of micro-batch 1: RuntimeError: a planted fault in F"),
    ],
)
def test_either_may_fail_and_the_rank_goes_on_afterwards(clusters, number, where, said):
    with pytest.raises(RankFailed, match=said):
        clusters(1).run(broken, number, where)
    assert clusters(1).run(meet, True)[0] == ([True, True], [True], 0)


def test_a_paced_run_shows_both_at_once(cluster2):
    """No clock decides but in one direction: nothing takes less than its pace."""
    schedule, times = dual_pipe_v(2, 4), StageTimes(0.004, 0.004, 0.004, overlapped_s=0.008)
    run = run_pipeline(cluster2, schedule, times, steps=1)
    assert [[span.action for span in row] for row in run.rows] == [[*row] for row in schedule.rows]
    for row in run.rows:
        for span in row:
            assert span.end_s - span.start_s >= times.time_s(span.action.kind)
    assert 0 < run.idle_share < 1


def test_a_time_that_cannot_be_paced_gets_a_sentence():
    me = Rank(0, 1, torch.device("cpu"), "gloo")
    PacedStage(me, StageTimes(1, 1, 1, overlapped_s=2))
    with pytest.raises(ValueError, match=r"overlapped_s=2.5 cannot be paced: .* the longer one, 2 s. Give that"):
        PacedStage(me, StageTimes(1, 1, 1, overlapped_s=2.5))


def test_the_thread_beside_is_on_the_gpu_of_its_rank(monkeypatch):
    """Before it takes the stream: with a stand-in for CUDA, where each new thread is on GPU 0."""
    done = []
    gpu = torch.device("cuda", 1)

    def note(what):
        done.append((what, "overlapped" in threading.current_thread().name))

    @contextlib.contextmanager
    def on_stream(stream):
        note(f"stream of {stream.device}")
        yield

    monkeypatch.setattr(torch.cuda, "set_device", lambda device: note(f"on {device}"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(device=device))
    monkeypatch.setattr(torch.cuda, "stream", on_stream)
    forward, backward = from_text("F0 F1&B0 B1").rows[0][1:3]
    stages = {0: SimpleNamespace(expect_forward=lambda: None)}
    batch = BatchRun(Rank(1, 2, gpu, "nccl"), [1], stages, {})
    monkeypatch.setattr(batch, "_run", lambda action: note(action.kind))
    monkeypatch.setattr(batch, "_hand_over", lambda action: None)
    with ThreadPoolExecutor(1, thread_name_prefix="overlapped a forward") as thread:
        batch._run_both(thread, forward, backward)
    assert [what for what, beside in done if beside] == ["on cuda:1", "stream of cuda:1", backward.kind]
    assert [what for what, beside in done if not beside] == [forward.kind]
