"""The supervisor: the process under which the agents run, by the standard library alone; it leaves nothing behind.

It talks with its owner, a notebook or a script, over one socket: a line of JSON each way for each thing. When that
line ends, because the owner closed it or is no more, everything below the supervisor is killed, its folder removed, and
the namespaces go with the last process in them. Should the supervisor itself be killed, the kernel kills its children,
where it can (Linux).

What it is asked (``do``): ``open`` (make the nodes), ``start``, ``kill_node``, ``kill``, ``signal``, ``count``,
``stop``. What it says by itself: ``ended``, when an agent has.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from course_lib.nodes.supervisor import namespaces, process_tree
from course_lib.nodes.supervisor.counters import read_counts

__all__ = ["main"]

_TICK_S = 0.02
_PARENT_POLL_S = 1.0


class NodesSupervisor:
    """Agents by node, and the processes that hold their namespaces."""

    def __init__(self, line: socket.socket) -> None:
        self._line, self._buffer = line, b""
        self._agents: dict[int, subprocess.Popen[bytes]] = {}
        self._holders: dict[int, int] = {}
        self._own = os.getpid()

    def serve(self) -> None:
        """Until the line ends, or its other end is no more."""
        parent, checked_s = os.getppid(), time.monotonic()
        while True:
            readable, _, _ = select.select([self._line], [], [], _TICK_S if self._agents else 0.2)
            if readable and not self._read():
                return
            self._reap()
            if time.monotonic() - checked_s > _PARENT_POLL_S:
                checked_s = time.monotonic()
                if os.getppid() != parent:
                    return

    def _read(self) -> bool:
        """Answer what has arrived; False when the line has ended."""
        try:
            piece = self._line.recv(1 << 16)
        except ConnectionResetError:
            return False
        self._buffer += piece
        *lines, self._buffer = self._buffer.split(b"\n")
        for text in lines:
            asked = json.loads(text)
            number = asked.pop("number_of_question")
            try:
                answer = getattr(self, f"do_{asked.pop('do')}")(**asked)
            except (namespaces.Refused, OSError, subprocess.SubprocessError) as error:
                answer = {"refused": str(error)}
            self._send({"said": "answer", "to": number, **answer})
        return bool(piece)

    def _send(self, what: dict[str, Any]) -> None:
        self._line.sendall(json.dumps(what).encode() + b"\n")

    def _reap(self) -> None:
        """Tell of agents that have ended, with what they left; end orphans whose agent was killed."""
        for node, agent in list(self._agents.items()):
            if agent.poll() is not None:
                del self._agents[node]
                self._end_orphans()
                self._send({"said": "ended", "node": node, "code": agent.returncode, "time": time.time()})

    def _end_orphans(self) -> None:
        """Children that are nobody's: their agent has ended, and we have them from it. Only Linux gives us them."""
        known = {agent.pid for agent in self._agents.values()} | set(self._holders.values())
        kept = known | {pid for one in known for pid in process_tree.descendants(one)}
        process_tree.end(pid for pid in process_tree.descendants(self._own) if pid not in kept)
        if sys.platform != "linux":
            return
        while True:  # reap them; agents are asked by their handles first
            try:
                waited = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if waited is None or waited.si_pid in known:
                return
            with contextlib.suppress(ChildProcessError):
                os.waitpid(waited.si_pid, os.WNOHANG)

    # -- what is asked -----------------------------------------------------------------------------------------------

    def do_open(self, num_nodes: int, shapes: list[list[str]]) -> dict[str, Any]:
        """Make the namespaces of the nodes."""
        namespaces.enter_own()
        namespaces.make_bridge()
        for node in range(num_nodes):
            self._holders[node] = namespaces.make_node(node, shapes, both_ways=num_nodes > 2)
        return {"holders": list(self._holders.values())}

    def do_start(self, node: int, argv: list[str], env: dict[str, str], cwd: str, log: str) -> dict[str, Any]:
        """Start an agent on its node; node -1 is the place between the nodes."""
        holder = self._holders.get(node)

        def begin() -> None:
            if holder is not None:
                namespaces.enter(holder)
            process_tree.die_with_parent(self._own)

        with open(log, "ab") as text:
            agent = subprocess.Popen(
                argv,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=text,
                stderr=text,
                start_new_session=True,
                preexec_fn=begin,
            )
        self._agents[node] = agent
        return {"pid": agent.pid}

    def do_kill_node(self, node: int) -> dict[str, Any]:
        """SIGKILL to an agent and all that it has started."""
        agent = self._agents.get(node)
        if agent is None or agent.poll() is not None:
            return {"killed": []}
        pids = [agent.pid, *process_tree.descendants(agent.pid)]
        process_tree.end(pids)
        agent.wait()
        return {"killed": pids}

    def do_signal(self, pids: list[int], number: int) -> dict[str, Any]:
        """A signal to processes of ours; others are left alone."""
        ours = set(process_tree.descendants(self._own))
        hit = [pid for pid in pids if pid in ours]
        for pid in hit:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return {"hit": hit}

    def do_count(self) -> dict[str, Any]:
        """Bytes that each node has sent over its link since it was made."""
        counts = [read_counts(pid) for pid in self._holders.values()]
        return {"sent": [None if count is None else count[0] for count in counts]}

    def do_alive(self) -> dict[str, Any]:
        """Nodes whose agent runs."""
        return {"nodes": [node for node, agent in self._agents.items() if agent.poll() is None]}

    def do_stop(self) -> dict[str, Any]:
        """End all agents with their ranks; the nodes stay."""
        for node in list(self._agents):
            self.do_kill_node(node)
        for _ in range(100):
            self._end_orphans()
            if set(process_tree.descendants(self._own)) <= set(self._holders.values()):
                break
            time.sleep(0.01)
        self._agents.clear()
        return {}


def main() -> None:
    """``supervisor.py probe`` says what can be done here; ``supervisor.py FD FOLDER`` serves on a socket."""
    if sys.argv[1] == "probe":
        print(json.dumps(namespaces.try_out()))
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    process_tree.adopt_orphans()
    line = socket.socket(fileno=int(sys.argv[1]))
    line.set_inheritable(False)
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            NodesSupervisor(line).serve()
    finally:
        process_tree.end_all_below(os.getpid())
        shutil.rmtree(sys.argv[2], ignore_errors=True)


if __name__ == "__main__":
    main()
