"""One agent a node, which starts the node's ranks by the course's fork server: by ssh alone, or within ipyparallel.

AGENT=ssh: the agent speaks over the stdin and stdout of its ssh. AGENT=ipyparallel: an engine a node holds it; a call
is a blocking ``apply``, and questions come by the control channel, which has a thread of its own in the engine.
Run by measure.py on the first node.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from node_agent import from_wire, to_wire
from workload import (
    BIG,
    RANKS_A_NODE,
    WORLD_SIZE,
    Clock,
    echo,
    hosted_store,
    median_ms,
    nothing,
    reduce_1k,
    say,
    sleep_alone,
    stuck,
)

from course_lib.cluster.process.serialization import pack, unpack

nodes, me, kind = Path(os.environ["NODES"]), os.environ["CONTROLLER"], os.environ.get("AGENT", "ssh")
SSH = ["ssh", "-F", str(nodes / "ssh_config"), "-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=2"]
PYTHON = ["env", f"PYTHONPATH={os.environ['PYTHONPATH']}", sys.executable]
RANKS = {node: list(range(node * RANKS_A_NODE, (node + 1) * RANKS_A_NODE)) for node in (0, 1)}


class BySsh:
    """Events come in by a thread a node; a question is a message like another."""

    def __init__(self, store: str, events: queue.Queue) -> None:
        self.events, self.statuses = events, queue.Queue()
        self.agents, self.up = [], []
        for node, ranks in RANKS.items():
            words = [*SSH, f"node{node}", *PYTHON, "-m", "agent_main"]
            agent = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.agents.append(agent)
            self.up.append(Connection(os.dup(agent.stdin.fileno()), readable=False))
            self.up[node].send((ranks, WORLD_SIZE, store))
            down = Connection(os.dup(agent.stdout.fileno()), writable=False)
            threading.Thread(target=self._listen, args=(node, down), daemon=True).start()

    def call(self, wire: object) -> None:
        self._tell("call", wire)

    def status(self) -> dict:
        self._tell("status", 0)
        return self.statuses.get(timeout=10) | self.statuses.get(timeout=10)

    def interrupt(self) -> None:
        self._tell("interrupt")

    def reset(self, ranks: list) -> None:
        self._tell("reset", ranks)

    def end(self) -> None:
        self._tell("end")
        for agent in self.agents:
            agent.wait(20)

    def _tell(self, *message: object) -> None:
        for up in self.up:
            up.send(message)

    def _listen(self, node: int, down: Connection) -> None:
        try:
            while True:
                event = down.recv()
                (self.statuses if event[0] == "status" else self.events).put(
                    event[2] if event[0] == "status" else event
                )
        except (EOFError, OSError):
            self.events.put(("lost", node, f"ssh ended with {self.agents[node].wait()}"))


class ByIpyparallel:
    """Answers are the reply of a blocking ``apply``; an engine that the hub gives up is a node that is lost."""

    def __init__(self, store: str, events: queue.Queue) -> None:
        import measure_ipyparallel

        measure_ipyparallel.RANKS_A_NODE, measure_ipyparallel.WORLD_SIZE = 1, 2  # engines
        self.cluster, self.client = measure_ipyparallel.quick_start()
        self.events = events
        names = [node.nodename for node in self.client[:].apply_sync(os.uname)]
        self.engine = {int(name[-1]): self.client[engine] for engine, name in zip(self.client.ids, names, strict=True)}
        import engine_agent

        for node, ranks in RANKS.items():
            self.engine[node].apply_sync(engine_agent.start, ranks, WORLD_SIZE, store)
        self._ask(engine_agent.more)

    def call(self, wire: object) -> None:
        import engine_agent

        self._ask(engine_agent.call, wire)

    def status(self) -> dict:
        import pickle

        asked = [self._control("course_status_request", view) for view in self.engine.values()]
        found = [future.result(timeout=10) for future in asked]
        return pickle.loads(found[0]["buffers"][0]) | pickle.loads(found[1]["buffers"][0])

    def interrupt(self) -> None:
        for view in self.engine.values():
            self._control("course_interrupt_request", view)

    def reset(self, ranks: list) -> None:
        for view in self.engine.values():
            self._control("course_reset_request", view, {"ranks": ranks})

    def end(self) -> None:
        asked = [self._control("course_end_request", view) for view in self.engine.values()]
        for future in asked:
            future.result(timeout=10)
        self.cluster.stop_cluster_sync()

    def _control(self, message: str, view: object, content: object = None) -> object:
        ident = self.client._engines[view.targets].encode()
        return self.client._send(self.client._control_stream, message, content=content or {}, ident=ident)

    def _ask(self, function: object, *args: object) -> None:
        for node, view in self.engine.items():
            view.apply_async(function, *args).add_done_callback(lambda done, node=node: self._take(node, done))

    def _take(self, node: int, done: object) -> None:
        import engine_agent

        try:
            events, is_over = done.get()
        except BaseException as error:
            self.events.put(("lost", node, f"{type(error).__name__}: {error}"))
            return
        for event in events:
            self.events.put(event)
        if not is_over:
            view = self.engine[node]
            view.apply_async(engine_agent.more).add_done_callback(lambda done: self._take(node, done))


class Group:
    def __init__(self, kind: str) -> None:
        self.events: queue.Queue = queue.Queue()
        self._store, port = hosted_store(me)
        self.folder, self.made = Path(tempfile.mkdtemp()), 0
        self.by = (BySsh if kind == "ssh" else ByIpyparallel)(f"{me}:{port}", self.events)
        say("8 answers", self.collect())

    def start(self, function: object, *args: object) -> None:
        self.by.call(to_wire(pack((function, args, {}), folder=self.folder, what="a call")))

    def run(self, function: object, *args: object) -> list:
        self.start(function, *args)
        return self.collect()

    def collect(self, limit_s: float = 300, stop_at_failure: bool = True) -> list:
        values, began = {}, time.perf_counter()
        while len(values) < WORLD_SIZE:
            what, rank, content = self.events.get(timeout=limit_s)
            if what != "answer" or content[0] != "done":
                return [f"{what} {rank}: {str(content)[:150]} after {time.perf_counter() - began:.2f} s"]
            self.made += 1
            values[rank] = unpack(from_wire(content[1], self.folder, f"back-{self.made}"))
            (self.folder / f"parcel-back-{self.made}").unlink(missing_ok=True)
        return [values[rank] for rank in range(WORLD_SIZE)]

    def rest(self, limit_s: float) -> list:
        """What else comes within the time."""
        found, clock, ends = [], Clock(), time.perf_counter() + limit_s
        while (left_s := ends - time.perf_counter()) > 0:
            try:
                what, rank, content = self.events.get(timeout=left_s)
                found.append((what, rank, content[0] if what == "answer" else content, str(clock)))
            except queue.Empty:
                break
        return found


def own_pid(_: object) -> int:
    return os.getpid()


def nowhere_near(status: object) -> str:
    return f"{status.state} at {status.where}, in {status.operation}"[:230]


def figures(group: Group) -> None:
    say("None", median_ms(lambda: group.run(nothing)))
    say("1 KiB all-reduce", median_ms(lambda: group.run(reduce_1k)))
    data = os.urandom(BIG)
    say("4 MB to all and back", median_ms(lambda: group.run(echo, data), 5))
    group.start(stuck)
    time.sleep(2)
    clock = Clock()
    found = group.by.status()
    say(f"status of {len(found)} ranks while they are stuck, after {clock}", nowhere_near(found[0]))
    say("rank 5", nowhere_near(found[5]))
    say("status again", median_ms(group.by.status, 20))


def recover(group: Group) -> None:
    """All but rank 0 wait for it; interrupt, then have each that has failed leave, which frees the next ones."""
    group.start(stuck)
    time.sleep(2)
    clock, met, freed = Clock(), set(), []
    group.by.interrupt()
    while len(met) < WORLD_SIZE:
        what, rank, content = group.events.get(timeout=60)
        if what == "answer" and content[0] == "done":
            met.add(rank)
            continue
        freed.append(f"{rank} {what if what != 'answer' else content[1].kind} after {clock}")
        group.by.reset([rank])
    say("interrupt: freed", freed)
    say("all have met again after", clock)
    say("a call with a collective", group.run(reduce_1k))


def main(scenario: str) -> None:
    clock = Clock()
    group = Group(kind)
    say("8 ranks on 2 nodes have met after", clock)
    if scenario == "figures":
        figures(group)
        say("READY", "")
        clock = Clock()
        group.by.end()
        say("end took", clock)
        return
    pids = group.run(own_pid)
    if scenario == "cut":
        recover(group)
    group.start(sleep_alone)
    time.sleep(1)
    if scenario == "cut":
        clock = Clock()
        os.kill(pids[5], signal.SIGKILL)  # nodes share the numbers of processes
        say("a rank killed; the first event", group.collect())
        say("seen after", clock)
    say("READY", "all are in a call")
    clock = Clock()
    say("events within 60 s", group.rest(60))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
