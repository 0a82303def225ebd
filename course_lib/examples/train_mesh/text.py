# In the course: written by ./course build --programs from course_lib/authoring/programs/sources/text.py.jinja,
# so edit that one, with what it includes. In a copy of this folder there is no other: edit this file.
"""Text to train on: the bytes of files, cut into windows, and who gets which window in which step."""

from __future__ import annotations

import argparse
import bisect
import itertools
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .mesh import Place
from .settings import SettingsError

__all__ = ["Batches", "Share", "Text", "load_text"]

_ENDINGS = (".md", ".py", ".rst", ".text", ".txt")


class Share(NamedTuple):
    """What a rank works on in a step, each (sequences, context), int64: bytes, and the byte after each."""

    tokens: Tensor
    targets: Tensor


class Text:
    """Pieces of text one after another, as one row of bytes. Pieces are uint8, 1-d, and may lie on the disk."""

    def __init__(self, pieces: list[Tensor]) -> None:
        self.pieces = [piece for piece in pieces if len(piece)]
        self.ends = list(itertools.accumulate(len(piece) for piece in self.pieces))

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def read(self, start: int, num_bytes: int) -> Tensor:
        """``num_bytes`` from ``start`` on, also from a piece into the next."""
        parts = []
        while num_bytes > 0:
            i = bisect.bisect_right(self.ends, start)
            end = min(start + num_bytes, self.ends[i])
            first = self.ends[i] - len(self.pieces[i])  # of this piece, in the row
            parts.append(self.pieces[i][start - first : end - first])
            num_bytes, start = num_bytes - (end - start), end
        return torch.cat(parts)


def load_text(data: str) -> Text:
    """The text of Python's own documentation for "python"; else a file's, or all files' of a folder with folders.

    Files are mapped into memory, not read: ranks of a machine share what of them is in use. ``SettingsError`` where
    there is nothing to read.
    """
    if data == "python":
        return Text([_python_topics()])
    path = Path(data)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in _ENDINGS and file.is_file())
        if not files:
            raise SettingsError(f"--data {data} holds no file that ends in {', '.join(_ENDINGS)}.")
    elif path.is_file():
        files = [path]
    else:
        raise SettingsError(f"--data {data}: there is no such file or folder. 'python' needs none.")
    return Text([_mapped(file) for file in files])


def _python_topics() -> Tensor:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:  # some systems ship Python in parts
        raise SettingsError("This Python came without the text of its help(); name a file with --data.") from error
    return torch.frombuffer(bytearray("\n".join(topics[name] for name in sorted(topics)).encode()), dtype=torch.uint8)


def _mapped(file: Path) -> Tensor:
    try:
        size_bytes = file.stat().st_size
        if size_bytes == 0:
            return torch.empty(0, dtype=torch.uint8)
        file.open("rb").close()  # says better what is wrong than from_file
        return torch.from_file(str(file), shared=False, size=size_bytes, dtype=torch.uint8)
    except OSError as error:
        raise SettingsError(f"--data: {file} cannot be read: {error.strerror}.") from error


class Batches:
    """This rank's share of every step; can say where it is, and go on from there.

    The text is cut into windows of ``context`` + 1 bytes, which overlap by one. An epoch sees them in an order that
    depends on the seed and the epoch alone, and leaves out a last batch that is not full. So a step sees the same
    windows on any mesh, and the place in the text is one number: how many windows all ranks have had. Ranks along
    ``tp`` and ``pp`` have the same share: they work on parts of one model.
    """

    def __init__(self, place: Place, args: argparse.Namespace, text: Text) -> None:
        self.place, self.args, self.text = place, args, text
        num_shares = place.axes.num_data_shares
        num_parts, who = num_shares * args.accumulate, f"{num_shares} shares (--dp times --shard)"  # parts of a batch
        if args.batch_size % num_parts:
            raise SettingsError(
                f"--batch-size {args.batch_size} does not give {who} with --accumulate {args.accumulate} equal parts. "
                f"The nearest that does is {num_parts * max(1, round(args.batch_size / num_parts))}."
            )
        self.num_windows = (len(text) - 1) // args.context
        self.steps_of_epoch = self.num_windows // args.batch_size
        if self.steps_of_epoch < 1:
            raise SettingsError(
                f"The text has {len(text)} bytes, and one step takes {args.batch_size * args.context + 1}: "
                "--batch-size times --context, and one more. Make one of the two smaller, or give more text."
            )
        self.num_done = 0  # windows that all ranks have had, in all epochs together
        self._order = (-1, torch.empty(0))  # an epoch, and its windows

    def __next__(self) -> Share:
        """What the next step sees, on this rank's device."""
        device = self.place.me.device
        size = self.args.batch_size // self.place.axes.num_data_shares
        first = self.place.data_share * size
        epoch, step = divmod(self.num_done // self.args.batch_size, self.steps_of_epoch)
        batch = self._order_of(epoch)[step * self.args.batch_size : (step + 1) * self.args.batch_size]
        windows = torch.stack([self._window(int(i)) for i in batch[first : first + size]])
        self.num_done += self.args.batch_size
        if device.type == "cuda":
            windows = windows.pin_memory()  # so that the copy goes on beside the computing
        windows = windows.to(device, non_blocking=True).long()  # one byte of eight crosses to the GPU
        return Share(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())

    def _window(self, i: int) -> Tensor:
        return self.text.read(i * self.args.context, self.args.context + 1)

    def _order_of(self, epoch: int) -> Tensor:
        if self._order[0] != epoch:
            seed = (self.args.seed * 1_000_003 + epoch) % 2**63  # a generator takes no larger one
            generator = torch.Generator().manual_seed(seed)
            self._order = epoch, torch.randperm(self.num_windows, generator=generator)
        return self._order[1]

    def state_dict(self) -> dict[str, Any]:
        """Where it is, the same on every rank. With these two methods DCP saves it as it saves a model."""
        return {"num_done": self.num_done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.num_done = state["num_done"]
