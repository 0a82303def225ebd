"""Trials of what is said about starting: which devices a script uses, what a rendezvous needs, what recv returns."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.claims.court.workloads import batch, mlp
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.devices import machine

__all__: list[str] = []


class _Devices(TorchDispatchMode):
    """Notes the device of every tensor that an operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.seen |= {str(leaf.device) for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)}
        return result


def _step(device: str | torch.device) -> set[str]:
    """One ordinary training step; the devices that it touched."""
    with _Devices() as devices:
        model = mlp().to(device)
        inputs, classes = (part.to(device) for part in batch(16))
        nn.functional.cross_entropy(model(inputs), classes).backward()
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9).step()
    return devices.seen - {"cpu"} or {"cpu"}  # data is loaded on the CPU in any case


@tries("B1")
def one_device_unless_told_otherwise(ranks: Ranks) -> Evidence:
    """A training step on the default device: how many devices does it touch?"""
    there = max(1, len(machine().devices))
    touched = _step("cuda" if machine().devices else "cpu")
    return Evidence(
        "holds" if len(touched) == 1 else "false",
        {"devices that the step touched": len(touched)},
        timings={"devices of this machine": there},
        because="a tensor lives on one device, and an operation runs where its tensors are. PyTorch alone uses no "
        "second device. A trainer built on PyTorch may: Hugging Face's wraps the model in nn.DataParallel if "
        "one process sees several GPUs",
        turns_if="the script asked for more: by nn.DataParallel, a device_map, or a trainer that wraps the model",
    )


def _two_are_named() -> int:
    """Devices that a script touches that names two: the control, for which "meta" is a device on any machine."""
    with _Devices() as devices:
        for device in ("cpu", "meta"):
            mlp().to(device)(batch(16)[0].to(device))
    return len(devices.seen)


@tries("E2")
def a_script_on_cuda_0_trains_on_four_gpus(ranks: Ranks) -> Evidence:
    """One step of a script that names one device: which devices does it touch?"""
    there = max(1, len(machine().devices))
    touched, counted = _step("cuda:0" if machine().devices else "cpu"), _two_are_named()
    return Evidence(
        "false" if len(touched) == 1 < counted else "holds",
        {"devices that the step touched": len(touched), "and a script that names two": counted},
        timings={"devices of this machine": there},
        because='a script that sees four devices does not have to use them. "cuda:0" is the name of one device, and '
        "the script sends nothing to another",
        turns_if="the script wrapped the model in nn.DataParallel, or was started with one process for each device",
    )


def _starts_without_address(me: Rank) -> str:
    """What ``mp.spawn`` leaves to its function, without an address: the error's kind and first sentence."""
    import os

    for name in ("MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    try:
        dist.init_process_group("gloo", rank=me.rank, world_size=me.world_size)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    dist.destroy_process_group()
    return ""


@tries("A5")
def backend_rank_and_world_size_are_all_the_set_up(ranks: Ranks) -> Evidence:
    """``init_process_group`` with these three arguments, on bare processes."""
    with Cluster(2, process_group=False) as bare:
        said = list(bare.run(_starts_without_address))
    failed = sum(bool(text) for text in said)
    return Evidence(
        "false" if failed == len(said) else "holds",
        {"ranks that started": len(said) - failed, "ranks that raised": failed, "the error": said[0]},
        because="processes must first find each other at the rendezvous, an address and a port. torchrun sets them, "
        f"and mp.spawn does not (its arguments are {', '.join(mp.spawn.__code__.co_varnames[:4])})",
        turns_if="MASTER_ADDR and MASTER_PORT were set, or an init_method or a store were given",
    )


@tries("A6")
def ddp_wraps_a_model_that_was_never_moved(ranks: Ranks) -> Evidence:
    """DDP with device_ids=[0] around a model on the CPU."""

    def wrap(me: Rank) -> str:
        if me.rank == 0:
            try:
                DistributedDataParallel(mlp().cpu(), device_ids=[0])
            except Exception as error:
                return f"{type(error).__name__}: {str(error).splitlines()[0]}"
        return ""

    said = ranks(1).run(wrap)[0]
    return Evidence(
        "false" if said else "holds",
        {"it": f"raises {said}" if said else "wraps the model"},
        because="DDP moves inputs to that device, and does not move weights: the model must be there first",
        turns_if="DDP moved the model by itself. Without device_ids it wraps a model on the CPU, and trains it there",
    )


def _recv(me: Rank) -> tuple[str, str, float] | None:
    buffer = torch.zeros(1)
    if me.rank == 0:
        dist.send(torch.full((1,), 42.0), dst=1)
        return None
    try:
        as_written = repr(dist.recv(0))  # type: ignore[arg-type]
    except TypeError as error:
        as_written = f"raises {type(error).__name__}"
    returned = dist.recv(buffer, src=0)
    return as_written, f"{returned!r} ({type(returned).__name__})", buffer.item()


@tries("A9")
def recv_returns_the_tensor(ranks: Ranks) -> Evidence:
    """Rank 0 sends 42: what does ``recv`` return on rank 1, and what is in the buffer?"""
    as_written, returned, in_buffer = ranks(2).run(_recv)[1]
    return Evidence(
        "holds" if "tensor" in as_written or "Tensor" in returned else "false",
        {
            "sent": 42.0,
            "dist.recv(0)": as_written,
            "dist.recv(buffer, src=0) returned": returned,
            "the buffer holds": in_buffer,
        },
        because="recv fills the tensor that you pass, and returns the rank it came from",
        turns_if="recv came from a library whose recv returns the received object, such as mpi4py",
    )


def _half_a_model(me: Rank, send_gradient_back: bool) -> int:
    """The first layer on rank 0, the rest on rank 1; returns how many parameters have a gradient here."""
    first, *rest = mlp()
    part = first if me.rank == 0 else nn.Sequential(*rest)
    inputs, classes = batch(16)
    if me.rank == 0:
        output = part(inputs)
        dist.send(output.detach() if send_gradient_back else output, dst=1)
        if send_gradient_back:
            dist.recv(gradient := torch.empty_like(output), src=1)
            output.backward(gradient)
    else:
        arrived = torch.empty(16, 16, dtype=torch.float64)
        dist.recv(arrived, src=0)
        nn.functional.cross_entropy(part(arrived.requires_grad_()), classes).backward()
        if send_gradient_back:
            assert arrived.grad is not None
            dist.send(arrived.grad, dst=0)
    return sum(parameter.grad is not None for parameter in part.parameters())


@tries("A10")
def sending_activations_is_enough_to_train(ranks: Ranks) -> Evidence:
    """A model in two halves: how many of the first half's parameters get a gradient?"""
    only_forward = list(ranks(2).run(_half_a_model, send_gradient_back=False))
    and_back = list(ranks(2).run(_half_a_model, send_gradient_back=True))
    return Evidence(
        "false" if only_forward[0] == 0 and all(and_back) else "holds",
        {
            "with gradients, first half / second half": f"{only_forward[0]} of 2 / {only_forward[1]} of 2",
            "when the gradient is sent back": f"{and_back[0]} of 2 / {and_back[1]} of 2",
        },
        because="autograd's graph ends with the process: send and recv are not in it, and no error says so",
        turns_if="the gradient was sent back, as in the last row, or only the second half was to be trained",
    )
