"""The life of one rank: a process that waits for work, does it, answers, and never writes to the terminal."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from course_lib.base.clock import keep_time_with
from course_lib.cluster.base.failure import describe
from course_lib.cluster.base.process_group import RankConfig, join, leave
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.failures.flight_recorder import groups_begin_anew
from course_lib.cluster.failures.rank_status import StatusThread
from course_lib.cluster.hooks.op_tracker import OpTracker
from course_lib.cluster.leaks import shared_memory
from course_lib.cluster.leaks.collect import LeakCollector, RankLeaks
from course_lib.cluster.links.links import Shape
from course_lib.cluster.links.toggle import ShapeSwitch
from course_lib.cluster.process import cell
from course_lib.cluster.process.caller_context import Context, apply
from course_lib.cluster.process.descendants import adopt, end_below, end_strays
from course_lib.cluster.process.interruption import Interrupted, InterruptSignal
from course_lib.cluster.process.output_capture import Catcher
from course_lib.cluster.process.serialization import NotSendable, Payload, pack, unpack
from course_lib.cluster.state import monkeypatch_guard, random_state
from course_lib.cluster.state.process_state import ProcessState

__all__ = ["Interrupted", "current_rank", "serve"]

Answer = tuple[str, Any, str, RankLeaks | None]
_SETTLE_S = 0.3  # for what a function has left under way to end by itself

_NOTHING = Payload((4,), (b"\x80\x05N.",), None)  # None, pickled
_here: Rank | None = None  # set once, when this process becomes a rank


def current_rank() -> Rank | None:
    """This process's ``Rank``, or None in the notebook: so that a rank can refuse to start ranks."""
    return _here


def serve(config: RankConfig, context: Context, work: Connection, watch: Connection) -> None:
    """Run on a fresh process: join the others, then answer requests until told to close. Never returns."""
    keep_time_with(config.clock_behind_s)
    _become_own_group()
    adopt()
    _let_the_server_go()
    try:
        catcher = Catcher(config.folder / f"text-{config.rank}")
    except FileNotFoundError:  # the folder has gone: this rank was given up before it began
        _end()
    stacks = open(config.folder / f"stacks-{config.rank}", "w")  # noqa: SIM115 - faulthandler needs it open
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    shared_memory.install(config.folder, config.rank)
    tracker = OpTracker()
    status_thread = StatusThread(config.rank, tracker)
    threading.Thread(target=status_thread.answer_questions, args=(watch,), daemon=True).start()
    worker = _Worker(config, catcher, status_thread, tracker)
    work.send(worker.start(context))
    while True:
        try:
            kind, *details = work.recv()
        except (EOFError, OSError):
            _end()
        if kind == "close":
            worker.close()
            _end()
        if kind == "keep_time":
            keep_time_with(*details)
            continue
        answer = getattr(worker, kind)(*details)
        try:
            work.send(answer)
        except OSError:  # nobody is there to read it
            _end()


