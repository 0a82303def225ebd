"""Whoever ends a command from outside ends it as Ctrl-C does."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from waiting import wait_until

from course_lib.base.signals import ended_as_by_ctrl_c


def ended_by(number: int) -> None:
    with ended_as_by_ctrl_c():
        os.kill(os.getpid(), number)
        time.sleep(60.0)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_it_is_an_interrupt_and_afterwards_what_it_was(name: str) -> None:
    number = getattr(signal, name)
    before = signal.signal(number, signal.SIG_DFL)  # the tests themselves may run under nohup
    try:
        with pytest.raises(KeyboardInterrupt):
            ended_by(number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("ignored", [signal.SIG_IGN, signal.SIG_DFL])
def test_it_is_one_too_where_ctrl_c_is_not_heard(ignored: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, ignored)
    try:
        with pytest.raises(KeyboardInterrupt):
            ended_by(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)


def test_whoever_hears_ctrl_c_hears_it() -> None:
    """As asyncio does, which cancels its tasks first."""
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with ended_as_by_ctrl_c():
            os.kill(os.getpid(), signal.SIGTERM)
            wait_until(lambda: heard, "the signal is heard")
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


def test_under_nohup_a_closed_terminal_ends_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_as_by_ctrl_c():
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.01)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_may_use_it() -> None:
    went = []

    def work() -> None:
        with ended_as_by_ctrl_c():
            went.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert went
