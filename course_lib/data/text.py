"""Python's own documentation as text to learn from. The course carries it: ``documentation/topics.txt.gz``.

Shapes: T ``length``, the tokens in one window.
"""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from course_lib.base.checked import Int64, checked
from course_lib.base.checks import at_least

__all__ = ["ByteTokenizer", "TextParts", "TextWindows", "documentation_text", "documentation_windows"]


@cache
def documentation_text() -> str:
    """The reference pages that Python's ``help()`` prints, about half a million characters, ordered by topic.

    Those of Python 3.11.7, whichever Python runs: each version has other words, and losses would be others, too.
    """
    return gzip.decompress((files("course_lib.data") / "documentation" / "topics.txt.gz").read_bytes()).decode()


class ByteTokenizer:
    """Text to numbers and back: one token, 0 to 255, for each byte of the text in UTF-8."""

    vocab_size = 256

    def encode(self, text: str) -> Tensor:
        """A text as tokens, (number of bytes,) int64; plain English letters take one byte each."""
        return torch.from_numpy(np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int64))

    def decode(self, tokens: Tensor) -> str:
        """Tokens (N,) as text. Bytes that make no letter, as untrained models write, become U+FFFD."""
        return bytes(tokens.tolist()).decode(errors="replace")


@checked
class TextWindows(Dataset[tuple[Tensor, Tensor]]):
    """A row of tokens seen through windows: item i is ``(inputs, targets)``, each (T,) int64.

    ``targets`` is ``inputs`` moved on by one: ``targets[t]`` is the token to be guessed after
    ``inputs[t]``. A window begins ``stride`` tokens after the one before; without a stride the windows
    stand side by side.
    """

    def __init__(self, tokens: Tensor, length: Int64, *, stride: Int64 | None = None) -> None:
        stride = length if stride is None else stride
        at_least(1, length=length, stride=stride)
        if len(tokens) < length + 1:
            raise ValueError(
                f"A window of {length} tokens needs {length + 1} of them, one more than it shows, since "
                f"the last has to be guessed too; the text has {len(tokens)}. The longest window is "
                f"{max(len(tokens) - 1, 0)}."
            )
        self.tokens = tokens
        self.length = length
        self.stride = stride

    def __len__(self) -> int:
        return (len(self.tokens) - 1 - self.length) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"There is no window {index}: they are numbered 0 to {len(self) - 1}.")
        start = index % len(self) * self.stride
        seen = self.tokens[start : start + self.length + 1]  # (T + 1,)
        return seen[:-1], seen[1:]


class TextParts(NamedTuple):
    """The two parts of a text, as windows."""

    train: TextWindows
    test: TextWindows


@checked
def documentation_windows(length: Int64 = 64, *, test_share: float = 0.1) -> TextParts:
    """Python's documentation in windows of bytes: ``train, test = documentation_windows(64)``.

    The test part is the end of the text, so that no window of one part shows a byte of the other.
    """
    tokens = ByteTokenizer().encode(documentation_text())
    num_train = round((1.0 - test_share) * len(tokens))
    if not 0.0 < test_share < 1.0 or min(num_train, len(tokens) - num_train) <= length:
        raise ValueError(
            f"test_share={test_share} with windows of {length} tokens leaves one of the two parts without "
            f"a window: the text has {len(tokens)} tokens. A usual value is 0.1."
        )
    return TextParts(TextWindows(tokens[:num_train], length), TextWindows(tokens[num_train:], length))
