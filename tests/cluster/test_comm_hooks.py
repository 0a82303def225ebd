"""The one place at which waits are heard: in which order, what an error and an interrupt leave."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from course_lib.cluster.hooks import comm_hooks


class Notes:
    """A subscriber that writes down what it hears; ``cut`` raises in the middle of it, as an interrupt may."""

    def __init__(self, name, heard, cut=""):
        self.name, self.heard, self.cut = name, heard, cut

    def _note(self, what):
        self.heard.append(f"{self.name} {what}")
        if self.cut == what:
            raise KeyboardInterrupt

    def wait_started(self, work):
        self._note("started")
        return f"token of {self.name}"

    def wait_ended(self, work, started, error):
        assert started == f"token of {self.name}"
        self._note("ended" if error is None else f"ended by {type(error).__name__}")


class FakeWork:
    def __init__(self, error=None):
        self.error = error

    def wait(self):
        if self.error:
            raise self.error
        return "done"


def heard_of(*subscribers, error=None):
    wait = comm_hooks._hooked(FakeWork.wait)
    before, comm_hooks._wait_subscribers = comm_hooks._wait_subscribers, subscribers
    try:
        return wait(FakeWork(error))
    except BaseException as raised:
        return type(raised).__name__
    finally:
        comm_hooks._wait_subscribers = before


def test_the_newest_hears_the_beginning_first_and_the_end_last():
    heard = []
    assert heard_of(Notes("old", heard), Notes("new", heard)) == "done"
    assert heard == ["new started", "old started", "old ended", "new ended"]


def test_all_hear_of_an_error():
    heard = []
    assert heard_of(Notes("old", heard), Notes("new", heard), error=RuntimeError("gone")) == "RuntimeError"
    assert heard[2:] == ["old ended by RuntimeError", "new ended by RuntimeError"]


def test_an_interrupt_while_one_is_told_keeps_no_other_from_its_end():
    for cut, rest in (
        ("ended", ["old ended", "new ended by KeyboardInterrupt"]),
        ("started", ["new ended by KeyboardInterrupt"]),
    ):
        heard = []
        assert heard_of(Notes("old", heard, cut=cut), Notes("new", heard)) == "KeyboardInterrupt"
        assert heard[2:] == rest


def stands_nowhere(me):
    """An end of a wait that was cut short is over when the next call begins."""
    from course_lib.cluster.hooks import op_tracker

    tracker = op_tracker._here
    import threading

    thread = threading.get_ident()
    tracker.wait_started(dist.all_reduce(torch.ones(1), async_op=True))
    was = tracker.waits_for(thread)[0]
    tracker.open_page()
    return was, tracker.waits_for(thread)[0]


def test_a_wait_that_was_cut_short_is_over_when_the_next_call_begins(cluster2):
    assert list(cluster2.call(stands_nowhere, show=False)) == [(True, False)] * 2


@pytest.fixture
def nobody_listens(monkeypatch):
    """A ``watchdog`` that another test used in this process stays for its life, and would be the last to leave."""
    from torch._C._distributed_c10d import Work

    if comm_hooks._plain_wait is not None:
        monkeypatch.setattr(Work, "wait", comm_hooks._plain_wait)
    monkeypatch.setattr(comm_hooks, "_plain_wait", None)
    monkeypatch.setattr(comm_hooks, "_wait_subscribers", ())


def test_torch_has_its_own_wait_again_when_the_last_has_left(nobody_listens):
    from torch._C._distributed_c10d import Work

    plain, notes = Work.wait, Notes("one", [])
    comm_hooks.subscribe_waits(notes)
    assert Work.wait is not plain
    comm_hooks.unsubscribe_waits(notes)
    assert Work.wait is plain
