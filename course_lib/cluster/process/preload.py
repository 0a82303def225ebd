"""What the fork server imports once, so that no rank has to.

``torch._dynamo`` is here because the first optimizer step imports it (0.8 s in every rank otherwise); the others
because a lesson uses them. Nothing here touches CUDA: a process that has cannot be forked.

It happens beside the notebook, while the learner reads: so it prints nothing, leaves an interrupt to the notebook, and
ends when the notebook has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from types import FrameType

__all__ = ["MODULES", "load"]

MODULES = (
    "torch",
    "torch.distributed",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "torch.distributed.pipelining",
    "torch.distributed.checkpoint",
    "torch.distributed.checkpoint._fsspec_filesystem",  # which every save and load asks for
    "torch.utils.data",
    "numpy",
    "cloudpickle",
    "course_lib.cluster.process.rank_process",
    "course_lib.cluster.links.emulation",
    "course_lib.meter.communication.recorder",  # from here on, what the trial of an answer needs in each rank
    "course_lib.learn.judging.judge",
    "course_lib.learn.checks.preload",
)


def load(modules: tuple[str, ...] = MODULES) -> None:
    """Import them. What cannot be imported is left to the rank that needs it, which can say why."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # ask the driver, open no context
    owner = os.getppid() if hasattr(os, "getppid") else 0
    with _in_silence(), _without_collector(), _deaf_to_interrupts():
        for name in modules:
            if owner and os.getppid() != owner:
                os._exit(0)  # the notebook is gone: nobody will ask for ranks
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        with contextlib.suppress(ImportError):
            from course_lib.cluster.state import monkeypatch_guard

            monkeypatch_guard.remember()  # what names stand for, before any function of a person has run
    _adopt_orphans()
    gc.freeze()  # the collector then leaves these objects alone, and their memory pages stay shared between ranks
    # At the end it must find them: Triton 3.9, which comes with CUDA builds of torch 2.15, says on standard error of
    # every object of its own that is left over that it has leaked.
    atexit.register(gc.unfreeze)


def _adopt_orphans() -> None:
    """What ranks have started comes to the fork server when they die, and ends with it, if not before."""
    if not _is_fork_server():
        return
    with contextlib.suppress(ImportError):
        from course_lib.cluster.process.descendants import adopt

        adopt()
        warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")
        atexit.register(_end_orphans, os.getpid())


def _is_fork_server() -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and frame.f_globals.get("__name__") == "multiprocessing.forkserver":
            return True
        frame = frame.f_back
    return False


def _end_orphans(server_pid: int) -> None:
    from course_lib.cluster.process.descendants import end_below

    if os.getpid() == server_pid:  # and not a fork, which has its exit handlers too
        end_below(server_pid)


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Imports make objects to keep; a fifth of their time would go into looking for some to throw away."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def _in_silence() -> Iterator[None]:
    """Send what is printed, by C++ too, nowhere: it would land in the cell that the learner reads."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a process without standard output has nothing to silence
            nowhere = os.open(os.devnull, os.O_WRONLY)
            stack.callback(os.close, nowhere)
            for number in (1, 2):
                kept = os.dup(number)
                stack.callback(os.close, kept)
                stack.callback(os.dup2, kept, number)
                os.dup2(nowhere, number)
        yield


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Jupyter's interrupt reaches every process of the notebook's group, and would end an import half-way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):  # `processes` has held interrupts back; one that waits is dropped here
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


load()
