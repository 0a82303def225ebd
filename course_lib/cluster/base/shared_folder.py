"""Whether all nodes see one folder: asked before ranks of several nodes write their parts of a checkpoint into it.

Ranks that lie on one machine are not asked, and nothing is sent.
"""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

import torch.distributed as dist

__all__ = ["check_all_nodes_see", "check_shared_folder"]


def check_shared_folder(folder: str | Path) -> None:
    """Rank 0 writes a probe into ``folder``, and the first rank of each node looks for it. A collective of all ranks.

    Raises ``ValueError`` on all of them where a node does not see it, or rank 0 cannot write there.
    """
    if not _on_several_nodes():
        return
    folder, told = Path(folder), [None, None]
    if dist.get_rank() == 0:
        told = _written(folder)
    dist.broadcast_object_list(told, src=0)
    probe, error = told
    if error is not None:
        raise ValueError(f"rank 0 cannot write into {folder}: {error}. Give a folder that all nodes share")
    assert probe is not None
    blind = _blind(_looks(folder / probe))
    if dist.get_rank() == 0:
        (folder / probe).unlink(missing_ok=True)
    if blind:
        raise ValueError(
            f"{folder} is not one folder for all nodes: {_in_words(blind)} not see what rank 0 wrote there. Parts of "
            "a checkpoint would lie on several machines, and no rank could load them all. Give a folder on a disk "
            "that they share, or gather the model and have rank 0 write it: full_state_dict(), then save_by_one()"
        )


def check_all_nodes_see(file: str | Path) -> None:
    """Raise ``ValueError`` on all ranks where some nodes see this file of a checkpoint and others do not.

    A collective of all ranks.
    """
    if not _on_several_nodes():
        return
    looks = _looks(Path(file))
    blind = _blind(looks)
    if 0 < len(blind) < len(looks):
        raise ValueError(
            f"{Path(file).parent} is not one folder for all nodes: {_in_words(blind)} not see {Path(file).name} in it, "
            "and others do. Copy the folder to a disk that they share, and load it from there"
        )


def _on_several_nodes() -> bool:
    return os.environ.get("LOCAL_WORLD_SIZE", "") != os.environ.get("WORLD_SIZE", "") and dist.is_initialized()


def _written(folder: Path) -> list[str | None]:
    """The name of a new file there, or why there is none."""
    probe = f".seen-by-all-{secrets.token_hex(8)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / probe).touch()
    except OSError as error:
        return [None, error.strerror or str(error)]
    return [probe, None]


def _looks(file: Path) -> dict[int, tuple[str, bool]]:
    """By the first rank of each node: its host name, and whether it sees the file."""
    looks = os.environ.get("LOCAL_RANK") == "0"
    seen: list[tuple[str, bool] | None] = [None] * dist.get_world_size()
    dist.all_gather_object(seen, (socket.gethostname(), _sees(file)) if looks else None)
    return {rank: look for rank, look in enumerate(seen) if look is not None}


def _blind(looks: dict[int, tuple[str, bool]]) -> dict[int, str]:
    """Of these the host names of the nodes that do not see it."""
    return {rank: host for rank, (host, sees) in looks.items() if not sees}


def _sees(file: Path) -> bool:
    return file.exists()


def _in_words(blind: dict[int, str]) -> str:
    names = [f"{host} (rank {rank})" for rank, host in blind.items()]
    return f"{', '.join(names)} {'does' if len(names) == 1 else 'do'}"
