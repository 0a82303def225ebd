"""Kernels that a person's code has put in place of PyTorch's own, by operator and key: "aten/add.Tensor/CPU".

PyTorch notes in a set what is registered from Python, and its own parts register theirs when they are first imported,
which may be in the middle of a person's function. So the set is replaced by one that also notes who asks: the nearest
caller outside PyTorch's machinery of registration.

Source: torch/library.py, Library.impl and _impls.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableSet
from typing import Any

from course_lib.cluster.base.failure import is_user_code

__all__ = ["accept", "kernels"]

_OF_PYTORCH = ("aten/", "prim/", "c10d/", "_c10d_functional/")  # operators that are not a person's own
_MACHINERY = ("/torch/library.py", "/torch/_library/", "/torch/_ops.py", "/torch/utils/_contextlib.py")


class _Noting(MutableSet[str]):
    """PyTorch's set of registered kernels; ``of_libraries`` are those that no person's code has asked for.

    It is the same set behind this one: what is registered already takes its names out of that.
    """

    def __init__(self, kernels: set[str]) -> None:
        self._kernels, self.of_libraries = kernels, set[str]()
        self.num_changes = 0

    def __contains__(self, kernel: object) -> bool:
        return kernel in self._kernels

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def add(self, value: str) -> None:
        self.num_changes += 1
        self._kernels.add(value)
        (self.of_libraries.discard if _is_asked_by_user() else self.of_libraries.add)(value)

    def discard(self, value: str) -> None:
        self.num_changes += 1
        self._kernels.discard(value)
        self.of_libraries.discard(value)

    def of_people(self) -> set[str]:
        return self._kernels - self.of_libraries


def _is_asked_by_user() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename.replace("\\", "/")
        if not any(part in path for part in _MACHINERY):
            return is_user_code(path)
        frame = frame.f_back  # type: ignore[assignment]
    return True


def _registered() -> _Noting | None:
    library: Any = sys.modules.get("torch.library")
    if library is None:
        return None
    if not isinstance(library._impls, _Noting):
        library._impls = _Noting(library._impls)
    return library._impls


def kernels() -> frozenset[str]:
    """Those of a person, on PyTorch's operators, that stand there since ``accept``."""
    global _seen
    made = _registered()
    if made is None:
        return frozenset()
    if (len(made), made.num_changes) != _seen[0]:
        asked = (name for name in made.of_people() if name.startswith(_OF_PYTORCH) and not name.endswith("/Meta"))
        _seen = (len(made), made.num_changes), frozenset(asked)
    return _seen[1] - _originals


def accept(names: frozenset[str] | None = None) -> None:
    """From now on these stand there rightly; all that there are, if none are named."""
    _originals.update(kernels() if names is None else names)


_seen: tuple[tuple[int, int], frozenset[str]] = ((0, 0), frozenset())
_originals: set[str] = set()
