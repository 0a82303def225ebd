"""Serialization of values between the notebook and its ranks: cloudpickle, with tensors sent as raw bytes.

cloudpickle carries what plain pickle refuses: functions written in a cell, closures, classes of the notebook.
Small values ride in the message itself. Large ones are written once to a private file that every rank maps,
so that no pipe ever fills up while a rank is stuck, and four ranks share one copy of a 256 MB argument.

Tensors keep what matters about them: dtype, strides, ``requires_grad``, the attributes that somebody gave them, and
shared memory (two views of one storage arrive as two views of one storage). A tensor on a GPU arrives on the CPU, so
that reading a result never opens a CUDA context in the notebook.
"""

from __future__ import annotations

import importlib
import io
import mmap
import os
import pickle
import sys
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from course_lib.cluster.base.os_errors import explained

__all__ = ["NotSendable", "Payload", "carried", "laid_down", "pack", "unpack", "unpack_all"]

INLINE_BYTES = 32 * 1024  # what a socket buffer takes without waiting for the reader, on every system
_ALIGN_BYTES = 64


class NotSendable(TypeError):
    """A value that cannot leave its process; the message names where in the value the culprit sits."""


@dataclass(frozen=True)
class Payload:
    """A pickled value. ``sizes`` are the lengths of the pickle and of each raw buffer, in bytes."""

    sizes: tuple[int, ...]
    inline: tuple[bytes, ...] | None  # the pieces themselves, or None where they are in the file
    path: str | None

    @property
    def size_bytes(self) -> int:
        return sum(self.sizes)

    def discard(self) -> None:
        """Remove the file, if there is one; values already unpacked from it stay valid."""
        if self.path is not None:
            Path(self.path).unlink(missing_ok=True)


def pack(value: Any, *, folder: Path, what: str) -> Payload:
    """Turn ``value`` into a ``Payload``; ``what`` names it in errors ("argument 'data'").

    Raises ``NotSendable`` with the path to the part that cannot be pickled, and ``OSError`` when the disk is full.
    """
    buffers: list[pickle.PickleBuffer] = []
    body = io.BytesIO()
    try:
        _Pickler(body, protocol=5, buffer_callback=buffers.append).dump(value)
    except Exception as error:
        raise NotSendable(_explain(value, what, error)) from None
    pieces = [body.getbuffer(), *(buffer.raw() for buffer in buffers)]
    sizes = tuple(piece.nbytes for piece in pieces)
    if sum(sizes) <= INLINE_BYTES:
        return Payload(sizes, tuple(bytes(piece) for piece in pieces), None)
    return _written(sizes, pieces, folder)


def _written(sizes: tuple[int, ...], pieces: Iterable[Any], folder: Path) -> Payload:
    path = folder / f"parcel-{uuid.uuid4().hex}"
    try:
        with explained(folder), open(path, "wb") as file:
            for piece in pieces:
                file.seek(-file.tell() % _ALIGN_BYTES, os.SEEK_CUR)
                file.write(piece)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return Payload(sizes, None, str(path))


def carried(payload: Payload, *, discard: bool = False) -> Payload:
    """The same value without a file, for another machine. ``discard``: then the file is removed."""
    if payload.path is None:
        return payload
    pieces = _pieces(payload, Path(payload.path).read_bytes())
    if discard:
        payload.discard()
    return Payload(payload.sizes, tuple(pieces), None)


def laid_down(payload: Payload, folder: Path) -> Payload:
    """The same value in a file of ``folder`` where it is large, so that no pipe fills up."""
    if payload.inline is None or payload.size_bytes <= INLINE_BYTES:
        return payload
    return _written(payload.sizes, payload.inline, folder)


