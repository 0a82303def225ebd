"""Faults on two nodes with a cable between them, drawn at random: ranks, agents, ssh and notebooks killed, cables cut.

As a script on the first of :class:`two_nodes.TwoNodes`: ``python cut_trials.py COUNT SEED FOLDER HOLDER HOLDER``, with
the folder that has ``ssh_config``, and the processes that hold the nodes. It prints a line for each fault. After each
the next call is right, or says in a sentence what is missing; then a new cluster works, and nothing is left of the old.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

import psutil
from cable import Cable
from node_trials import RIGHT, in_a_line, kill, ring
from waiting import holds_in_time

from course_lib.cluster import Cluster, RankError
from course_lib.cluster.nodes import found
from course_lib.cluster.nodes.command import main as nodes_command
from course_lib.cluster.nodes.errors import NodeLost

MOMENTS = ("start", "call", "all-reduce", "interrupt", "idle")
DEEDS = ("cut for 5 s", "cut", "rank", "agent", "ssh")
LONGEST_S = 0.6  # from the beginning of a moment until the fault
SHORT_CUT_S = 5.0
STUCK_S = 420.0  # a limit against hangs: of one fault, with all that comes after it
AGENT_ENDS_S = 150.0  # two minutes without a word, and time to end
NOTEBOOK = """
import sys, time
from course_lib.cluster import Cluster
cluster = Cluster(4)
cluster.run(lambda me: print("up"))
sys.stdout.flush()
cluster.run(lambda me: time.sleep(600))
"""


def nap(me):
    time.sleep(4)


def many_rings(me):
    for _ in range(1000):
        ring(me)


def rings_without_end(me):
    for _ in range(1_000_000):
        ring(me)


class Trials:
    """One notebook on the first node, and what happens to it."""

    def __init__(self, seed: int, cable: Cable) -> None:
        self.draw, self.cable = random.Random(seed), cable
        self.networks = [os.readlink(f"/proc/{holder}/ns/net") for holder in cable.holders]
        self.cluster = Cluster(4, timeout_s=120)
        self.target = 0  # a rank's process

    def processes(self) -> dict[int, str]:
        """Those of the course on both nodes: agents, fork servers, ranks; not this notebook and its ssh."""
        there = {}
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.Error):
                words = process.cmdline()
                is_there = os.readlink(f"/proc/{process.pid}/ns/net") in self.networks
                if is_there and words and "python" in words[0] and process.pid != os.getpid():
                    there[process.pid] = " ".join(words)
        return there

    def trial(self, moment: str, deed: str) -> str:
        """What came of the call in which it happened, and of the next one."""
        if moment != "start":
            self.target = self.cluster.call(ring, show=False)[self.draw.randrange(4)][0]
        came = self.told(lambda: self.during(moment, deed))
        after = self.told(self.next_call)
        if deed == "cut":
            if after != "right" and self.draw.random() < 0.3:
                after += f"; meanwhile {self.told(self.rest)}"
            self.cable.mend()
        return f"{came} | {after}"

    def told(self, do: Callable[[], str]) -> str:
        try:
            return do()
        except (RankError, NodeLost) as error:
            return in_a_line(error)
        except KeyboardInterrupt:
            return "interrupted"
        except Exception as error:
            return f"NOT A SENTENCE {in_a_line(error)}"

    def during(self, moment: str, deed: str) -> str:
        if moment == "start":
            self.cluster.close()
            if self.draw.random() < 0.5:
                let_nodes_go()
            self.cluster = Cluster(4, timeout_s=120)
        fault = threading.Timer(self.draw.random() * (3 if moment == "start" else LONGEST_S), self.do, (deed,))
        later = threading.Timer(self.draw.random() * LONGEST_S, interrupt)
        fault.start()
        try:
            if moment == "interrupt":
                later.start()
                self.cluster.call(rings_without_end, show=False)
            elif moment == "idle":
                time.sleep(self.draw.random() * 2 * SHORT_CUT_S)
            else:
                do = {"start": ring, "call": nap, "all-reduce": many_rings}[moment]
                self.cluster.call(do, show=False)
        finally:
            if moment == "interrupt":
                later.join()
            fault.join()
        return "well"

    def do(self, deed: str) -> None:
        nodes = [node for of_record in found._met.values() for node in of_record.nodes]
        agents = [pid for pid, words in self.processes().items() if words.endswith("nodes.agent_process")]
        if deed == "rank":
            kill(self.target)
        elif deed == "agent" and agents:
            kill(self.draw.choice(agents))
        elif deed == "ssh" and nodes:
            kill(self.draw.choice(nodes)._process.pid)
        elif deed.startswith("cut"):
            self.cable.cut()
        if deed == "cut for 5 s":
            threading.Timer(SHORT_CUT_S, self.cable.mend).start()

    def next_call(self) -> str:
        after = self.cluster.call(ring, show=False)
        return "right" if [after[rank][1] for rank in range(4)] == [RIGHT] * 4 else f"WRONG {after.results}"

    def rest(self) -> str:
        """While the cable is cut: a new cluster takes the node that is left."""
        self.cluster.close()
        self.cluster = Cluster(4, timeout_s=120)
        return f"{self.next_call()} on {len(found.nodes_here().nodes)}"

    def renew(self) -> str:
        """A new cluster on both nodes."""
        self.cluster.close()
        if len(found.nodes_here().nodes) < 2:
            found._AGAIN_S = 0.0  # and not after a minute
        self.cluster = Cluster(4, timeout_s=120)
        return f"{self.told(self.next_call)} on {len(found.nodes_here().nodes)}"

    def left(self) -> str:
        """Empty where there are on each node an agent, its resource tracker and fork server, and two ranks."""
        if holds_in_time(lambda: len(self.processes()) == 10, AGENT_ENDS_S):
            return ""
        return f" LEFT {sorted(self.processes().items())}"

    def notebook(self, *, cut: bool) -> str:
        """Another notebook is killed in a call; ``cut``: when its cable has been cut, and stays so."""
        before = self.processes().keys()
        other = subprocess.Popen([sys.executable, "-c", NOTEBOOK], stdout=subprocess.PIPE)
        other.stdout.readline()
        if cut:
            self.cable.cut()
        other.kill()
        other.wait()
        ended = holds_in_time(lambda: not self.processes().keys() - before, AGENT_ENDS_S)
        if cut:
            self.cable.mend()
        return "well | right" if ended else f"well | LEFT {self.processes().keys() - before}"


def interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def let_nodes_go() -> None:
    for nodes in found._met.values():
        for node in nodes.nodes:
            node.close()
    found._met.clear()


def main(count: int, seed: int, folder: str, *holders: str) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
    assert nodes_command(["up", "--hosts", "node0,node1", f"--ssh-option=-F{folder}/ssh_config"]) == 0
    trials, ends, bad = Trials(seed, Cable(tuple(map(int, holders)))), Counter[str](), 0
    for number in range(count):
        faulthandler.dump_traceback_later(STUCK_S, exit=True)
        moment, deed = trials.draw.choice(MOMENTS), trials.draw.choice(DEEDS)
        if number % 25 == 24:
            moment, deed = "call", "notebook" if number % 50 == 24 else "notebook and cut"
            came = trials.notebook(cut=deed.endswith("cut"))
        else:
            came = trials.trial(moment, deed)
        after = came.rpartition("| ")[2]
        if after != "right" or deed == "notebook and cut":  # which cuts this notebook off as well
            came += f" | {trials.renew()}"
        came += trials.left()
        is_bad = any(word in came for word in ("LEFT", "WRONG", "NOT A SENTENCE"))
        is_bad |= not came.endswith(("right", "on 2"))
        bad += is_bad
        ends["bad" if is_bad else after.partition(":")[0]] += 1
        print(number, moment, deed, "->", came, flush=True)
    faulthandler.cancel_dump_traceback_later()
    trials.cluster.close()
    let_nodes_go()
    ended = holds_in_time(lambda: not trials.processes())
    print(f"{count} faults: {dict(ends)}; left: {[] if ended else trials.processes()}", flush=True)
    return 1 if bad or not ended else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
