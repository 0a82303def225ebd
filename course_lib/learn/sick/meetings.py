"""A rendezvous by PyTorch's own handlers, without ranks: what each agent says, and what stands in the store.

An agent of ``torchrun --rdzv-backend c10d`` goes to a store, puts itself on the list of its id, and looks once a
second whether enough have come. Here the handlers are PyTorch's, each in a thread; the store is one in memory, in the
place of one behind a port. So no time is lost in starting processes, and no port is needed. Lesson 12.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.base.checks import at_least

__all__ = ["UNMET", "Meeting", "fates", "meet", "store_of"]

Agent = Mapping[str, str]
_KEYS = ("node", "address", "endpoint", "rdzv_id", "nnodes")
_DEFAULT_PORT = "29400"
_LOOPBACK = ("localhost", "127.0.0.1")
_JOB = {"endpoint": "10.0.0.1:29400", "rdzv_id": "llm-7"}
UNMET = (  # the two agents of lesson 12's clinic, in the order in which they come
    {"node": "n0", "address": "10.0.0.1", "nnodes": "2", **_JOB},
    {"node": "n1", "address": "10.0.0.2", "nnodes": "3", **_JOB},
)
_COMES_WITHIN_S = 20.0  # a thread that begins; a limit against hangs


def store_of(agent: Agent) -> tuple[str, str]:
    """Host and port of the store to which an agent goes; a loopback host means its own node."""
    host, _, port = agent["endpoint"].partition(":")
    return (agent["address"] if host in _LOOPBACK else host), port or _DEFAULT_PORT


def fates(agents: Sequence[Agent]) -> dict[str, str]:
    """What becomes of each node: "complete", "no store", "too few" or "too many".

    A store is where an agent runs on the host of its own endpoint. Agents of the same store, id and nnodes meet; if
    fewer than the least number come, it is "too few" for all of them, and those after the greatest are "too many".
    (PyTorch's agents that differ in nnodes alone share a list, and it depends on who comes last whether they go on.
    Here they do not meet.)
    """
    opened = {store_of(agent) for agent in agents if store_of(agent)[0] == agent["address"]}
    came: dict[tuple[Any, ...], int] = {}
    meetings = [(store_of(agent), agent["rdzv_id"], *_limits(agent)) for agent in agents]
    words = {}
    for agent, meeting in zip(agents, meetings, strict=True):
        place, _, least, most = meeting
        came[meeting] = came.get(meeting, 0) + 1
        if place not in opened:
            word = "no store"
        elif meetings.count(meeting) < least:
            word = "too few"
        else:
            word = "complete" if came[meeting] <= most else "too many"
        words[agent["node"]] = word
    return words


def _limits(agent: Agent) -> tuple[int, int]:
    least, _, most = agent["nnodes"].partition(":")
    return int(least), int(most or least)


@dataclass(frozen=True)
class Meeting:
    """What came of it. ``said``: by node, "rank 0 of 2", or the name of the error that its handler raised.

    ``lists``: what the store held when all had come, by (place of the store, id): the nodes on the list, whether the
    round was complete, and who else stood there, waiting.
    """

    said: dict[str, str]
    lists: dict[tuple[str, str], dict[str, Any]]

    def __str__(self) -> str:
        lines = [f"{node}: {words}" for node, words in self.said.items()]
        for (place, run_id), held in self.lists.items():
            lines.append(f"store {place}, list {run_id!r}: " + ", ".join(f"{k} {v}" for k, v in held.items()))
        return "\n".join(lines)


def meet(agents: Sequence[Agent], *, join_timeout_s: int = 3) -> Meeting:
    """Let agents with these settings come one after the other, and wait until each has a rank or has given up.

    PyTorch's own limit is ten minutes; here it is ``join_timeout_s`` whole seconds, and half of it for a last call
    where more nodes may come. Raises ValueError for settings that
    are missing or cannot be read, for two nodes of one name, and for a store that nobody opens: a real agent would
    knock there for a minute.
    """
    at_least(1, join_timeout_s=join_timeout_s)
    _check(agents)
    from torch.distributed import HashStore

    stores = {store_of(agent): HashStore() for agent in agents}
    handlers = [_Handler(agent, stores[store_of(agent)], join_timeout_s) for agent in agents]
    for handler in handlers:
        handler.come()
    lists = {(":".join(h.place), h.agent["rdzv_id"]): _held(h, handlers) for h in handlers}
    return Meeting({handler.agent["node"]: handler.outcome() for handler in handlers}, lists)


def _check(agents: Sequence[Agent]) -> None:
    for agent in agents:
        missing = [key for key in _KEYS if not agent.get(key)]
        if missing:
            raise ValueError(f"the agent {dict(agent)} has no {', '.join(missing)}; each has {', '.join(_KEYS)}")
        ends = agent["nnodes"].split(":")
        if len(ends) > 2 or not all(end.isdecimal() and int(end) for end in ends) or int(ends[0]) > int(ends[-1]):
            raise ValueError(f'nnodes of {agent["node"]} is {agent["nnodes"]!r}; write "2", or "1:4" for one to four')
    names = [agent["node"] for agent in agents]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two nodes are called {name!r}; each needs a name of its own")
    lost = [node for node, word in fates(agents).items() if word == "no store"]
    if lost:
        raise ValueError(f"no agent opens the store that {', '.join(lost)} would go to; let one run on that host")


class _Handler:
    """PyTorch's handler for an agent, and the thread in which it waits."""

    def __init__(self, agent: Agent, store: Any, join_timeout_s: int) -> None:
        from torch.distributed.elastic.rendezvous import RendezvousParameters
        from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
        from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

        self.agent, self.place = agent, store_of(agent)
        self._backend = C10dRendezvousBackend(store, agent["rdzv_id"])
        settings = {"join_timeout": join_timeout_s, "last_call_timeout": max(1, join_timeout_s // 2)}
        least, most = _limits(agent)
        parameters = RendezvousParameters(
            "c10d", agent["endpoint"], agent["rdzv_id"], least, most, local_addr="127.0.0.1", **settings
        )
        self._handler = create_handler(store, self._backend, parameters)
        self.who = self._handler._this_node  # its entry in the list; nothing public tells it
        self._said = ""
        self._thread = threading.Thread(target=self._wait, daemon=True)

    def _wait(self) -> None:
        try:
            found = self._handler.next_rendezvous()
            self._said = f"rank {found.rank} of {found.world_size}"
        except Exception as error:  # what an agent would end with
            self._said = type(error).__name__

    def come(self) -> None:
        """Begin to wait; return when this agent stands in the store, or has got its answer."""
        self._thread.start()
        until_s = time.monotonic() + _COMES_WITHIN_S
        while self._thread.is_alive() and time.monotonic() < until_s:
            state = self.state()
            if state and self.who in {*state.participants, *state.wait_list, *state.redundancy_list}:
                return
            time.sleep(0.01)

    def state(self) -> Any:
        """What stands in the store under this agent's id; None before anybody came."""
        kept = self._backend.get_state()
        return pickle.loads(kept[0]) if kept else None  # written by this very process

    def outcome(self) -> str:
        """Wait for the thread, and what it said; one that is too many would wait for as long as the others go on."""
        if self.who in getattr(self.state(), "redundancy_list", ()):
            self._handler.set_closed()  # so that it ends
            self._thread.join(_COMES_WITHIN_S)
            return "waits for a place"
        self._thread.join(_COMES_WITHIN_S)
        self._handler._stop_heartbeats()
        return self._said or "still waiting"


def _held(handler: _Handler, handlers: Sequence[_Handler]) -> dict[str, Any]:
    state = handler.state()
    names = {other.who: other.agent["node"] for other in handlers}
    waiting = {*state.wait_list, *state.redundancy_list}
    return {
        "participants": sorted(names[who] for who in state.participants),
        "complete": state.complete,
        "waiting": sorted(names[who] for who in waiting),
    }
