"""Ranks that save checkpoints are killed at random moments; what is found then is whole, and its step never goes back.

As a script: ``python tests/support/kill_trials.py KIND COUNT SEED``, KIND being sharded or mesh. Each trial starts 1 to
4 ranks, which load the newest checkpoint, go on from its step, and do nothing but save. One of them or all are killed.
Then everything in the newest checkpoint has to be of one step: the ranks fill weights and optimizer states with the
number of the step. A line for each fault, and last how many trials there were, and how many left a save unfinished.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import mesh_cases
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from sharded_cases import odd
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from course_lib.cluster import Rank
from course_lib.layouts.mesh import Mesh
from course_lib.parallel.mesh import OnMesh, load_on_mesh, save_on_mesh
from course_lib.parallel.sharded import FullySharded, load_sharded, newest_checkpoint, save_sharded

MESHES = ("tp=1", "dp_replicate=2", "dp_shard=2", "tp=2", "pp=2", "dp_replicate=2 tp=2")
LIMIT_S = 120.0  # against hangs


def begun(kind: str, me: Rank) -> tuple[Any, Any, Any]:
    """The job of this rank, and how it loads and saves."""
    if kind == "sharded":
        return FullySharded(me, odd()), load_sharded, save_sharded
    fitting = [mesh for mesh in map(Mesh.parse, MESHES) if mesh.num_ranks == me.world_size]
    mesh = random.Random(os.environ["TRIAL"]).choice(fitting)
    return OnMesh(me, mesh, mesh_cases.whole("tied")), load_on_mesh, save_on_mesh


def numbers_of(parameters: list[torch.Tensor], optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    states = [value for state in optimizer.state.values() for value in state.values()]
    return [p.detach() for p in parameters] + [value for value in states if isinstance(value, torch.Tensor)]


def save_for_ever(kind: str, me: Rank, root: Path, ready: Connection) -> None:
    model, load, save = begun(kind, me)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=0.1)
    for p in parameters:
        p.grad = torch.zeros_like(p)
    optimizer.step()  # now it has states
    numbers, step = numbers_of(parameters, optimizer), 0
    newest = newest_checkpoint(root)
    if newest is not None:
        load(newest, model, optimizer)
        step = step_of(newest)
        numbers = numbers_of(parameters, optimizer)
        assert all((number == step).all() for number in numbers), f"rank {me.rank} has loaded a mixture"
    dist.barrier()
    while True:
        if me.rank == 0:
            ready.send(step)
        step += 1
        for number in numbers:
            number.fill_(step)
        save(root / f"step-{step}", model, optimizer)
        if me.rank == 0 and step > 2:  # the one before the last is not needed any more
            shutil.rmtree(root / f"step-{step - 2}", ignore_errors=True)


def rank(kind: str, number: int, world_size: int, root: Path, meeting: str, ready: Connection) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    store = dist.FileStore(meeting, world_size)
    dist.init_process_group("gloo", store=store, rank=number, world_size=world_size)
    try:
        save_for_ever(kind, Rank(number, world_size, torch.device("cpu"), "gloo"), root, ready)
    except BaseException as error:  # another rank was killed, unless it came before "ready"
        with contextlib.suppress(OSError):
            ready.send("".join(traceback.format_exception(error)))
    os._exit(0)


def step_of(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def found(root: Path) -> int:
    """The step of the newest checkpoint; ``AssertionError`` where not all in it is of this step."""
    newest = newest_checkpoint(root)
    if newest is None:
        return 0
    known = dcp.FileSystemReader(newest).read_metadata().state_dict_metadata
    trained = {key.split(".", 1)[1].rsplit(".", 1)[0] for key in known if key.startswith("optimizer.")}
    state = {
        key: torch.zeros(one.size, dtype=one.properties.dtype)
        for key, one in known.items()
        if isinstance(one, TensorStorageMetadata)
        and (key.startswith("optimizer.") or key.removeprefix("model.") in trained)
    }
    assert len(state) > 20  # weights, and three states of each
    dcp.load(state, checkpoint_id=newest, no_dist=True)
    for key, value in state.items():
        assert (value == step_of(newest)).all(), f"{key} in {newest.name} is of another step: {value.unique()}"
    return step_of(newest)


def unfinished(root: Path) -> int:
    return sum(not (folder / ".metadata").exists() for folder in root.iterdir())


def trial(kind: str, number: int, root: Path, chance: random.Random, usual_s: list[float]) -> None:
    """Start ranks, kill one or all of them within a save, and wait until none is left."""
    os.environ["TRIAL"] = str(number)
    world_size = chance.choice((1, 2, 2, 4) if kind == "mesh" else (1, 2, 3))
    context = multiprocessing.get_context("fork")  # torch is there; nothing of it has been started here
    hear, say = context.Pipe(duplex=False)
    meeting = str(root.parent / f"meeting-{number}")
    ranks = [context.Process(target=rank, args=(kind, n, world_size, root, meeting, say)) for n in range(world_size)]
    for one in ranks:
        one.start()
    try:
        for _ in range(chance.randint(1, 4)):  # saves begin
            began_s = time.monotonic()
            assert hear.poll(LIMIT_S), "the ranks did not begin"
            told = hear.recv()
            assert isinstance(told, int), told
            usual_s[:] = [*usual_s[-8:], time.monotonic() - began_s]
        time.sleep(chance.uniform(0, min(usual_s)))
        victims = ranks if chance.random() < 0.5 else [chance.choice(ranks)]
        for one in victims:
            os.kill(one.pid, signal.SIGKILL)  # type: ignore[arg-type]  # it was started
        for one in ranks:
            one.join(LIMIT_S)
            assert one.exitcode is not None, "a rank waits for one that was killed"
    finally:
        for one in ranks:
            one.kill()
            one.join()


def trials(kind: str, count: int, seed: int) -> int:
    chance, last, faults, num_unfinished = random.Random(seed), 0, 0, 0
    usual_s = [0.5]  # from one save to the next, the latest
    with tempfile.TemporaryDirectory() as home:
        root = Path(home) / "checkpoints"
        root.mkdir()
        for number in range(count):
            try:
                trial(kind, number, root, chance, usual_s)
                num_unfinished += unfinished(root) > 0
                step = found(root)
                assert step >= last, f"step {step} was found, and {last} before"
                last = step
            except Exception:
                faults += 1
                print(f"FAULT in trial {number}: {traceback.format_exc()}", flush=True)
    print(f"{count} trials, {num_unfinished} left a save unfinished, step {last} in the end, {faults} faults")
    return faults


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.exit(trials(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])) > 0)
