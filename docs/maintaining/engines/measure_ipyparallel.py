"""ipyparallel as it is: an engine is a rank, engines by ssh. Run by measure.py on the first node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import ipyparallel as ipp
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
python = ["env", f"PYTHONPATH={os.environ['PYTHONPATH']}", sys.executable]
STRANGER = """cd /; timeout 30 env PYTHONPATH={packages} {python} -u - <<'END'
import json, os, time, zmq
from jupyter_client.session import Session
try:
    print("reads the key:", len(open("{security}").read()), "bytes")
except OSError as error:
    print("reads the key:", error.strerror)
context, urls = zmq.Context(), {urls}
heard, session = context.socket(zmq.SUB), Session(key=b"", digest_history_size=0)
heard.connect(urls["iopub"]); heard.subscribe(b"")
hub = context.socket(zmq.DEALER); hub.connect(urls["registration"])
session.send(hub, "connection_request", content={{}})
print("the hub answers:", hub.recv_multipart()[2:] if hub.poll(4000) else "nothing in 4 s")
print("hears of others' calls:", heard.recv_multipart()[-2:] if heard.poll(8000) else "nothing in 8 s")
os._exit(0)
END
"""


def start() -> tuple[ipp.Cluster, ipp.Client]:
    """Engines by the launcher for ssh, one after the other."""
    ssh, *ssh_args = ["ssh", "-F", str(nodes / "ssh_config")]
    settings = {
        "remote_python": sys.executable, "remote_profile_dir": "/tmp/ipp-profile",
        "ssh_cmd": [ssh], "ssh_args": ssh_args, "scp_args": ssh_args,
        "engine_cmd": [*python, "-m", "ipyparallel.engine"],
        "engines": dict.fromkeys(("node0", "node1"), RANKS_A_NODE),
    }  # fmt: skip
    config = ipp.Cluster().config.copy()
    config.SSHEngineSetLauncher.update(settings)
    config.SSHEngineLauncher.update(settings)
    cluster = ipp.Cluster(
        n=WORLD_SIZE, engines="ssh", controller_ip=me, controller_location=me, config=config,
        profile_dir="/tmp/ipp-notebook", log_level=40, cluster_id="",
    )  # fmt: skip
    client = cluster.start_and_connect_sync(activate=False)
    client.wait_for_engines(WORLD_SIZE, timeout=120, interactive=False)
    return cluster, client


def quick_start() -> tuple[Controller, ipp.Client]:
    """A controller by its command, and one ssh a node that starts the node's engines at once."""
    ssh = ["ssh", "-F", str(nodes / "ssh_config")]
    folder = Path("/tmp/ipp-notebook")
    words = [f"--ip={me}", f"--location={me}", f"--profile-dir={folder}", "--log-level=40"]
    controller = subprocess.Popen([sys.executable, "-m", "ipyparallel.controller", *words])
    key = folder / "security" / "ipcontroller-engine.json"
    while not (key.exists() and key.stat().st_size and (key.parent / "ipcontroller-client.json").exists()):
        time.sleep(0.1)
    words = ["env", "IPYTHONDIR=/tmp/ipp-engines", *python[1:], "-m", "ipyparallel.engine", "--file=/tmp/engine-key"]
    starts = " ".join(words)
    engines = [
        subprocess.Popen(
            [*ssh, node, f"umask 77; cat > /tmp/engine-key; for i in $(seq {RANKS_A_NODE}); do {starts} & done; wait"],
            stdin=key.open(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for node in ("node0", "node1")
    ]
    client = ipp.Client(str(key.parent / "ipcontroller-client.json"))
    client.wait_for_engines(WORLD_SIZE, timeout=240, interactive=False)
    return Controller(controller, engines, client), client


class Controller:
    def __init__(self, controller: subprocess.Popen, engines: list, client: ipp.Client) -> None:
        self.controller, self.engines, self.client = controller, engines, client

    def stop_cluster_sync(self) -> None:
        self.client.shutdown(hub=True, block=False)
        try:
            self.controller.wait(15)
        except subprocess.TimeoutExpired:
            say("client.shutdown(hub=True)", "the controller still runs 15 s later")
        for engine in self.engines:
            engine.kill()


def on_node1(command: str) -> None:
    subprocess.run(["ssh", "-F", str(nodes / "ssh_config"), "node1", command], check=True)


def alive(client: ipp.Client, limit_s: float = 5) -> list[int]:
    """The engines that answer a call in time."""
    asked = {engine: client[engine].apply_async(os.getpid) for engine in client.ids}
    time.sleep(0.1)
    client.wait(list(asked.values()), timeout=limit_s)
    return [engine for engine, answer in asked.items() if answer.ready() and answer.successful()]


def words_of(client: ipp.Client, message: str) -> str:
    try:
        return repr(client.get_result(message, owner=False).get(timeout=5))
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]


def failing(
    everyone: ipp.DirectView, function: object, *, ready: str = "", enough: int = WORLD_SIZE, limit_s: float = 60
) -> None:
    """A call that ought to fail: when each engine's answer comes, and its words."""
    call, clock, told = everyone.apply_async(function), Clock(), set()
    say(ready or "READY", "all are in a call")
    while time.perf_counter() - clock.began < limit_s and len(told) < enough:
        for number, future in enumerate(call._children):
            if number not in told and future.done():
                told.add(number)
                say(f"engine {number} after {clock}", words_of(everyone.client, call.msg_ids[number]))
        time.sleep(0.01)
    say("without an answer", sorted(set(range(len(everyone.targets))) - told))


def figures(client: ipp.Client, everyone: ipp.DirectView, pids: list[int]) -> None:
    say("None", median_ms(lambda: everyone.apply_sync(nothing)))
    say("None, broadcast view", median_ms(lambda: broadcast.apply_sync(nothing)) if (
        broadcast := client.broadcast_view(block=True)) else "")  # fmt: skip
    say("1 KiB all-reduce", median_ms(lambda: everyone.apply_sync(reduce_1k)))
    data = os.urandom(BIG)
    say("4 MB to one rank and back", median_ms(lambda: client[7].apply_sync(echo, 0, data), 10))
    say("4 MB to all and back", median_ms(lambda: everyone.apply_sync(echo, 0, data), 5))
    call = everyone.apply_async(stuck)
    time.sleep(2)
    clock, asked = Clock(), client[5].apply_async(os.getpid)
    asked.wait(5)
    say("a second request to a blocked rank", f"answered: {asked.ready()} after {clock}")
    stranger(client)
    say("READY", "")
    time.sleep(30)
    interrupt(client, everyone, call)
    say("answer a call now", alive(client))


def interrupt(client: ipp.Client, everyone: ipp.DirectView, call: ipp.AsyncResult) -> None:
    """Ctrl-C at the notebook, then SIGINT to the engines, as send_signal does it."""
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        call.get()
    except KeyboardInterrupt:
        say("Ctrl-C", "KeyboardInterrupt at the notebook; the ranks go on")
    clock = Clock()
    client.send_signal(signal.SIGINT, block=True)
    say("send_signal to all returned after", clock)
    call.wait(10)
    states = [future.done() for future in call._children]
    say("10 s after SIGINT, done by engine (0 sleeps, others in a collective)", states)


def stranger(client: ipp.Client) -> None:
    found = next(Path("/tmp/ipp-notebook/security").glob("*-client.json"))
    known = json.loads(found.read_text())
    urls = {name: f"{known['interface']}:{known[name]}" for name in ("registration", "iopub")}
    text = STRANGER.format(packages=sysconfig.get_path("purelib"), python=stranger_python, security=found, urls=urls)
    (nodes / "stranger.sh").write_text(text)
    say("key file", f"{oct(found.stat().st_mode)} {sorted(known)}")
    threading.Thread(target=lambda: (time.sleep(15), client[0].apply_async(nothing)), daemon=True).start()


def main(scenario: str) -> None:
    clock = Clock()
    cluster, client = start() if os.environ.get("LAUNCHER") == "ssh" else quick_start()
    say("engines registered after", clock)
    everyone = client[:]
    if scenario == "strangers":
        stranger(client)
        say("READY", "")
        time.sleep(30)
        return cluster.stop_cluster_sync()
    _store, port = hosted_store(me)
    calls = [client[engine].apply_async(meet, engine, me, port) for engine in range(WORLD_SIZE)]
    pids = [call.get() for call in calls]
    say(f"{WORLD_SIZE} ranks on {NODES} nodes have met after", clock)
    everyone.apply_sync(nothing)
    if scenario == "figures":
        figures(client, everyone, pids)
        cluster.stop_cluster_sync()
        return
    if scenario == "cut":
        threading.Timer(1, lambda: on_node1(f"kill -9 {pids[5]}")).start()
        failing(everyone, sleep_alone, ready="rank 5 is killed in a second", enough=1, limit_s=45)
        say("rank 5 killed; answer a call", alive(client))
        everyone = client[:]
        client.abort(block=False)
    failing(everyone, sleep_alone)
    say("cluster.stop_cluster_sync", "")
    cluster.stop_cluster_sync()


if __name__ == "__main__":
    main(sys.argv[1])
