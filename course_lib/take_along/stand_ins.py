"""Programs of a cluster for a machine that has none: each does as much as a launch script asks of it, and notes it.

They are texts for a folder that stands first on the PATH. ``torchrun`` starts nothing: it writes its words and the
variables that it found to a file. ``srun`` and ``ssh`` run their command here, as each task or host would.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["write_long_job", "write_stand_ins"]

_SCONTROL = """
import os, sys
if sys.argv[1:3] == ["show", "hostnames"]:
    print(os.environ["SLURM_JOB_NODELIST"].replace(",", "\\n"))
else:
    with open(os.environ["STAND_IN_NOTES"] + ".scontrol", "a") as notes:
        notes.write(" ".join(sys.argv[1:]) + "\\n")
"""

_SCANCEL = """
import os, sys
with open(os.environ["STAND_IN_NOTES"] + ".scancel", "a") as notes:
    notes.write(" ".join(sys.argv[1:]) + "\\n")
"""

_SRUN = """
import os, subprocess, sys
words = sys.argv[1:]
while words and words[0].startswith("-"):
    words.pop(0)
nodes = os.environ["SLURM_JOB_NODELIST"].split(",")
tasks = int(os.environ["SLURM_NTASKS_PER_NODE"])
codes = []
for task in range(len(nodes) * tasks):
    node = task // tasks
    place = {"SLURM_PROCID": str(task), "SLURM_NODEID": str(node), "SLURM_LOCALID": str(task % tasks)}
    place["SLURMD_NODENAME"] = nodes[node]
    codes.append(subprocess.run(words, env={**os.environ, **place}).returncode)
sys.exit(max(codes))
"""

_SSH = """
import os, sys
words, flags = sys.argv[1:], []
while words[0].startswith("-"):
    flag = words.pop(0)
    flags.append(flag if flag != "-o" else words.pop(0))
host, command = words
os.execvpe("bash", ["bash", "-c", command], {**os.environ, "STAND_IN_HOST": host})
"""

_TORCHRUN = """
import fcntl, json, os, sys
note = {"words": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}
with open(os.environ["STAND_IN_NOTES"], "a") as notes:
    fcntl.flock(notes, fcntl.LOCK_EX)
    notes.write(json.dumps(note) + "\\n")
"""

_SRUN_OF_A_LONG_JOB = """
import os, signal, sys, time
notes, script = os.environ["STAND_IN_NOTES"], os.getppid()
def end(said, code):
    with open(notes, "a") as file:
        file.write(said + "\\n")
    os._exit(code)
def by_scancel(*_):
    name = open(notes + ".scancel").read()
    if name == "TERM":
        end("every process of the step got SIGTERM: ranks save, and leave", 143)
    if name:
        end(f"every process of the step got SIG{name}: the ranks know nothing of it, and do not save", 128)
    os.kill(script, signal.SIGKILL)
    end("scancel without a signal has ended the job, the script too", 137)
on = signal.signal
on(signal.SIGTERM, lambda *_: end("srun got SIGTERM: it kills its step at once", 137))
on(signal.SIGUSR1, lambda *_: end("srun hands SIGUSR1 on: the ranks know nothing of it, and do not save", 138))
on(signal.SIGALRM, lambda *_: end("time is up: Slurm kills the job", 137))
on(signal.SIGUSR2, by_scancel)
with open(notes + ".step", "w") as file:
    file.write(str(os.getpid()))
def has_a_trap():  # Linux tells which signals a process catches
    caught = [line.split()[1] for line in open(f"/proc/{script}/status") if line.startswith("SigCgt")]
    return int(caught[0], 16) >> (signal.SIGUSR1 - 1) & 1
began_s, can_see = time.monotonic(), os.path.exists("/proc/self/status")
while time.monotonic() < began_s + (5 if can_see else 1) and not (can_see and has_a_trap()):
    time.sleep(0.05)
signal.alarm(15)  # for a script that ends nobody
os.kill(script, signal.SIGUSR1)
while os.getppid() == script:
    time.sleep(0.1)
end("the script has ended, and Slurm ends what it has started", 137)
"""

_SCANCEL_OF_A_LONG_JOB = """
import getopt, os, signal, sys
try:
    found, jobs = getopt.gnu_getopt(sys.argv[1:], "s:bf", ["signal=", "batch", "full"])
except getopt.GetoptError as error:
    sys.exit(f"scancel: {error}")
asked = dict(found).get("--signal", dict(found).get("-s", "")).upper()
name = signal.Signals(int(asked)).name if asked.isdigit() else asked
if os.environ["SLURM_JOB_ID"] not in jobs:
    sys.exit(f"scancel: {jobs} is not this job")
notes = os.environ["STAND_IN_NOTES"]
with open(notes + ".scancel", "w") as file:
    file.write(name.removeprefix("SIG"))
os.kill(int(open(notes + ".step").read()), signal.SIGUSR2)
"""

_PKILL = """
import os
with open(os.environ["STAND_IN_NOTES"], "a") as notes:
    notes.write("pkill reaches processes of this node alone: those of other nodes hear nothing\\n")
"""

_ALL = {"scontrol": _SCONTROL, "scancel": _SCANCEL, "srun": _SRUN, "ssh": _SSH, "torchrun": _TORCHRUN}


def write_stand_ins(folder: Path, names: tuple[str, ...] = tuple(_ALL)) -> None:
    """Write the programs ``names`` into ``folder``, ready to run, for this Python."""
    for name in names:
        _write(folder / name, _ALL[name])


def write_long_job(folder: Path) -> None:
    """Write the stand-ins of a job whose time is nearly up: as soon as the script has a trap, it gets SIGUSR1.

    ``srun`` does with SIGTERM what Slurm's does, which is to kill its step; ``scancel --signal`` reaches the processes
    of the step (seen so with Slurm 22.05).
    """
    write_stand_ins(folder, ("scontrol",))
    _write(folder / "srun", _SRUN_OF_A_LONG_JOB)
    _write(folder / "scancel", _SCANCEL_OF_A_LONG_JOB)
    for name in ("pkill", "killall"):
        _write(folder / name, _PKILL)


def _write(path: Path, text: str) -> None:
    path.write_text(f"#!{sys.executable} -IS\n{text}")
    path.chmod(0o755)
