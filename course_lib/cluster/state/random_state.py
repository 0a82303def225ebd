"""The states of the global generators of random numbers: noted once, and put before every run."""

from __future__ import annotations

import ctypes
import random
import sys
from typing import Any, Protocol

__all__ = ["random_states", "seed_all"]

_SEED = 67280421310721  # of a generator of PyTorch that nobody has seeded
_MERSENNE_BYTES = 625 * 4  # what numpy's MT19937 keeps: 624 words, and the place among them


class _State(Protocol):
    def restore(self) -> None: ...


def random_states() -> tuple[_State, ...]:
    """How all generators of this process stand now."""
    has_numpy = "numpy.random.mtrand" in sys.modules
    return (_OfTorch(), _OfPython(), *([_OfNumpy()] if has_numpy else []))


def seed_all(seed: int | None) -> None:
    """Put the generators of this process on the CPU where ``seed``, below 2**32, puts them; None: leave them."""
    if seed is None:
        return
    import torch

    torch.default_generator.manual_seed(seed)  # those of GPUs, which nobody has seeded, begin alike
    random.seed(seed)
    if "numpy.random.mtrand" in sys.modules:
        _numpy().seed(seed)


class _OfTorch:
    """The CPU's generator, and those of the GPUs where this rank has used any."""

    def __init__(self) -> None:
        import torch

        self._state = torch.get_rng_state()
        self._of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def restore(self) -> None:
        import torch

        torch.set_rng_state(self._state)
        if torch.cuda.is_initialized():
            if self._of_gpus:
                torch.cuda.set_rng_state_all(self._of_gpus)
            else:  # CUDA was first used after this state was noted
                torch.cuda.manual_seed_all(_SEED)


class _OfPython:
    def __init__(self) -> None:
        self._state = random.getstate()

    def restore(self) -> None:
        random.setstate(self._state)


class _OfNumpy:
    """numpy's own setter takes 35 us, so it is called only where there is something to set."""

    def __init__(self) -> None:
        self._state, self._bytes = _numpy().get_state(), _numpy_bytes()

    def restore(self) -> None:
        if _numpy_bytes() != self._bytes:
            _numpy().set_state(self._state)


def _numpy() -> Any:
    return sys.modules["numpy.random.mtrand"]._rand


def _numpy_bytes() -> bytes:
    return ctypes.string_at(_numpy()._bit_generator.ctypes.state_address, _MERSENNE_BYTES)
