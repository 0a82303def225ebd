"""Trials of what is said about checkpoints and logs when several processes train."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.claims.court.workloads import distance, mlp, weights
from course_lib.cluster.base.rank import Rank

__all__: list[str] = []


def _read_while_written(me: Rank, folder: str, by_rename: bool) -> str:
    """Rank 0 is half-way through a new checkpoint when rank 1 loads it."""
    path = Path(folder, "model.pt")
    if me.rank == 0:
        torch.save(mlp(seed=0).state_dict(), path)
        bytes_of_new = io.BytesIO()
        torch.save(mlp(seed=1).state_dict(), bytes_of_new)
        target = path.with_suffix(".new") if by_rename else path
        target.write_bytes(bytes_of_new.getvalue()[: bytes_of_new.tell() // 2])
    dist.barrier()
    if me.rank == 0:
        return ""
    loaded = mlp(seed=2)
    try:
        loaded.load_state_dict(torch.load(path, weights_only=True))
    except Exception as error:
        return f"{type(error).__name__}"
    is_old = distance(weights(loaded), weights(mlp(seed=0))) == 0
    return "the checkpoint before it, whole" if is_old else "something else"


def _print_a_line(me: Rank) -> None:
    print("epoch 1: loss 0.5")


@tries("C14")
def checkpoints_and_logs_need_care(ranks: Ranks) -> Evidence:
    """A log line as in a one-process script, and a checkpoint read while it is written."""
    num_lines = sum(len(text.splitlines()) for text in ranks(4).call(_print_a_line, show=False).text.values())
    with tempfile.TemporaryDirectory() as folder:
        in_place = ranks(2).run(_read_while_written, folder, by_rename=False)[1]
        by_rename = ranks(2).run(_read_while_written, folder, by_rename=True)[1]
    return Evidence(
        "holds" if num_lines > 1 and in_place != by_rename else "false",
        {
            "lines in the log, one print on 4 ranks": num_lines,
            "read in mid-write, written in place": in_place,
            "read in mid-write, written beside and renamed": by_rename,
        },
        because="each process prints and writes as a single process would. Let one process write a new file beside the "
        "old one, and rename it when all is on the disk",
        turns_if="only one process printed, and nobody read a checkpoint while it was written",
    )


@tries("D5")
def save_module_load_into_the_bare_model(ranks: Ranks) -> Evidence:
    """A wrapped model's state and its module's, each loaded into a bare model."""
    wrapped = nn.DataParallel(mlp(seed=0))
    outcomes = {}
    for name, state in {"model": wrapped.state_dict(), "model.module": wrapped.module.state_dict()}.items():
        bare = mlp(seed=1)
        try:
            bare.load_state_dict(state)
            outcomes[name] = "loads" if distance(weights(bare), weights(mlp(seed=0))) == 0 else "loads wrongly"
        except RuntimeError:
            outcomes[name] = "raises: keys missing"
    lenient = mlp(seed=1)
    before = weights(lenient)
    lenient.load_state_dict(wrapped.state_dict(), strict=False)
    rewrapped = nn.DataParallel(mlp(seed=1))
    rewrapped.module.load_state_dict(wrapped.module.state_dict())
    works = outcomes["model.module"] == "loads" and distance(weights(rewrapped), weights(wrapped)) == 0
    return Evidence(
        "holds" if works and outcomes["model"] != "loads" else "false",
        {
            "first key of the wrapped model": next(iter(wrapped.state_dict())),
            "first key of its module": next(iter(wrapped.module.state_dict())),
            "state of the wrapped model, into a bare one": outcomes["model"],
            "the same with strict=False, weights changed": bool(distance(weights(lenient), before)),
            "state of the module, into a bare one": outcomes["model.module"],
        },
        because='the wrapper puts "module." before every key. With strict=False the loader skips keys that do not fit: '
        "it loads nothing here, and raises nothing",
        turns_if="the wrapper left the names of the weights as they are, as FSDP2's fully_shard does: there is "
        "nothing to unwrap",
    )
