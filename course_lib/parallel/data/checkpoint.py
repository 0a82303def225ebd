"""A checkpoint that one rank writes and all ranks load, and that no crash can spoil.

Whoever writes over the only copy loses both when the power goes. So the new one is written beside the old:

1. write a *draft*, a neighbour in the same folder (a rename works within one file system only);
2. flush and fsync: the content is on the disk, not in some buffer;
3. ``os.replace``: the name now means the new file; it is atomic: POSIX promises that nobody ever sees half of it;
4. fsync the folder: the renaming itself is on the disk.

A process that dies before step 3 leaves the old checkpoint as it was, and a draft which the next save removes. Two
that save at once do not disturb each other: the name means the file of whoever renamed last.
Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014, shows what goes wrong without steps 2 and 4.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import torch
import torch.distributed as dist

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.data.atomic_files import draft_of, drafts_of

__all__ = ["CheckpointError", "load_checkpoint", "load_on_all", "save_by_one", "save_checkpoint"]

T = TypeVar("T")

_OF_DAMAGE = (  # what parsers say of spoilt bytes
    zipfile.BadZipFile, pickle.UnpicklingError, RuntimeError, ValueError, LookupError, EOFError, OSError,
    OverflowError, struct.error, zlib.error,
)  # fmt: skip


class CheckpointError(RuntimeError):
    """A checkpoint could not be written or read; the message says why, and what there is instead."""


def save_checkpoint(path: str | os.PathLike[str], state: Any) -> None:
    """Write ``state`` to ``path``, wholly or not at all. *One* process may do so: see ``save_by_one``.

    ``state`` is made of tensors, numbers, strings, lists and dicts, as ``state_dict()`` of models and
    optimizers is; objects of other classes are refused here, because ``load_checkpoint`` would refuse them later.

    Where ``path`` is a link, what it leads to is replaced, unless the link is another user's. Raises
    ``CheckpointError`` where it cannot be written; what was at ``path`` before is then still there.
    """
    path = Path(path)
    _check_target(path)
    target = Path(os.path.realpath(path))  # a link such as latest.pt stays one: what it leads to is replaced
    try:
        with draft_of(target) as (draft, file):
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
            _check_that_it_will_load(draft)
            os.replace(draft, target)
    except (OSError, RuntimeError, pickle.PicklingError, TypeError, AttributeError) as error:
        kept = "; the checkpoint that was there is untouched" if path.exists() else ""
        raise CheckpointError(f"{path} could not be written: {_reason(error)}{kept}") from error
    _fsync_folder(target.parent)


def load_checkpoint(path: str | os.PathLike[str], map_location: str | torch.device = "cpu") -> Any:
    """Read what ``save_checkpoint`` wrote; its tensors are put on ``map_location``.

    The file is read twice: first against the checksums in it, which ``torch.load`` ignores. Nothing in it is run
    (``weights_only=True``), so a file from strangers does no harm.

    Raises ``CheckpointError`` where there is no file, or one that is cut off, damaged, or holds other objects, and
    ``ValueError`` for a ``map_location`` that this machine does not have.
    """
    path = Path(path)
    _check_device(map_location)
    with _opened(path) as file:
        return _unpack(file, path, map_location)


def save_by_one(me: Rank, path: str | os.PathLike[str], state: Any) -> None:
    """Rank 0 writes its ``state``; all ranks return when the file is complete.

    Every rank has to call it. What is sent is small: a broadcast of what became of it. Where rank 0 fails, all
    ranks raise the same ``CheckpointError``: nobody trains on in the belief that the work is safe.
    """
    _by_rank_0(me, lambda: save_checkpoint(path, state))


def load_on_all(me: Rank, path: str | os.PathLike[str]) -> Any:
    """Rank 0 reads the file and broadcasts its bytes; every rank unpacks them, onto the CPU.

    So only rank 0 needs to see the file, and a shared disk is read once and not once a rank. The price is a
    message as large as the checkpoint (a file too large for that is a case for *sharded* checkpoints). All ranks
    raise the same ``CheckpointError`` where rank 0 cannot read it.
    """
    path = Path(path)

    def read() -> bytes:
        with _opened(path) as file:
            return file.read()

    return _unpack(io.BytesIO(_by_rank_0(me, read)), path, "cpu")


def _by_rank_0(me: Rank, action: Callable[[], T]) -> T:
    """Rank 0 acts; every rank gets what came of it, or raises the same error. The others wait in the broadcast."""
    outcome: list[Any] = [None, None]  # the result, and the story of the error
    failure = None
    if me.rank == 0:
        try:
            outcome[0] = action()
        except CheckpointError as error:
            failure = error
        except Exception as error:  # whatever it is: the others must not hang
            failure = CheckpointError(f"rank 0 failed: {type(error).__name__}: {error}")
        outcome[1] = str(failure) if failure else None
    dist.broadcast_object_list(outcome, src=0)
    result, story = outcome
    if story is not None:
        raise failure or CheckpointError(story)
    return result


def _unpack(file: BinaryIO, path: Path, map_location: str | torch.device) -> Any:
    """The state in an open checkpoint; ``path`` is what messages call it."""
    try:
        damaged = _damaged(file)
        refused = "" if damaged else _refused(file)
        if not damaged and not refused:
            return _loaded(file, path, map_location)
    except CheckpointError:
        raise
    except _OF_DAMAGE as error:
        raise CheckpointError(
            f"{path} is no checkpoint, or was cut off, or damaged.{_others_in_folder(path)}"
        ) from error
    if damaged:
        raise CheckpointError(f"{path} is damaged: {damaged}.{_others_in_folder(path)}")
    raise CheckpointError(f"{path} was not loaded: {refused}")


def _damaged(file: BinaryIO) -> str:
    """What is wrong with the archive that ``torch.save`` writes: stored as it is, with a checksum for each tensor."""
    size_bytes = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            return "it holds compressed data, which torch.save never writes"
        if sum(part.file_size for part in parts) > size_bytes:
            return "its parts are larger than the file"  # they overlap: to read them all could take for ever
        spoilt = archive.testzip()
    return f"{spoilt} in it does not match its checksum" if spoilt else ""


def _loaded(file: BinaryIO, path: Path, map_location: str | torch.device) -> Any:
    try:
        return _load(file, map_location)
    except _OF_DAMAGE as error:
        if torch.device(map_location).type == "cpu":
            raise
        _load(file, "cpu")  # raises too where the file is at fault
        raise CheckpointError(
            f"{path} is a good checkpoint, but its tensors could not be put on {map_location}: {_reason(error)}. "
            "Load it with map_location='cpu', and move what you need."
        ) from error


def _load(file: BinaryIO, map_location: str | torch.device) -> Any:
    file.seek(0)
    return torch.load(file, map_location=map_location, weights_only=True)


def _check_device(device: str | torch.device) -> None:
    """Raise ``ValueError`` for a device that this machine does not have, before a good file gets the blame."""
    try:
        if not isinstance(device, str | torch.device):
            raise TypeError("a device is a text or a torch.device")
        torch.empty(0, device=device)
    except Exception as error:  # each back end has its own for "not here"
        gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        raise ValueError(
            f"map_location={device!r} is no device of this machine ({_reason(error).splitlines()[0]}); it has "
            f"{', '.join(['cpu', *gpus])}. Use 'cpu' if in doubt."
        ) from error


def _refused(file: BinaryIO | Path) -> str:
    """What ``weights_only`` refuses to load from this file, as a sentence; empty when it loads."""
    if not isinstance(file, Path):
        file.seek(0)
    names = ", ".join(sorted(torch.serialization.get_unsafe_globals_in_checkpoint(file)))
    return f"it holds {names}; allowed are tensors, numbers, strings, and lists and dicts of them" if names else ""


def _check_that_it_will_load(draft: Path) -> None:
    refused = _refused(draft)
    if refused:
        raise TypeError(refused)


def _check_target(path: Path) -> None:
    if path.is_dir():
        raise CheckpointError(f"{path} is a folder; give the name of a file in it, such as {path / 'last.pt'}")
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is {_kind(path)}, and not a file; give the name of a file, such as last.pt")
    if path.is_symlink() and os.path.islink(os.path.realpath(path)):
        raise CheckpointError(f"{path} is a link to itself; remove it, or give another name")
    _check_links(path)
    if not path.parent.is_dir():
        nearest = next(folder for folder in path.absolute().parents if folder.is_dir())
        raise CheckpointError(
            f"{path} cannot be written: there is no folder {path.parent}. Make it first; what exists is {nearest}"
        )


def _check_links(path: Path) -> None:
    """A link of one's own says where the file is to lie; one that somebody else has laid would choose what is lost."""
    while path.is_symlink():
        if hasattr(os, "geteuid") and _owner(path) not in (os.geteuid(), 0):
            raise CheckpointError(
                f"{path} is a link of another user, to {os.readlink(path)}: saving there would replace that file. "
                "Remove the link, or give the name of a file"
            )
        path = path.parent / os.readlink(path)


def _owner(link: Path) -> int:
    return link.lstat().st_uid


def _kind(path: Path) -> str:
    mode = path.stat().st_mode
    return "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"


def _opened(path: Path) -> BinaryIO:
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # to open a pipe could wait for ever
            raise CheckpointError(f"{path} is {_kind(path)}, and no checkpoint.{_others_in_folder(path)}")
        return path.open("rb")
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no checkpoint {path}.{_others_in_folder(path)}") from error
    except OSError as error:
        raise CheckpointError(f"{path} could not be read: {_reason(error)}") from error


def _others_in_folder(path: Path) -> str:
    """What there is instead: the newest other checkpoint in the folder, and drafts."""
    others = [
        other
        for other in path.parent.glob("[!.]*")
        if other.suffix == path.suffix and other != path and other.is_file()
    ]
    newest = max(others, key=lambda other: other.stat().st_mtime, default=None)
    text = f" The newest other one in its folder is {newest.name}." if newest else ""
    for draft in drafts_of(path):
        text += f" Beside it lies {draft.name}, left by a save that did not finish."
    return text


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _fsync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system can: Windows, and some network file systems
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
