"""Monarch: a worker loop a node, started by ssh; a rank is a process with two actors. Run by measure.py."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

from monarch._src.job.service_identity import new_service_proc_id, service_proc_addr
from monarch.actor import Actor, attach_to_workers, context, enable_transport, endpoint
from workload import (
    BIG,
    RANKS_A_NODE,
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
SSH = ["ssh", "-F", str(nodes / "ssh_config")]
STRANGER = """cd /; export HOME=/tmp/strangers-home; mkdir -p $HOME
timeout 80 env PYTHONPATH={packages} {python} - <<'END'
import os
from monarch._src.job.service_identity import new_service_proc_id, service_proc_addr
from monarch.actor import Actor, attach_to_workers, enable_transport, endpoint
class Who(Actor):
    @endpoint
    def who(self):
        return os.getuid()
enable_transport("tcp://{me}:0")
made_up = service_proc_addr({plain!r}, new_service_proc_id())
for what, address in (("the true identity", {address!r}), ("one made up", made_up)):
    try:
        hosts = attach_to_workers(ca="trust_all_connections", workers=[address])
        who = hosts.spawn_procs(per_host=dict(ranks=1)).spawn("who", Who)
        ran_as = list(who.who.call().get(timeout=12).values())
        print(what, "- a function of user", os.getuid(), "ran as", ran_as, flush=True)
    except BaseException as error:
        print(what, "-", type(error).__name__, str(error)[-200:], flush=True)
os._exit(0)
END
"""


class RankActor(Actor):
    @endpoint
    def call(self, function: object, *args: object) -> object:
        number = context().actor_instance.rank.rank
        return function(number, *args)  # type: ignore[operator]


class Questions(Actor):
    @endpoint
    def status(self) -> str:
        frames = sys._current_frames().items()
        return ", ".join(sorted({frame.f_code.co_name for thread, frame in frames if thread != threading.get_ident()}))


def start() -> tuple:
    enable_transport(f"tcp://{me}:0")
    addresses = []
    for node in (0, 1):
        plain = f"tcp://10.78.0.{node + 1}:22222"
        address = service_proc_addr(plain, new_service_proc_id())
        run = f"run_worker_loop_forever(address={address!r}, ca='trust_all_connections')"
        code = f"from monarch.actor import run_worker_loop_forever; {run}"
        words = f'env PYTHONPATH={os.environ["PYTHONPATH"]} {sys.executable} -c "{code}"'
        subprocess.Popen([*SSH, f"node{node}", words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        addresses.append(address)
    text = STRANGER.format(
        packages=sysconfig.get_path("purelib"),
        python=stranger_python,
        me=me,
        address=addresses[0],
        plain=f"tcp://{me}:22222",
    )
    (nodes / "stranger.sh").write_text(text)
    hosts = attach_to_workers(ca="trust_all_connections", workers=addresses)
    hosts.initialized.get()
    processes = hosts.spawn_procs(per_host={"ranks": RANKS_A_NODE})
    return hosts, processes.spawn("ranks", RankActor), processes.spawn("questions", Questions)


def failing(ranks: RankActor, *, limit_s: float = 75) -> None:
    call = ranks.call.call(sleep_alone)
    say("READY", "all are in a call")
    clock = Clock()
    try:
        say("values", call.get(timeout=limit_s))
    except BaseException as error:
        say(f"after {clock}", f"{type(error).__name__}: {' '.join(str(error).split())}"[:700])


def figures(ranks: RankActor, questions: Questions) -> None:
    say("None", median_ms(lambda: ranks.call.call(nothing).get()))
    say("1 KiB all-reduce", median_ms(lambda: ranks.call.call(reduce_1k).get()))
    data = os.urandom(BIG)
    say("4 MB to all and back", median_ms(lambda: ranks.call.call(echo, data).get(), 5))
    ranks.call.call(stuck)
    time.sleep(2)
    clock = Clock()
    try:
        said = list(questions.status.call().get(timeout=10).values())
        say(f"status of {len(said)} ranks while they are stuck, after {clock}", f"{said[0]!r}; rank 5 {said[5]!r}")
        say("again", median_ms(lambda: questions.status.call().get(timeout=10), 20))
    except BaseException as error:
        say(f"status while they are stuck, after {clock}", f"{type(error).__name__}: {error}"[:300])
    say("READY", "")
    time.sleep(45)


def main(scenario: str) -> None:
    clock = Clock()
    hosts, ranks, questions = start()
    _store, port = hosted_store(me)
    pids = list(ranks.call.call(meet, me, port).get(timeout=240).values())
    say("8 ranks on 2 nodes have met after", clock)
    if scenario == "figures":
        figures(ranks, questions)
    else:
        if scenario == "rank":
            threading.Timer(2, lambda: os.kill(pids[5], 9)).start()
        failing(ranks)
    clock = Clock()
    try:
        hosts.shutdown().get(timeout=20)
        say("shutdown took", clock)
    except BaseException as error:
        say(f"shutdown, after {clock}", f"{type(error).__name__}: {error}"[:300])
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