class _Worker:
    """What a rank can be asked. Each answer is ("done" | "failed", a payload or a ``Failure``, the text printed, and
    what the call has left on this rank).
    """

    def __init__(self, config: RankConfig, catcher: Catcher, status_thread: StatusThread, tracker: OpTracker) -> None:
        self._config, self._catcher, self._status_thread = config, catcher, status_thread
        self._pid = os.getpid()
        self._interrupt = InterruptSignal()
        self._namespace: dict[str, Any] = {}  # of the cells
        self._me: Rank | None = None
        self._switch = ShapeSwitch(config)
        self._tracker, self._gatherer = tracker, LeakCollector(tracker)
        self._state: ProcessState | None = None  # from the moment that all is as a function shall find it

    def start(self, context: Context) -> Answer:
        def begin() -> None:
            self._tracker.install()
            self._join(0)
            monkeypatch_guard.accept()  # what listens from here on is our own
            random_state.seed_all(self._config.seed)
            self._state = ProcessState()

        return self._answer(begin, context)

    def reset(self, generation: int) -> Answer:
        """Leave the process group and meet the others in a new one; the namespace of the cells stays."""

        def move() -> None:
            leave()
            self._join(generation)

        return self._answer(move)

    def run(self, payload: Payload, context: Context | None, env: dict[str, str] | None) -> Answer:
        """Call the function in ``payload``, which holds (function, args, kwargs)."""

        def call() -> Any:
            function, args, kwargs = unpack(payload)
            with _added_to_environment(env or {}), self._interrupt.allowed(), self._switch.work():
                value = function(copy.copy(self._me), *args, **kwargs)  # whatever a function does to its own
                _finish_device(self._me)
            return value

        return self._answer(call, context, tidy=True)

    def cell(self, source: str, number: int, context: Context | None) -> Answer:
        """Run the text of a cell in the lasting namespace; its value is the ``repr`` of the last expression."""

        def execute() -> Any:
            cell.fill(self._namespace, self._me)
            with self._interrupt.allowed(), self._switch.work():
                shown = cell.run(source, self._namespace, number=number)
                _finish_device(self._me)
            return shown

        return self._answer(execute, context, of_cells=True)

    def settle(self) -> Answer:
        """Give what the last call has left in flight a moment to end, and look again."""
        self._gatherer.settle(_SETTLE_S)
        return "done", _NOTHING, self._catcher.take(), self._leaks(with_threads=True)

    def name_groups_from(self, number: int) -> Answer:
        return self._answer(lambda: self._tracker.names.go_on_from(number))

    def push(self, payload: Payload, context: Context | None) -> Answer:
        return self._answer(lambda: self._namespace.update(unpack(payload)), context)

    def pull(self, name: str) -> Answer:
        cell.fill(self._namespace, self._me)
        return self._answer(lambda: cell.value_of(name, self._namespace))

    def close(self) -> None:
        """Say goodbye. A gloo group ends with its process: destroying it costs 35 ms and can meet a live DDP object."""
        if self._me is not None and self._me.backend != "gloo":
            self._namespace.clear()
            with contextlib.suppress(Exception):
                leave()

    def _join(self, generation: int) -> None:
        global _here
        me = join(self._config, generation=generation)
        if generation:
            groups_begin_anew()
        with monkeypatch_guard.accepted():
            self._switch.renew()
        self._me = _here = self._switch.shaped(me)
        self._gatherer.remember_world()

    def _use(self, shape: Shape | None) -> None:
        global _here
        if shape != self._switch.shape:
            with monkeypatch_guard.accepted():
                self._switch.use(shape)
        if self._me is not None:
            self._me = _here = self._switch.shaped(self._me)

    def _answer(
        self, do: Callable[[], Any], context: Context | None = None, *, tidy: bool = False, of_cells: bool = False
    ) -> Answer:
        rank, restored = self._config.rank, ()
        answer: tuple[str, Any]
        try:
            self._begin(context, tidy=tidy, of_cells=of_cells)
            try:
                value = do()
            finally:  # before all else: our own code would meet what the function has changed
                restored = self._restore()
            answer = ("done", pack(value, folder=self._config.folder, what=f"the result of rank {rank}"))
        except NotSendable as error:
            answer = ("failed", describe(error, rank=rank, kind="unsendable"))
        except Interrupted as error:
            answer = ("failed", describe(error, rank=rank, kind="interrupted"))
        except BaseException as error:  # SystemExit too: a rank ends when its cluster says so
            answer = ("failed", describe(error, rank=rank))
        if os.getpid() != self._pid:  # a fork that came back from the function: the rank itself answers
            self._catcher.flush()
            os._exit(0)
        if tidy:
            restored += end_strays() + shared_memory.remove_left()
        leaks = self._leaks(with_threads=tidy, restored=restored)
        if not self._config.process_group:
            # The group that the function made itself; its frames are gone by now.
            leave(has_failed=answer[0] == "failed")
        kind, content = answer
        return kind, content, self._catcher.take(), leaks

    def _begin(self, context: Context | None, *, tidy: bool, of_cells: bool) -> None:
        """Make everything as the call shall find it, and count from here."""
        state = self._state
        if state is not None and tidy and state.enter_run():
            self._gatherer.keep_threads()
            state.expect_restored()
        if state is not None and of_cells:
            state.enter_cells()
        if context is not None:
            apply(context, self._config)
            self._use(context.shape)
            if state is not None:
                state.rebase()
        if not tidy:
            self._gatherer.keep_threads()
        self._gatherer.begin()
        self._status_thread.mark_call()

    def _restore(self) -> tuple[str, ...]:
        return self._state.tidy() if self._state is not None else ()

    def _leaks(self, *, with_threads: bool, restored: tuple[str, ...] = ()) -> RankLeaks | None:
        """What the call has left here, and what of it could be put back."""
        return self._gatherer.gather_any(
            own_group=not self._config.process_group,
            with_threads=with_threads,
            restored=tuple(dict.fromkeys(restored + self._restore())),  # to pack a result may change things too
            is_restored=self._state is None or self._state.is_restored,
        )


@contextlib.contextmanager
def _added_to_environment(env: dict[str, str]) -> Iterator[None]:
    """What leads ``env://`` to the store of this call, for as long as the call lasts."""
    before = {name: os.environ.get(name) for name in env}
    os.environ.update(env)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is not None:
                os.environ[name] = value
            else:
                os.environ.pop(name, None)


def _become_own_group() -> None:
    """Lead a process group, so that children started here end with us; die when the fork server does."""
    os.setsid()
    if sys.platform == "linux":
        set_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def _let_the_server_go() -> None:
    """Close the copy of the pipe by which the fork server sees that the notebook lives.

    Every rank gets one. While any is open the server stays, and with it a rank that cannot notice by itself that
    the notebook is gone: one that is stopped, or inside C code that holds Python's lock.
    """
    from multiprocessing import forkserver

    server = getattr(forkserver, "_forkserver", None)
    alive = getattr(server, "_forkserver_alive_fd", None)
    if server is not None and alive is not None:
        os.close(alive)
        server._forkserver_alive_fd = None


def _end() -> NoReturn:
    """End this process and all that its functions have started; no destructor may block that."""
    end_below(os.getpid())
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def _finish_device(me: Rank | None) -> None:
    """Wait for the GPU, so that an error of a kernel belongs to the call that launched it."""
    if me is not None and me.device.type == "cuda":
        import torch

        torch.cuda.synchronize(me.device)
