"""A temporary folder that a notebook and the ranks of its cluster see, on whichever machines they are.

On one machine that is any folder. Ranks on nodes may have disks of their own; so each of them is asked to write there.
"""

from __future__ import annotations

import os
import socket
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from course_lib.base.paths import cache_dir, course_command
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base import temp_dirs
from course_lib.cluster.base.rank import Rank

__all__ = ["folder_for_ranks"]


def folder_for_ranks(cluster: Cluster) -> TemporaryDirectory[str]:
    """A new folder for files that the ranks of ``cluster`` and this notebook share; a ``TemporaryDirectory``.

    It is tried where temporary files are (``TMPDIR`` names that), and in your home; on nodes all ranks are called once
    for each. Raises ``ValueError`` where the nodes share neither with this notebook, ``TypeError`` for what is no
    cluster.
    """
    if not isinstance(cluster, Cluster):
        raise TypeError(f"folder_for_ranks needs a Cluster, such as shared_cluster(4); you gave {cluster!r:.100}")
    if not cluster.is_on_nodes:
        return TemporaryDirectory()
    tried = []
    for parent, folder in _folders():
        if folder is not None and _is_seen_by(cluster, Path(folder.name)):
            return folder
        tried.append(str(parent))
        if folder is not None:
            folder.cleanup()
    raise ValueError(
        f"your nodes share no folder with this notebook: neither {' nor '.join(tried)} is one folder for all. Set "
        "TMPDIR to a folder on a disk that they share, before you start JupyterLab. Or type "
        f"`{course_command()} nodes down` and restart the kernel: your ranks are on this machine then"
    )


def _folders() -> Iterator[tuple[Path, TemporaryDirectory[str] | None]]:
    """The places to try, and a new folder in each, where one can be made."""
    for parent in (Path(tempfile.gettempdir()), cache_dir() / "ranks" / socket.gethostname()):
        try:
            parent.mkdir(parents=True, exist_ok=True)
            yield parent, _swept_folder(parent)
        except OSError:
            yield parent, None


def _swept_folder(parent: Path) -> TemporaryDirectory[str]:
    """A new folder whose place the next notebook sweeps, should this one be killed."""
    outer = temp_dirs.make(parent)
    folder = TemporaryDirectory(dir=outer)
    weakref.finalize(folder, temp_dirs.remove, outer)
    return folder


def _is_seen_by(cluster: Cluster, folder: Path) -> bool:
    """Whether a file that each rank writes there is here too."""
    cluster.call(_write_there, (str(folder),), show=False)
    written = set(os.listdir(folder))
    for name in written:
        (folder / name).unlink()
    return written == {str(rank) for rank in range(cluster.world_size)}


def _write_there(me: Rank, folder: str) -> None:
    try:
        Path(folder, str(me.rank)).touch()
    except OSError:
        return  # it has no such folder, or may not write
