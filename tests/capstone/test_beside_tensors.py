"""What is kept beside tensors is found, in one piece and in crumbs; what everybody has is held against nobody."""

from __future__ import annotations

import ctypes
import gc
import io
from array import array
from collections import deque

import numpy as np
import pytest
import torch

from course_lib.capstone.memory.memory_inventory import begin
from course_lib.capstone.memory.non_tensor_memory import raw_bytes

MATRIX = torch.rand(400, 50, generator=torch.Generator().manual_seed(0))  # 80,000 bytes
BYTES = MATRIX.numpy().tobytes()


class Record(ctypes.Structure):
    """Of C, with room for the matrix."""

    _fields_ = [("numbers", ctypes.c_float * MATRIX.numel())]


KEPT = {
    "an array": lambda: MATRIX.numpy().copy(),
    "a view of an array": lambda: MATRIX.numpy().copy()[1:].reshape(-1),
    "an array with a mask": lambda: np.ma.array(MATRIX.numpy().copy()),
    "rows as arrays": lambda: [row.numpy().copy() for row in MATRIX],
    "rows in an array of objects": lambda: np.array([row.numpy().tobytes() for row in MATRIX], dtype=object),
    "numbers of numpy": lambda: list(MATRIX.flatten().numpy()),
    "a scalar of bytes": lambda: np.void(BYTES),
    "an array of Python": lambda: array("f", MATRIX.flatten().tolist()),
    "rows as lists": lambda: MATRIX.tolist(),
    "rows as tuples": lambda: tuple(map(tuple, MATRIX.tolist())),
    "a list that begins otherwise": lambda: [None, *MATRIX.flatten().tolist()],
    "a queue of numbers": lambda: deque(MATRIX.flatten().tolist()),
    "numbers by their place": lambda: dict(enumerate(MATRIX.flatten().tolist())),
    "rows as bytes": lambda: [row.numpy().tobytes() for row in MATRIX],
    "rows as bytearrays": lambda: [bytearray(row.numpy().tobytes()) for row in MATRIX],
    "rows as texts": lambda: [row.numpy().tobytes().decode("latin1") for row in MATRIX],
    "digits": lambda: " ".join(f"{number:.3f}" for number in MATRIX.flatten().tolist()),
    "a file of text in memory": lambda: io.StringIO(BYTES.decode("latin1")),
    "a buffer of C": lambda: ctypes.create_string_buffer(BYTES),
    "an array of C": lambda: (ctypes.c_float * MATRIX.numel())(),
    "a structure of C": Record,
}
OF_C = ("a buffer of C", "an array of C", "a structure of C")


def found_beside(keep):
    """What is found while something is kept. What lived before stays frozen: to look through it takes half a second."""
    gc.disable()
    begin()
    try:
        kept = [keep()]
        found = raw_bytes((), ())
        assert kept
        return found
    finally:
        gc.enable()


@pytest.mark.parametrize("name", KEPT)
def test_a_matrix_is_found_however_it_is_kept(name):
    found = found_beside(KEPT[name])
    assert sum(found.values()) >= 0.95 * len(BYTES), found
    assert (name in OF_C) == ("ctypes" in found)


EVERYBODY = {
    "nothing": lambda: None,
    "losses": lambda: [4.2 - 0.001 * step for step in range(1000)],
    "times by name": lambda: {f"step {step}": 0.001 * step for step in range(5000)},
    "views of a tensor": lambda: [row.numpy() for row in MATRIX],
    "words about functions": lambda: [
        f"The function number {n} adds {n} to what it is given. " * 40 for n in range(500)
    ],
    "paths": lambda: [
        f"/home/somebody/course/.venv/lib/python3.11/site-packages/library/part_{n}.py" for n in range(5000)
    ],
    "names": lambda: [f"blocks.{n}.attention.w_out.weight" for n in range(5000)],
}


@pytest.mark.parametrize("name", EVERYBODY)
def test_what_everybody_has_is_not_told(name):
    assert found_beside(EVERYBODY[name]) == {}


def test_an_array_and_its_views_count_once():
    def keep():
        whole = MATRIX.numpy().copy()
        return [whole, whole[1:], whole.reshape(-1), memoryview(whole)]

    assert found_beside(keep) == {"ndarray": len(BYTES)}
