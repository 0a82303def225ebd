"""Ray: a rank is an actor, with a thread of its own for questions. Run by measure.py on the first node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import psutil
import ray
from workload import (
    BIG,
    NODES,
    RANKS_A_NODE,
    WORLD_SIZE,
    Clock,
    echo,
    hosted_store,
    median_ms,
    meet,
    nothing,
    reduce_1k,
    say,
    sleep_alone,
    stuck,
)

nodes, me = Path(os.environ["NODES"]), os.environ["CONTROLLER"]
stranger_python = os.environ.get("STRANGERS_PYTHON", sys.executable)  # one that everybody may run
COMMAND = f"{sys.executable} -m ray.scripts.scripts"
STRANGER = """cd /; export HOME=/tmp/strangers-home; mkdir -p $HOME
timeout 80 env PYTHONPATH={packages} {python} -u - <<'END'
import os, ray
ray.init(address="{me}:6379", log_to_driver=False, logging_level="ERROR")
print("joined; nodes:", len(ray.nodes()))
@ray.remote(num_cpus=0)
def who():
    return os.getuid(), os.uname().nodename
print("a function of user", os.getuid(), "ran as user, on", ray.get(who.remote(), timeout=20))
END
"""


@ray.remote(num_cpus=1, concurrency_groups={"questions": 1}, max_restarts=0)
class RankActor:
    def call(self, function: object, *args: object) -> object:
        return function(*args)  # type: ignore[operator]

    @ray.method(concurrency_group="questions")
    def status(self) -> str:
        """The innermost function of each other thread, while ``call`` runs."""
        mine = threading.get_ident()
        frames = sys._current_frames().items()
        return ", ".join(sorted(frame.f_code.co_name for thread, frame in frames if thread != mine))

    @ray.method(concurrency_group="questions")
    def signal(self, number: int) -> None:
        os.kill(os.getpid(), number)


def start() -> list:
    """A raylet aborts when its agents have not said their ports in time, which a busy machine gives them no chance to.

    Hence the priority for their start, which is taken back before the ranks are made.
    """
    ssh = ["ssh", "-F", str(nodes / "ssh_config")]
    env = f"nice -n -10 env RAY_raylet_start_wait_time_s=60 PYTHONPATH={os.environ['PYTHONPATH']}"
    each = f"--num-cpus={RANKS_A_NODE} --num-gpus=0 --object-store-memory=100000000"
    head = f"start --head --node-ip-address={me} --port=6379 --disable-usage-stats --include-dashboard=false"
    for node, command in (("node0", head), ("node1", f"start --address={me}:6379")):
        done = subprocess.run([*ssh, node, f"{env} {COMMAND} {command} {each}"], capture_output=True, text=True)
        if done.returncode:
            say("ray start", (done.stdout + done.stderr)[-600:])
            grep = "grep -h 'Check failed' /tmp/ray/session_latest/logs/raylet.*"
            say("its raylet", subprocess.run([*ssh, node, grep], capture_output=True, text=True).stdout[:900])
            sys.exit(1)
    for process in psutil.process_iter(["cmdline"]):
        if any("site-packages/ray/" in word for word in process.info["cmdline"] or ()):
            process.nice(0)
    packages = sysconfig.get_path("purelib")
    (nodes / "stranger.sh").write_text(STRANGER.format(packages=packages, python=stranger_python, me=me))
    ray.init(address=f"{me}:6379", log_to_driver=True, logging_level="ERROR")
    while len([node for node in ray.nodes() if node["Alive"]]) < NODES:
        time.sleep(0.1)
    return [RankActor.remote() for _ in range(WORLD_SIZE)]


def all_of(ranks: list, function: object, *args: object) -> list:
    return ray.get([rank.call.remote(function, *args) for rank in ranks])


def alive(ranks: list) -> list[int]:
    asked = [rank.call.remote(os.getpid) for rank in ranks]
    done, _ = ray.wait(asked, num_returns=len(asked), timeout=8)
    good = []
    for rank, answer in enumerate(asked):
        try:
            good += [rank] if answer in done and ray.get(answer) else []
        except Exception:
            continue
    return good


def failing(ranks: list, *, ready: str = "", enough: int = WORLD_SIZE, limit_s: float = 120) -> None:
    """A call that ought to fail: when each rank's answer comes, and its words."""
    calls = {rank.call.remote(sleep_alone): number for number, rank in enumerate(ranks)}
    time.sleep(1)
    clock = Clock()
    say(ready or "READY", "all are in a call")
    while calls and WORLD_SIZE - len(calls) < enough and time.perf_counter() - clock.began < limit_s:
        done, _ = ray.wait(list(calls), timeout=0.1)
        for call in done:
            number = calls.pop(call)
            try:
                say(f"rank {number} after {clock}", ray.get(call))
            except Exception as error:
                say(f"rank {number} after {clock}", f"{type(error).__name__}: {' '.join(str(error).split())}"[:330])
    say("without an answer", sorted(calls.values()))


