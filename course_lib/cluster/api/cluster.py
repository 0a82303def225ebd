"""``Cluster``: N ranks that work. Call functions on all of them; get results, text and honest failures."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from course_lib.cluster.api.arguments import (
    MOST_RANKS,
    MOST_THREADS,
    check_call,
    checked_env,
    checked_int,
    checked_ranks,
    checked_timeout,
    on_or_off,
    pack_call,
    refuse_inside_a_rank,
    text,
)
from course_lib.cluster.api.placement import choose_layout
from course_lib.cluster.api.rendezvous_store import open_rendezvous_store
from course_lib.cluster.api.supervisor import CallOutcome
from course_lib.cluster.api.team import Team
from course_lib.cluster.api.team_lifecycle import TeamLifecycle
from course_lib.cluster.failures.errors import RankError, RankFailed, RankInterrupted, RankTimeout, first_failure
from course_lib.cluster.failures.report import interrupted_story
from course_lib.cluster.failures.run import Run, in_rank_order, leaks_in_words, say
from course_lib.cluster.leaks.compare import LeakReport
from course_lib.cluster.links.links import Links, shape_of
from course_lib.cluster.process import processes
from course_lib.cluster.process.serialization import NotSendable, pack, unpack_all

__all__ = ["Cluster"]

_UNSET: Any = object()
_REPLACED = "New ranks replace these, so the next call finds nothing of it."
_ENDED = "Ranks had to be ended, and the variables of your %%ranks cells with them: run those cells again."
_MET_ANEW = "The ranks kept their variables and made a new process group, so the next call finds nothing of it."


class Cluster:
    """``world_size`` processes that form one process group and stay up between calls.

    ::

        def hello(me: Rank, greeting):
            return f"{greeting} from rank {me.rank}"

        with Cluster(4) as cluster:
            run = cluster.run(hello, "good morning")
        run[2]          # what rank 2 returned
        run.text[2]     # what rank 2 printed

    ``timeout_s`` ends a call that hangs (None: never); standing in line for a core and importing do not count.
    ``backend`` is "auto", "gloo", "nccl" or "nccl-shared" (several ranks on one GPU, an experiment). ``env`` adds
    environment variables. ``debug`` turns on PyTorch's check that all ranks call the same collective. With
    ``process_group=False`` the function makes the group itself, as a script under torchrun does:
    ``init_process_group("gloo")``; its store is a port on loopback, whose keys other users of the machine can read and
    set, as under torchrun. ``links`` shapes latency and bandwidth between ranks, which then sit on the CPU: ``Links()``
    does no more. ``slow={3: 2.0}``: rank 3 computes at half speed. ``nodes``: over so many of those that `course nodes
    up` has started; all where it is not said. An error names the variables that it cost; the next call works.
    """

    def __init__(
        self,
        world_size: int,
        *,
        timeout_s: float | None = 60.0,
        backend: str = "auto",
        env: Mapping[str, object] | None = None,
        num_threads: int = 1,
        debug: bool = False,
        process_group: bool = True,
        links: Links | None = None,
        slow: Mapping[int, float] | None = None,
        nodes: int | None = None,
    ) -> None:
        refuse_inside_a_rank()
        self.world_size = checked_int(world_size, "world_size", most=MOST_RANKS)
        self.timeout_s = checked_timeout(timeout_s)
        num_threads = checked_int(num_threads, "num_threads", most=MOST_THREADS)
        layout, num_threads = choose_layout(
            self.world_size, nodes=nodes, backend=backend, has_links=links is not None, num_threads=num_threads
        )
        self._settings = {
            "num_threads": num_threads,
            "debug": on_or_off(debug, "debug"),
            "process_group": on_or_off(process_group, "process_group"),
            "env": checked_env(env),
        }
        self._lifecycle = TeamLifecycle(layout, self._settings)
        self._shape = self._shape_of(links, slow)
        self._lock = threading.RLock()
        self._is_closed, self._num_cells = False, 0
        self.made_with: Mapping[str, Any] = {}  # what a shared cluster was asked to be
        self.is_on_nodes = layout.nodes is not None
        if not self.is_on_nodes:
            processes.warm()

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Run:
        """Call ``function(me, *args, **kwargs)`` on every rank, where ``me`` is the ``Rank``.

        Prints what the ranks printed, in rank order. Raises ``RankFailed`` or ``RankTimeout`` (both ``RankError``)
        with the story of what happened, and ``NotSendable`` for an argument that cannot travel.
        """
        return self.call(function, args, kwargs)

    def call(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = _UNSET,
        show: bool = True,
    ) -> Run:
        """``run`` with options of this one call: its deadline, and whether the ranks' text is printed."""
        check_call(function, args, kwargs)
        limit_s = self.timeout_s if timeout_s is _UNSET else checked_timeout(timeout_s)
        with self._lock, contextlib.ExitStack() as stack:
            team = self._ready_team()
            payload = pack_call(function, tuple(args), dict(kwargs or {}), team.folder)
            stack.callback(payload.discard)
            has_group = self._settings["process_group"]  # else it makes its own, by this store
            layout = self._lifecycle.layout
            _store, env = (None, None) if has_group else open_rendezvous_store(self.world_size, layout)
            return self._ask(
                range(self.world_size), "run", payload, team.new_context(), env, timeout_s=limit_s, show=show
            )

    def cell(
        self,
        source: str,
        *,
        only: Sequence[int] | None = None,
        timeout_s: float | None = _UNSET,
        show: bool = True,
    ) -> Run:
        """Run the text of a cell on every rank (or ``only`` some) in a namespace that lasts from cell to cell.

        ``run[rank]`` is the ``repr`` of the last expression there, or None.
        """
        limit_s = self.timeout_s if timeout_s is _UNSET else checked_timeout(timeout_s)
        source, asked = text(source, "source"), checked_ranks(only, self.world_size)
        with self._lock:
            team = self._ready_team()
            team.keeps_variables = True
            self._num_cells += 1
            request = ("cell", source, self._num_cells, team.new_context())
            return self._ask(asked, *request, timeout_s=limit_s, show=show)

    def push(self, **variables: Any) -> None:
        """Put variables into the namespace of the cells, on every rank."""
        with self._lock, contextlib.ExitStack() as stack:
            team = self._ready_team()
            team.keeps_variables = True
            for name, value in variables.items():  # one by one, so that an error names its variable
                pack(value, folder=team.folder, what=f"variable {name!r}").discard()
            payload = pack(variables, folder=team.folder, what="the variables")
            stack.callback(payload.discard)
            self._ask(range(self.world_size), "push", payload, team.new_context(), timeout_s=self.timeout_s)

    def pull(self, name: str) -> Run:
        """The value of a variable of the cells, from every rank."""
        with self._lock:
            self._ready_team()
            return self._ask(range(self.world_size), "pull", text(name, "name"), timeout_s=self.timeout_s)

    @contextlib.contextmanager
    def shaped(self, *, links: Links | None = None, slow: Mapping[int, float] | None = None) -> Iterator[Cluster]:
        """In this block: these links and slow ranks, in place of those that the cluster was made with.

        Links are shaped on this machine's CPU: for ranks elsewhere others stand in, without their variables.
        """
        before = self._shape, self._lifecycle
        self._lifecycle = self._lifecycle.on_cpu() if links is not None else self._lifecycle
        try:
            self._shape = self._shape_of(links, slow)
            yield self
        finally:
            self._shape, self._lifecycle = before

    def renew(self) -> None:
        """End the ranks with all that they hold, variables of cells too; the next call starts new ones."""
        with self._lock:
            self._lifecycle.drop()

    def close(self) -> None:
        """End the ranks. Safe to repeat."""
        with self._lock:
            self._is_closed = True
            self._lifecycle.close()

    @property
    def has_variables(self) -> bool:
        """Whether cells have left variables on the ranks that are up now."""
        return self._team is not None and self._team.keeps_variables

    @property
    def is_closed(self) -> bool:
        return self._is_closed or self._lifecycle.layout.is_lost

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "up" if self._team else "not started yet"
        ranks = self._lifecycle.layout.devices
        devices = ", ".join(sorted({rank_device.device for rank_device in ranks}))
        return f"Cluster({self.world_size}) on {devices} by {ranks[0].backend}: {state}"

    @property
    def _team(self) -> Team | None:
        return self._lifecycle.team

    def _shape_of(self, links: Links | None, slow: Mapping[int, float] | None) -> Any:
        return shape_of(links, slow, world_size=self.world_size, device=self._lifecycle.layout.devices[0].device)

    def _ready_team(self) -> Team:
        if self._is_closed:
            raise RuntimeError(f"this Cluster({self.world_size}) is closed; make a new one to go on")
        team = self._lifecycle.ready()
        team.shape = self._shape
        return team

    def _ask(self, ranks: Sequence[int], kind: str, *details: Any, timeout_s: float | None, show: bool = True) -> Run:
        team, began_s = self._team, time.perf_counter()
        assert team is not None
        team.in_order = False  # until the end of this call is known: an interrupt may come at any line
        try:
            outcome = team.ask(ranks, kind, *details, timeout_s=timeout_s)
            time_s = time.perf_counter() - began_s
            failed = bool(outcome.failures or outcome.statuses)
            leaks = LeakReport() if failed else team.leak_report(outcome)
            team.in_order = leaks.is_clean and not failed
            results = unpack_all(outcome.payloads)
        except KeyboardInterrupt:
            raise RankInterrupted(self._interrupted()) from None
        except NotSendable:  # the ranks did their work; only this process cannot read the result
            if not leaks.is_clean:
                self._settle(team, keep=not leaks.needs_new_ranks)
            raise
        except BaseException:
            self._lifecycle.drop()
            raise
        lines = leaks.lines if leaks.is_clean else self._clean_up(team, leaks)
        if show:
            say(in_rank_order(outcome.text) + "".join(f"{line}\n" for line in leaks_in_words(lines)))
        run = Run(results, outcome.text, time_s, self.world_size, leaks=lines)
        if failed:
            error = self._error(team, outcome, run, timeout_s)
            raise error from (error.failure.exception if error.failure else None)
        return run

    def _clean_up(self, team: Team, leaks: LeakReport) -> tuple[str, ...]:
        """Free the ranks of what a call has left, and say what became of them."""
        with_variables = team.keeps_variables
        lost = self._settle(team, keep=not leaks.needs_new_ranks).strip()
        if lost or not leaks.lines:
            return (*leaks.lines, lost) if lost else ()
        return (*leaks.lines, _MET_ANEW if with_variables else _REPLACED)

    def _error(self, team: Team, outcome: CallOutcome, run: Run, timeout_s: float | None) -> RankError:
        """Bring the ranks back into order, and tell what happened."""
        story = team.story(outcome, timeout_s=timeout_s) + self._settle(team)
        kind = RankFailed if first_failure(outcome.failures) else RankTimeout
        return kind(story, failures=outcome.failures, run=run, **outcome.ended())

    def _settle(self, team: Team, *, keep: bool = True) -> str:
        """After a failure: keep the ranks where their cells have variables and they can be freed, else end them."""
        if not team.keeps_variables:
            self._lifecycle.drop()
            return ""
        try:
            kept = keep and team.recover()
        except BaseException:
            self._lifecycle.drop()
            raise
        if kept:
            team.in_order = True
            return ""
        self._lifecycle.drop()
        return f"\n\n{_ENDED}"

    def _interrupted(self) -> str:
        team = self._team
        assert team is not None
        try:
            return interrupted_story(team.probe(), self.world_size, nodes=team.nodes) + self._settle(team)
        except BaseException:  # a second interrupt, while this one is dealt with
            self._lifecycle.drop()
            raise
