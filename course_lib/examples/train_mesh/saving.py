# In the course: written by ./course build --programs from course_lib/authoring/programs/sources/saving.py.jinja,
# so edit that one, with what it includes. In a copy of this folder there is no other: edit this file.
"""Saving while training goes on, and loading on any mesh: PyTorch's distributed checkpoint (DCP).

DCP notes of every tensor which part lies in which rank's file, under the name that it has in a model in one piece. So
any mesh loads what another has saved: each rank reads the pieces that its own parts are made of.

What is loaded is unpickled, and could run a stranger's code: load checkpoints only from people you trust.
"""

from __future__ import annotations

import io
import json
import zipfile
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from .keeping import RunFolder, checkpoint_of
from .settings import SettingsError
from .start import Rank, by_rank_0, of_all, say
from .text import Batches

__all__ = ["Saver", "TrainState"]

# Moments and settings of each parameter under its name, and none under a number: stages have other numbers of them.
_BY_NAME = StateDictOptions(flatten_optimizer_state_dict=True)


class TrainState:
    """All that a run changes: weights, the optimizer's moments, and the place in the text.

    The names are those of the model as it was written, whatever holds it now, and every tensor says which part of
    the whole it is; a stage has some of them. A run with chance in its steps, such as dropout, would have to save
    generators as well.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches) -> None:
        self.model, self.optimizer, self.batches = model, optimizer, batches

    def for_dcp(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer, options=_BY_NAME)
        return {"model": model, "optimizer": optimizer, "batches": self.batches}

    def load(self, path: Path) -> None:
        """Take this rank's parts from a checkpoint; nothing is changed where that fails."""
        state = self.for_dcp()  # tensors of the right parts, to be read into
        try:
            dcp.load(state, checkpoint_id=path)
        except dcp.CheckpointException as error:  # no Exception, so nobody else would catch it
            raise RuntimeError(f"{path} could not be loaded: {_words(error)}") from error
        loaded = {"model_state_dict": state["model"], "optim_state_dict": state["optimizer"]}
        set_state_dict(self.model, self.optimizer, **loaded, options=_BY_NAME)


class Saver:
    """Writes checkpoints beside the training, one at a time; every rank makes one and calls it in the same steps.

    ``save`` copies this rank's parts to the host's memory and returns; a thread writes them. Ranks talk to each other
    about a save in a group of their own, or their messages would get between those of the training.
    """

    def __init__(self, me: Rank, folder: RunFolder, *, blocking: bool) -> None:
        self.me, self.folder, self.blocking = me, folder, blocking
        self.group = dist.new_group(backend="gloo")
        self.draft: Path | None = None
        self.future: Future[Any] | None = None  # of the save that is under way
        self.failure = ""  # why the last save came to nothing, or ""

    def save(self, state: TrainState, step: int, about: dict[str, Any]) -> None:
        """Begin to save what the run is after ``step`` steps; waits first for a save that is still running."""
        self.wait()
        try:
            self.draft = by_rank_0(self.me, lambda: self.folder.new_draft(step, about))
        except RuntimeError as error:
            self._fail(str(error))
            return
        self.future = self._begin(state.for_dcp(), self.draft)
        if self.blocking:
            self.wait()

    def _begin(self, state: dict[str, Any], draft: Path) -> Future[Any]:
        where: dict[str, Any] = {"checkpoint_id": draft, "process_group": self.group}
        if not self.blocking:
            try:
                answer: Any = dcp.async_save(state, **where)
                return getattr(answer, "upload_completion", answer)  # some ways to copy give two futures
            except Exception as error:  # most likely: no memory for a copy
                # The others' threads wait for this rank's: it takes part in the same save from here.
                print(
                    f"Rank {self.me.rank} cannot save in the background ({error}). It saves while training waits.",
                    flush=True,
                )
        future: Future[Any] = Future()
        try:
            future.set_result(dcp.save(state, **where))
        except (Exception, dcp.CheckpointException) as error:
            future.set_exception(error)
        return future

    def poll(self) -> None:
        """Give a save that is done its name, if there is one. Asks nobody and waits for nobody: for every step."""
        if self.future is not None and self.future.done():
            self._finish(self.future)

    def wait(self) -> None:
        """Wait until no save is running, on any rank."""
        if self.future is not None:
            self.future.exception()  # waits, and raises nothing
            self._finish(self.future)

    def close(self) -> None:
        """Wait for the last save; raises on all ranks, with the same words, if it came to nothing."""
        self.wait()
        failure = by_rank_0(self.me, lambda: self.failure)
        if failure:
            raise RuntimeError(failure)

    def _finish(self, future: Future[Any]) -> None:
        """When rank 0's save is done, every rank's file is on the disk: rank 0 has heard from all."""
        self.future = None
        error = future.exception()
        if self.me.rank > 0:
            return
        assert self.draft is not None
        try:
            if error is not None:
                raise OSError(_words(error)) from error
            path = self.folder.publish(self.draft)
        except OSError as problem:
            self.folder.remove(self.draft)  # its part on the disk is of use to nobody, and takes room
            self._fail(f"{checkpoint_of(self.draft)} could not be saved: {problem.strerror or problem}")
            return
        self.failure = ""
        say(self.me, f"Saved {path}")

    def _fail(self, words: str) -> None:
        """Training goes on: the next save may find room on the disk, and to stop would lose more."""
        self.failure = f"{words}. What was saved before is untouched."
        say(self.me, f"{self.failure} The next save, if one comes, tries again.")