def unpack(payload: Payload) -> Any:
    """The value again. Its tensors and arrays are writable and belong to this process alone (copy on write)."""
    if payload.inline is not None:
        body, *raw = payload.inline
        return pickle.loads(body, buffers=[bytearray(piece) for piece in raw])
    assert payload.path is not None
    with open(payload.path, "rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    pieces = _pieces(payload, view)
    return pickle.loads(pieces[0], buffers=pieces[1:])


def _pieces(payload: Payload, whole: Any) -> list[Any]:
    """The pickle and the raw buffers, as slices of what its file holds."""
    pieces, start = [], 0
    for size in payload.sizes:
        start += -start % _ALIGN_BYTES
        pieces.append(whole[start : start + size])
        start += size
    return pieces


def unpack_all(payloads: Mapping[int, Payload]) -> dict[int, Any]:
    """The results, by rank. Raises ``NotSendable`` for one that cannot be made again in this process."""
    results = {}
    try:
        for rank, payload in payloads.items():
            results[rank] = unpack(payload)
    except Exception as error:
        raise NotSendable(
            f"the result of rank {rank} arrived, but cannot be made again here ({type(error).__name__}: {error}). "
            "Return the plain data that it holds, such as a state_dict of tensors."
        ) from error
    finally:
        for payload in payloads.values():
            payload.discard()
    return results


class _Pickler(cloudpickle.Pickler):
    """cloudpickle, with plain tensors sent as raw bytes out of band, and modules within modules by their name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._storages: dict[int, _Storage] = {}

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, ModuleType) and type(value).__reduce__ is not object.__reduce__:
            return value.__reduce__()  # of a class that says what stands for the module on a rank
        if isinstance(value, ModuleType) and (parent := _module_of(value)) is not None:
            return getattr, (parent, value.__name__.rpartition(".")[2])
        # Of a class of its own, such as torch.distributed.config. A function that reads `dist` and any name `config`
        # brings it along: cloudpickle sends the submodules that its code may mean, and fails at this one.
        if isinstance(value, ModuleType) and sys.modules.get(value.__name__) is value:
            return importlib.import_module, (value.__name__,)
        torch = sys.modules.get("torch")
        if torch is None or type(value) not in (torch.Tensor, torch.nn.Parameter):
            return super().reducer_override(value)
        kind = (value.requires_grad, type(value) is torch.nn.Parameter)
        if _is_plain(value):
            made = _tensor, (self._shared(value), value.dtype, _layout(value), *kind)
        elif _is_on_gpu(value):  # sparse, quantized and the like: on its own it would come back to a GPU
            made = _of_kind, (value.detach().cpu(), *kind)
        else:
            return super().reducer_override(value)
        return (*made, value.__dict__, None, None, _give_attributes) if value.__dict__ else made

    def _shared(self, tensor: Any) -> _Storage:
        storage = tensor.untyped_storage()
        return self._storages.setdefault(storage._cdata, _Storage(storage))


class _Storage:
    """The bytes under one or more tensors. One object for one storage: pickle's memo keeps the sharing."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage  # held, so that its address is not used again while we pickle

    def __reduce__(self) -> Any:
        import torch

        flat = torch.empty(0, dtype=torch.uint8).set_(self._storage.cpu())
        return _storage, (pickle.PickleBuffer(flat.numpy()) if flat.numel() else b"",)  # type: ignore[arg-type]


def _module_of(module: ModuleType) -> ModuleType | None:
    """The module that has this one as an attribute, where that is the only way to it: ``torch._C`` of its parts.

    cloudpickle takes such a module for one that somebody made by hand, and sends all that is in it.
    """
    parent, _, name = module.__name__.rpartition(".")
    found = sys.modules.get(parent)
    is_alone = module.__name__ not in sys.modules and getattr(found, name, None) is module
    return found if is_alone else None


def _is_plain(tensor: Any) -> bool:
    import torch

    ordinary = tensor.layout == torch.strided and tensor.device.type in ("cpu", "cuda")
    special = tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg()
    return ordinary and not special


def _is_on_gpu(tensor: Any) -> bool:
    return tensor.device.type == "cuda"


def _layout(tensor: Any) -> tuple[Any, ...]:
    return tensor.storage_offset(), tuple(tensor.size()), tensor.stride()


def _storage(buffer: Any) -> Any:
    import torch

    if len(buffer) == 0:
        return torch.UntypedStorage(0)
    return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()


def _tensor(storage: Any, dtype: Any, layout: Any, requires_grad: bool, is_parameter: bool) -> Any:
    import torch

    return _of_kind(torch.empty(0, dtype=dtype).set_(storage, *layout), requires_grad, is_parameter)


def _of_kind(tensor: Any, requires_grad: bool, is_parameter: bool) -> Any:
    import torch

    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _give_attributes(tensor: Any, attributes: dict[str, Any]) -> None:
    tensor.__dict__.update(attributes)


def _explain(value: Any, what: str, error: Exception) -> str:
    where, culprit = _find_culprit(value, what, depth=5)
    kind = type(culprit)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return (
        f"{where} is a {name}, which cannot travel between processes ({type(error).__name__}: {error}). "
        "Send the plain data it was made from, or make it inside the function, on the rank."
    )


def _find_culprit(value: Any, where: str, depth: int) -> tuple[str, Any]:
    """The innermost part of ``value`` that cannot be pickled, and the expression that leads to it."""
    if depth:
        for part_where, part in _parts(value, where):
            try:
                cloudpickle.dumps(part)
            except Exception:
                return _find_culprit(part, part_where, depth - 1)
    return where, value


def _parts(value: Any, where: str) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(f"{where}[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(f"{where}[{index}]", part) for index, part in enumerate(value)]
    closure = getattr(value, "__closure__", None)
    if closure:
        names = value.__code__.co_freevars
        return [(f"{where}'s variable {n!r}", c.cell_contents) for n, c in zip(names, closure, strict=True)]
    if hasattr(value, "__code__"):
        used = [name for name in value.__code__.co_names if name in value.__globals__]
        return [(f"{where}'s variable {name!r}", value.__globals__[name]) for name in used]
    return [(f"{where}.{name}", part) for name, part in getattr(value, "__dict__", {}).items()]
