"""What another thread is about to let go of is no part of a peak, however late the scheduler lets it run."""

from __future__ import annotations

import hashlib
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from course_lib.cluster.base.failure import Frame
from course_lib.cluster.base.stack_of_thread import stack_of
from course_lib.meter import MemoryLedger
from course_lib.meter.memory import other_threads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which threads sleep")


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """The thread of a test computes for as long as the machine's other work wants."""
    monkeypatch.setattr(other_threads, "_AT_MOST_S", 100.0)


@contextmanager
def thread_that_lets_go_late(held, name="pt_gloo_runloop"):
    """It computes with Python's lock free, as gloo does, lets go of what it holds, and sleeps until the end."""
    computes, may_end = threading.Event(), threading.Event()

    def work():
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name)
        computes.set()
        hashlib.pbkdf2_hmac("sha256", b"gloo", b"thread", 400_000)
        held.clear()
        may_end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    computes.wait()
    try:
        yield
    finally:
        may_end.set()
        thread.join()


def test_a_peak_waits_for_what_a_thread_of_gloo_is_about_to_free():
    with MemoryLedger() as ledger:
        held = [torch.zeros(1000)]
        with thread_that_lets_go_late(held):
            torch.zeros(500)
    assert ledger.peak().total_bytes == 4000


def test_nobody_waits_for_a_thread_of_somebody_else():
    before = other_threads._gloo_threads()
    with thread_that_lets_go_late([], "somebody"):
        assert other_threads._gloo_threads() == before


def test_now_waits_too():
    with MemoryLedger() as ledger:
        held = [torch.zeros(1000)]
        with thread_that_lets_go_late(held):
            assert ledger.now().total_bytes == 0


def test_a_thread_that_computes_on_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(other_threads, "_sleeps", lambda thread: False)
    monkeypatch.setattr(other_threads, "_AT_MOST_S", 0.01)
    with thread_that_lets_go_late([]):
        other_threads.settle()


def test_where_the_system_does_not_tell_nobody_waits(monkeypatch):
    monkeypatch.setattr(other_threads, "_sleeps", lambda thread: pytest.fail("asked for a thread"))
    with thread_that_lets_go_late([]):
        monkeypatch.setattr(sys, "platform", "darwin")
        other_threads.settle()
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.setattr("os.listdir", lambda path: (_ for _ in ()).throw(OSError("no /proc")))
        other_threads.settle()


def test_a_thread_that_is_gone_holds_nothing():
    assert other_threads._sleeps("0")


class SlowFrame:
    """Of a function that has returned; it holds a tensor, and the walk to its caller takes a while."""

    f_lineno, f_code = 1, SimpleNamespace(co_filename="somewhere.py", co_name="returned")

    def __init__(self, tensor, is_read):
        self.tensor, self.is_read = tensor, is_read

    @property
    def f_back(self):
        self.is_read.set()
        hashlib.pbkdf2_hmac("sha256", b"stack", b"reader", 400_000)


def test_a_peak_waits_for_who_reads_the_stack(monkeypatch):
    is_read, stacks = threading.Event(), []
    with MemoryLedger() as ledger:
        frames = {1: SlowFrame(torch.zeros(1000), is_read)}
        monkeypatch.setattr(sys, "_current_frames", lambda: {1: frames.pop(1)})
        reader = threading.Thread(target=lambda: stacks.append(stack_of(1)))
        reader.start()
        is_read.wait()
        torch.zeros(500)
    reader.join()
    assert ledger.peak().total_bytes == 4000
    assert stacks == [(Frame("somewhere.py", 1, "returned"),)]