def read_about(path: Path) -> dict[str, Any]:
    """What stands beside the tensors, to be read before them. ``SettingsError`` where it is not ours."""
    try:
        about = json.loads((path / "about.json").read_text())
        int(about["step"]), dict(about["must_match"])
    except FileNotFoundError as error:
        raise SettingsError(
            f"{path} is no checkpoint: it has no about.json. Give a folder such as step-00000500."
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"{path} is a checkpoint of something else, or was changed. Give another --out or --resume, or remove it."
        ) from error
    return dict(about)


def check_whole(me: Rank, path: Path) -> None:
    """``SettingsError`` on all ranks if a byte of a checkpoint was lost or changed since it was written.

    Every tensor in it is an archive with a checksum, at which ``torch.load`` does not look. Ranks share the work.
    """
    found = of_all(me, _damage(path, me.rank, me.world_size))
    if damage := next(filter(None, found), None):
        raise SettingsError(
            f"{path} is damaged ({damage}). Remove it, and the run goes on from the checkpoint before, or from "
            "the start if there is none."
        )


def _damage(path: Path, part: int, num_parts: int) -> str:
    """What is wrong with the ``part``-th of the tensors of a checkpoint, or ""."""
    file = path / ".metadata"
    try:
        entries = list(dcp.FileSystemReader(path).read_metadata().storage_data.values())
        for entry in entries[part::num_parts]:
            file = path / entry.relative_path
            with file.open("rb") as stream:
                stream.seek(entry.offset)
                content = io.BytesIO(stream.read(entry.length))
            with zipfile.ZipFile(content) as archive:
                if archive.testzip() is not None:
                    return f"{file.name} was changed"
    except FileNotFoundError:
        return f"{file.name} is missing"
    except Exception as error:  # pickle and zipfile raise a dozen kinds
        return f"{file.name}: {error or type(error).__name__}"
    return ""


def _words(error: BaseException) -> str:
    """A sentence of what the first rank to fail said; DCP's own text is many tracebacks."""
    failures = error.failures if isinstance(error, dcp.CheckpointException) else {}
    for rank, (cause, _) in failures.items():
        return f"rank {rank}: {getattr(cause, 'strerror', None) or cause or type(cause).__name__}"
    return str(error) or type(error).__name__
