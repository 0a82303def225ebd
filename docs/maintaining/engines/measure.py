"""Measure one engine on two nodes: measure.py PROGRAM PYTHON FOLDER ...

PROGRAM is measure_NAME.py beside this file, PYTHON the interpreter that has the engine and torch, each FOLDER one below
/tmp that both nodes shall see: a clone, virtual environments. Runs PROGRAM on the first node, once for each scenario.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tests" / "support"))
from two_nodes import ADDRESS, TwoNodes  # noqa: E402 - tests take the same nodes

SCENARIOS = ("figures", "cut", "dead", "killed")


def main(program: str, python: str, *share: str) -> None:
    wanted = os.environ.get("SCENARIOS", ",".join(SCENARIOS)).split(",")
    for scenario in wanted:
        print(f"== {program} {scenario}, load {os.getloadavg()[0]:.0f}", flush=True)
        with TwoNodes(share) as nodes:
            one(nodes, program, python, scenario)


def one(nodes: TwoNodes, program: str, python: str, scenario: str) -> None:
    env = {**os.environ, "NODES": str(nodes.folder), "PYTHONPATH": f"{HERE}:{HERE.parents[2]}", "TMPDIR": "/tmp"}
    env["CONTROLLER"] = ADDRESS[0]
    driver = nodes.popen(0, python, str(HERE / program), scenario, env=env, stdout=subprocess.PIPE)
    began = time.perf_counter()
    for line in driver.stdout:  # type: ignore[union-attr]
        print(f"{time.perf_counter() - began:7.2f}  {line.rstrip()}", flush=True)
        if "have met" in line:
            print(f"   CPU seconds of all processes until here: {cpu_seconds(nodes):.0f}", flush=True)
        if line.startswith("READY"):
            began = time.perf_counter()
            if scenario == "cut":
                strangers(nodes)
                began = time.perf_counter()
                nodes.cut()
            elif scenario == "dead":
                nodes.end_processes(1)
            elif scenario == "killed":
                driver.kill()
                break  # what it has started may hold its output open
            elif scenario in ("figures", "strangers", "rank"):
                show(nodes, "while it runs", (0, 1))
                strangers(nodes)
    driver.wait()
    show(nodes, "left, 2 s later", (0, 1), after_s=2)
    if scenario == "killed":
        show(nodes, "left, 30 s later", (0, 1), after_s=28)


def cpu_seconds(nodes: TwoNodes) -> float:
    """Of the processes on both nodes and the children that they have waited for."""
    times = []
    for process in (*nodes.processes(0), *nodes.processes(1)):
        with contextlib.suppress(psutil.Error):
            times.append(process.cpu_times())
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


def strangers(nodes: TwoNodes) -> None:
    """What another user of the first node is let do: each script there is tried as nobody."""
    for script in sorted(nodes.folder.glob("stranger*.sh")):
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", str(script)]
        try:
            done = subprocess.run(nodes.within(0, *words), capture_output=True, text=True, timeout=120)
            print(
                "   a stranger:",
                done.stdout[-700:].strip(),
                done.stderr[:600].strip(),
                done.stderr[-300:].strip(),
                flush=True,
            )
        except subprocess.TimeoutExpired as error:
            print("   a stranger: no answer in 120 s", error.stdout, error.stderr, flush=True)


def show(nodes: TwoNodes, when: str, which: tuple[int, ...], *, after_s: float = 0) -> None:
    time.sleep(after_s)
    for node in which:
        for kind, found in nodes.left(node).items():
            print(f"   node {node}, {when}: {len(found)} {kind}", *found, sep="\n      ", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
