"""The states of the global generators of random numbers, cheap to compare: every call on a rank does so."""

from __future__ import annotations

import ctypes
import random
import sys
from typing import Any

__all__ = ["NumpyRandom", "PythonRandom", "TorchRandom"]

_SEED = 67280421310721  # of a generator of PyTorch that nobody has seeded
_MERSENNE_BYTES = 625 * 4  # what numpy's MT19937 keeps: 624 words, and the place among them


class TorchRandom:
    """The state of the CPU's generator, and of the GPUs' where this rank has used any."""

    def __init__(self) -> None:
        import torch

        self._states = [torch.get_rng_state()]
        if torch.cuda.is_initialized():
            self._states += torch.cuda.get_rng_state_all()
        self._bytes = [ctypes.string_at(state.data_ptr(), state.numel()) for state in self._states]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TorchRandom) and self._bytes == other._bytes

    __hash__ = None  # type: ignore[assignment]

    def put(self) -> None:
        import torch

        torch.set_rng_state(self._states[0])
        if torch.cuda.is_initialized():
            if len(self._states) > 1:
                torch.cuda.set_rng_state_all(self._states[1:])
            else:  # CUDA was first used after this state was noted
                torch.cuda.manual_seed_all(_SEED)


class PythonRandom:
    """The state of the module ``random``."""

    def __init__(self) -> None:
        self._state = random.getstate()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PythonRandom) and self._signs == other._signs

    __hash__ = None  # type: ignore[assignment]

    @property
    def _signs(self) -> tuple[Any, ...]:
        """A draw moves the place, which stands last; a new seed changes the words, apart from the first."""
        _, words, gauss_next = self._state
        return (words[1], words[-1], gauss_next)

    def put(self) -> None:
        random.setstate(self._state)


class NumpyRandom:
    """The state of numpy's global generator. Its own getter takes 30 us, and is called only when there is news."""

    _last: tuple[bytes, Any] | None = None

    def __init__(self) -> None:
        random_state = sys.modules["numpy.random.mtrand"]._rand
        self._bytes = ctypes.string_at(random_state._bit_generator.ctypes.state_address, _MERSENNE_BYTES)
        if NumpyRandom._last is None or NumpyRandom._last[0] != self._bytes:
            NumpyRandom._last = (self._bytes, random_state.get_state())
        self._state = NumpyRandom._last[1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumpyRandom) and self._bytes == other._bytes

    __hash__ = None  # type: ignore[assignment]

    def put(self) -> None:
        sys.modules["numpy.random.mtrand"]._rand.set_state(self._state)