def figures(ranks: list) -> None:
    say("None", median_ms(lambda: all_of(ranks, nothing)))
    say("1 KiB all-reduce", median_ms(lambda: all_of(ranks, reduce_1k)))
    data = os.urandom(BIG)
    say("4 MB to one rank and back", median_ms(lambda: ray.get(ranks[7].call.remote(echo, 0, data)), 10))
    say("4 MB to all and back", median_ms(lambda: all_of(ranks, echo, 0, data), 5))
    say("nodes of the ranks", [answer for answer in all_of(ranks, os.uname) if answer][0:8:7])
    calls = [rank.call.remote(stuck) for rank in ranks]
    time.sleep(2)
    clock = Clock()
    said = ray.get([rank.status.remote() for rank in ranks], timeout=20)
    say("status of all while they are stuck", f"after {clock}: rank 0 {said[0]!r}, rank 5 {said[5]!r}")
    say("again", median_ms(lambda: ray.get([rank.status.remote() for rank in ranks]), 20))
    say("READY", "")
    time.sleep(30)
    interrupt(ranks, calls)


def interrupt(ranks: list, calls: list) -> None:
    """Ctrl-C at the notebook; then ray.cancel; then SIGINT and SIGUSR2 sent by the thread for questions."""
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        ray.get(calls)
    except KeyboardInterrupt:
        say("Ctrl-C", "KeyboardInterrupt at the notebook")
    for number in (0, 5):
        try:
            ray.cancel(calls[number])
            done, _ = ray.wait([calls[number]], timeout=4)
            say(f"ray.cancel of rank {number}, ended in 4 s", bool(done))
        except Exception as error:
            say(f"ray.cancel of rank {number}", f"{type(error).__name__}: {error}"[:200])
    clock = Clock()
    ray.get([rank.signal.remote(signal.SIGINT) for rank in ranks])
    done, _ = ray.wait(calls, num_returns=len(calls), timeout=8)
    say(f"SIGINT by the second thread, {clock}", f"ended: {[calls.index(call) for call in done]}")
    for call in done[:1]:
        try:
            say("a call that ended", ray.get(call))
        except BaseException as error:
            say("a call that ended", f"{type(error).__name__}: {error}"[-200:])
    say("answer a call now", alive(ranks))


def main(scenario: str) -> None:
    clock = Clock()
    ranks = start()
    say("both nodes have joined after", clock)
    if scenario == "strangers":
        say("READY", "")
        time.sleep(90)
        return ray.shutdown()
    _store, port = hosted_store(me)
    pids = ray.get([rank.call.remote(meet, number, me, port) for number, rank in enumerate(ranks)])
    say(f"{WORLD_SIZE} ranks on {NODES} nodes have met after", clock)
    if scenario == "figures":
        figures(ranks)
    if scenario in ("cut", "rank"):
        threading.Timer(2, lambda: os.kill(pids[5], signal.SIGKILL)).start()  # nodes share the numbers of processes
        failing(ranks, ready="rank 5 is killed in a second", enough=1)
        say("answer a call while the others sleep", alive(ranks))
    if scenario != "figures":
        failing(ranks)
    clock = Clock()
    ray.shutdown()
    ssh = ["ssh", "-F", str(nodes / "ssh_config"), "-o", "ConnectTimeout=5"]
    for node in ("node1", "node0"):
        subprocess.run([*ssh, node, f"{COMMAND} stop"], capture_output=True, timeout=60, check=False)
    say("ray stop on both nodes took", clock)


if __name__ == "__main__":
    main(sys.argv[1])
