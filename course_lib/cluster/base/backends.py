"""Which device each rank takes, and who carries its messages, for what this machine has.

==================  ==============================  =====================================================
GPUs                ranks                           back end
==================  ==============================  =====================================================
none                any number, on the CPU          gloo
at least one each   one GPU per rank                nccl
fewer than ranks    several ranks on one GPU        gloo with CUDA tensors (collectives through the host,
                                                    no send/recv: see ``point_to_point``)
fewer than ranks    asked for as "nccl-shared"      nccl, told that its ranks sit on different hosts
==================  ==============================  =====================================================

Verified on CPU machines only so far (torch 2.13, gloo). The GPU rows follow PyTorch's and NCCL's documents:
gloo's CUDA support (distributed.md, "Backends"), ``NCCL_HOSTID`` up to NCCL 2.29 and
``NCCL_MULTI_RANK_GPU_ENABLE`` from 2.30 (NCCL user guide, environment variables).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BACKENDS", "RankDevice", "rank_devices", "shared_nccl_env"]

BACKENDS = ("auto", "gloo", "nccl", "nccl-shared")


@dataclass(frozen=True)
class RankDevice:
    """Where one rank sits: its device ("cpu", "cuda:1") and its back end ("gloo", "nccl" or "nccl-shared")."""

    device: str
    backend: str


def rank_devices(world_size: int, *, backend: str = "auto", num_gpus: int) -> tuple[RankDevice, ...]:
    """One seat per rank.

    Raises ``ValueError`` for an unknown back end, or one that this machine cannot give to so many ranks.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend={backend!r} is not one of {', '.join(BACKENDS)}; 'auto' fits every machine")
    if backend == "nccl" and num_gpus < world_size:
        raise ValueError(
            f"backend='nccl' needs one GPU per rank: {world_size} ranks, {num_gpus} GPUs here. "
            + (f"Use at most {num_gpus} ranks, or backend='auto'." if num_gpus else "Use backend='auto'.")
        )
    if backend == "nccl-shared" and num_gpus == 0:
        raise ValueError("backend='nccl-shared' puts several ranks on one GPU, and this machine has no GPU: use 'auto'")
    if num_gpus == 0:
        return tuple(RankDevice("cpu", "gloo") for _ in range(world_size))
    if backend == "auto":
        backend = "nccl" if num_gpus >= world_size else "gloo"
    return tuple(RankDevice(f"cuda:{rank % num_gpus}", backend) for rank in range(world_size))


def shared_nccl_env(rank: int, nccl_version: tuple[int, ...]) -> dict[str, str]:
    """Settings by which NCCL takes several ranks on one GPU; each version has its own way. Not yet run on a GPU.

    A missing channel makes NCCL hang rather than fail, so such a run relies on its ``timeout_s``.
    """
    if nccl_version >= (2, 30):
        # Few channels: leave some to the others.
        return {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_CTAS": "2"}
    return {"NCCL_HOSTID": f"course-rank-{rank}"}  # the ranks look like separate hosts, joined by sockets
