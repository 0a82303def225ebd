"""The race of threads against processes: who does what part. Never how fast: that is for ``course bench``."""

from __future__ import annotations

import sys
import threading

import pytest
import torch
from torch import nn

from course_lib.parallel.data import Race, interpreter_lock, threads_or_processes

SEEN: list[tuple[str, tuple[int, ...], bool]] = []


class Noting(nn.Module):
    """Notes who called it, with which rows, and whether that was recorded."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x):
        y = x * self.weight
        SEEN.append((threading.current_thread().name, tuple(x.flatten().int().tolist()), y.requires_grad))
        return y


def build():
    return Noting(), torch.arange(5.0).view(5, 1)


@pytest.mark.parametrize("backward", [True, False])
def test_everybody_takes_the_same_batch(cluster2, backward):
    SEEN.clear()
    cores = torch.get_num_threads()
    race = threads_or_processes(cluster2, build, backward=backward, steps=2, rounds=3)
    assert torch.get_num_threads() == cores
    assert race.num_workers == 2
    assert [len(times) for times in (race.one_s, race.threads_s, race.processes_s)] == [3, 3, 3]
    who = {rows: {name for name, seen, _ in SEEN if seen == rows} for _, rows, _ in SEEN}
    assert who.keys() == {(0, 1, 2, 3, 4), (0, 1, 2), (3, 4)}
    assert {recorded for _, _, recorded in SEEN} == {backward}
    assert not who[0, 1, 2] & who[3, 4], "each part has a thread of its own"
    assert threading.current_thread().name not in set().union(*who.values())


def test_speed_ups_compare_the_fastest_rounds():
    race = Race(2, (4.0, 8.0, 5.0), (9.0, 16.0, 8.0), (2.0, 4.0, 4.0))
    assert (race.threads_speed_up, race.processes_speed_up) == (0.5, 2.0)


def test_too_few_steps_are_refused(cluster2):
    with pytest.raises(ValueError, match="steps=0 and rounds=3 must each be at least 1"):
        threads_or_processes(cluster2, build, steps=0, rounds=3)


@pytest.mark.parametrize(("enabled", "word"), [(True, "on"), (False, "off")])
def test_the_lock_is_asked_of_the_interpreter(monkeypatch, enabled, word):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: enabled, raising=False)
    assert interpreter_lock() == word
