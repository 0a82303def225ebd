"""Interrupts, at any moment of any call: the next call works, and nothing is left of what was cut off.

``COURSE_INTERRUPTS=1000`` tries more moments than CI does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_lib.cluster import Cluster, RankInterrupted
from course_lib.cluster.api.supervisor import Supervisor
from course_lib.cluster.base import temp_dirs
from course_lib.cluster.process.defer_interrupt import deferred_interrupts

TRIALS = Path(__file__).resolve().parents[1] / "support" / "interrupt_trials.py"
COUNT = int(os.environ.get("COURSE_INTERRUPTS", "15"))
pytestmark = pytest.mark.limit_s(120.0 + 3 * COUNT)


@pytest.mark.long
@pytest.mark.parametrize("seed", [time.time_ns() % 1000 if COUNT > 15 else 7])
def test_after_an_interrupt_at_any_moment_the_next_call_works(tmp_path, seed):
    done = subprocess.run(
        [sys.executable, str(TRIALS), str(COUNT), str(seed)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{COUNT} trials" in done.stdout
    assert "Traceback" not in done.stderr, done.stderr
    assert not list(tmp_path.glob("ranks-*"))


# -- moments that chance finds seldom -----------------------------------------------------------------------------


def test_an_answer_to_a_call_that_was_cut_off_is_not_taken_for_the_next_ones(monkeypatch):
    """The interrupt comes when the request is out, and before anybody waits for the answers."""
    with Cluster(2, timeout_s=20) as cluster:
        cluster.cell("kept = rank", show=False)  # so that the ranks stay

        plain, cuts = Supervisor.collect, [KeyboardInterrupt()]

        def cut(*args, **kwargs):
            if cuts:
                raise cuts.pop()
            return plain(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(Supervisor, "collect", cut)
            with pytest.raises(KeyboardInterrupt):
                cluster.run(lambda me: "of the first call")
        for number in range(3):
            assert list(cluster.run(lambda me, n: n, number)) == [number, number]


def test_a_second_interrupt_right_after_the_first_leaves_no_answer_behind(monkeypatch):
    with Cluster(2, timeout_s=20) as cluster:
        cluster.run(lambda me: None)

        def cut(*args, **kwargs):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Supervisor, "collect", cut)
            patch.setattr(Cluster, "_interrupted", cut)
            with pytest.raises(KeyboardInterrupt):
                cluster.run(lambda me: "of the first call")
        for number in range(3):
            assert list(cluster.run(lambda me, n: n, number)) == [number, number]


@pytest.mark.parametrize("with_variables", [False, True])
def test_an_interrupt_after_the_answers_leaves_no_rank_stuck_for_the_next_call(monkeypatch, capsys, with_variables):
    """The call has failed, rank 1 stands in a collective, and the interrupt comes while the ranks' text is shown."""
    from course_lib.cluster.api import cluster as cluster_module

    def fail(me):
        import torch
        import torch.distributed as dist

        if me.rank:
            dist.all_reduce(torch.ones(1))
        raise ValueError("a slip")

    with Cluster(2, timeout_s=20) as cluster:
        if with_variables:
            cluster.cell("kept = rank", show=False)

        def cut(text):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(cluster_module, "in_rank_order", cut)
            with pytest.raises(KeyboardInterrupt):
                cluster.run(fail)
        assert list(cluster.run(lambda me: me.rank)) == [0, 1]
    told = "the variables of your %%ranks cells with them: run those cells again" in capsys.readouterr().out
    assert told is with_variables


def test_a_team_that_was_never_wholly_started_is_not_used(monkeypatch):
    cluster, before = Cluster(2, timeout_s=20), dict(temp_dirs._held)  # of other tests' ranks

    def cut(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Supervisor, "collect", cut)
        with pytest.raises(KeyboardInterrupt):
            cluster.run(lambda me: me.rank)
    assert temp_dirs._held == before
    assert list(cluster.run(lambda me: me.rank)) == [0, 1]
    cluster.close()


def test_an_interrupt_while_ranks_start_is_told_and_leaves_none(monkeypatch):
    from course_lib.cluster.api.team import Team

    started, teams = Team.start, []

    def cut(team):
        teams.append(team)
        started(team)
        raise KeyboardInterrupt

    with Cluster(2) as cluster:
        monkeypatch.setattr(Team, "start", cut)
        with pytest.raises(RankInterrupted, match="while the ranks were starting"):
            cluster.run(square)
        monkeypatch.undo()
        assert not teams[0].is_complete
        assert list(cluster.run(square)) == [0, 1]


def square(me):
    return me.rank**2


def test_an_interrupted_call_is_told_as_one():
    with Cluster(2, timeout_s=20) as cluster:
        cluster.run(lambda me: None)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        before = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        try:
            with pytest.raises(RankInterrupted, match="interrupted; the 2 ranks have been stopped"):
                cluster.run(lambda me: time.sleep(30))
        finally:
            signal.signal(signal.SIGALRM, before)


# -- held back ----------------------------------------------------------------------------------------------------


def interrupt_me() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_is_held_back_until_the_block_is_over():
    before, done = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with deferred_interrupts():
            with deferred_interrupts():
                interrupt_me()
                done.append("inner")
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_goes_through_where_the_block_hangs(monkeypatch):
    from course_lib.cluster.process import defer_interrupt

    monkeypatch.setattr(defer_interrupt, "_MAX_DEFER_S", 0.0)
    done = []

    def work() -> None:
        with deferred_interrupts():
            interrupt_me()
            done.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert not done


def test_an_ignored_interrupt_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred_interrupts():
            interrupt_me()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
