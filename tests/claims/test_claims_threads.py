"""Trials of ``nn.DataParallel``: what threads and processes do side by side; and, on the CPU, those that need GPUs."""

from __future__ import annotations

import sys

import pytest
import torch

from course_lib import claims
from course_lib.claims.court import timing_noise
from course_lib.claims.data_parallel import threads, turn_taking
from course_lib.parallel.data.threads.thread_race import Race

SLOWER = Race(2, one_s=(2.0,), threads_s=(1.0,), processes_s=(4.0,))  # processes: half as fast as one worker


@pytest.fixture
def raced(monkeypatch):
    """A race that speaks against C2 and D7, on a quiet machine."""
    monkeypatch.setattr(threads, "threads_or_processes", lambda *_, **__: SLOWER)
    monkeypatch.setattr(timing_noise.ThresholdLine, "share", lambda _: 0.0)


def gets_on(monkeypatch, *, threads_in_python=False, threads_in_operator=True, processes=True):
    by_work = {False: threads_in_python, True: threads_in_operator}
    monkeypatch.setattr(threads, "threads_get_on", lambda *, beside_operator: by_work[beside_operator])
    monkeypatch.setattr(threads, "processes_get_on", lambda cluster: processes)


@pytest.mark.parametrize(
    ("name", "seen", "verdict"),
    [
        ("C2", {}, "holds with conditions"),
        ("C2", {"threads_in_operator": False}, "holds"),
        ("C2", {"threads_in_python": True}, "false"),
        ("C2", {"processes": False}, "false"),
        ("D7", {}, "holds"),
        ("D7", {"threads_in_python": True}, "false"),
    ],
)
def test_a_verdict_on_threads_follows_the_count_and_not_the_clock(name, seen, verdict, cluster2, monkeypatch, raced):
    gets_on(monkeypatch, **seen)
    evidence = claims.trial(name).run(lambda size: cluster2)
    assert evidence.verdict == verdict
    assert evidence.timings["small layers, two processes"] == "0.50x of one worker"


@pytest.mark.parametrize("name", ["C2", "D7"])
def test_a_busy_machine_takes_the_speeds_away_and_leaves_the_verdict(name, cluster2, monkeypatch, raced):
    gets_on(monkeypatch)
    trial = claims.trial(name)
    quiet = trial.run(lambda size: cluster2)
    monkeypatch.setattr(timing_noise.ThresholdLine, "share", lambda _: 0.2)
    busy = trial.run(lambda size: cluster2)
    assert (busy.verdict, busy.facts) == (quiet.verdict, quiet.facts)
    assert busy.timings == {"two workers beside one": "not timed, the machine is too busy"}


@pytest.mark.skipif(not threads._is_locked(), reason="this Python has no interpreter lock")
def test_a_thread_stands_still_beside_python_and_gets_on_beside_an_operator():
    switch_s = sys.getswitchinterval()
    assert not turn_taking.threads_get_on(beside_operator=False)
    assert turn_taking.threads_get_on(beside_operator=True)
    assert sys.getswitchinterval() == switch_s


def test_a_process_gets_on_beside_python(cluster2):
    assert turn_taking.processes_get_on(cluster2)


def test_a_thread_is_seen_to_get_on_where_the_lock_is_given_away(monkeypatch):
    """As on a build without a lock: what stays in Python gives the lock away now and then."""
    monkeypatch.setattr(turn_taking, "_stay_in_python", lambda: turn_taking.time.sleep(turn_taking._IN_PYTHON_S))
    assert turn_taking.threads_get_on(beside_operator=False)


@pytest.mark.parametrize(("counts", "got_on"), [([1, 1, 1, 2], True), ([1, 1, 1, 1], False)])
def test_to_get_on_in_one_try_of_some_is_enough(counts, got_on):
    left = list(counts)
    assert turn_taking._gets_on(lambda: left.pop(0), lambda: None, 2) == got_on


def test_peaks_are_reset_when_something_is_on_the_gpus(monkeypatch):
    """With the CPU in place of two GPUs, whose allocator knows no device before the first tensor, as PyTorch's."""
    moved = []

    def reset(gpu):
        if not moved:
            raise RuntimeError(f"Invalid device argument {gpu}: did you call init?")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset)
    for name in ("memory_allocated", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda gpu: 2 - gpu)
    monkeypatch.setattr(torch.nn.Module, "cuda", lambda self: moved.append(self) or self)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    small = threads.mlp
    monkeypatch.setattr(threads, "mlp", lambda width: small())
    assert claims.trial("D6").function(lambda size: None).verdict == "holds"
