"""A class on one machine: processes that take their seats, written to be run by a bare Python.

``python a_class.py FOLDER NUM_LEARNERS NUM_GPUS RANKS [SLICES]`` starts that many at the same moment, as forks of this
process, on fake GPUs. Prints what each has got as JSON, a line each, then kills every second one and lets as many
newcomers take a seat, who are printed too.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from fake_nvml import FakeGpu, FakeNvml

from course_lib.devices import look
from course_lib.devices.torch_builds import TorchBuild


def machine_with(num_gpus: int, num_slices: int = 0):
    slices = tuple(FakeGpu(uuid=f"MIG-{n}") for n in range(num_slices))
    gpus = [FakeGpu(uuid=f"GPU-{n}-", bus=f"0000:{n:02x}:00.0") for n in range(num_gpus)]
    nvml = FakeNvml(gpus=(FakeGpu(mig=slices, mig_on=True),) if slices else tuple(gpus))
    return look(env=os.environ, nvml=nvml, build=TorchBuild("2.13.0", "13.0"))


def start(go: int, num_gpus: int, ranks: int, num_slices: int) -> tuple[int, int]:
    """A learner that sits down when it can read a byte from ``go``; its number, and where it tells its seat."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        here = machine_with(num_gpus, num_slices)
        os.read(go, 1)
        here.sit(ranks)
        os.write(tell, json.dumps(os.environ.get("CUDA_VISIBLE_DEVICES", "as it was")).encode())
        os.close(tell)
        signal.alarm(60)  # whatever happens to the one that started us
        signal.pause()
        os._exit(0)
    os.close(tell)
    return pid, told


def sit_down(num: int, *of_each: int) -> list[int]:
    wait, go = os.pipe()
    learners = [start(wait, *of_each) for _ in range(num)]
    os.write(go, b"x" * num)
    for _, told in learners:
        print(os.read(told, 4096).decode(), flush=True)
        os.close(told)
    return [pid for pid, _ in learners]


def main() -> None:
    os.environ["COURSE_SEATS"] = sys.argv[1]
    num, *of_each = (int(word) for word in [*sys.argv[2:], *(["0"] if len(sys.argv) == 5 else [])])
    pids = sit_down(num, *of_each)
    for pid in pids[::2]:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    pids[::2] = sit_down(len(pids[::2]), *of_each)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
