"""Runs a function of the ranks with ``me.device`` far away: a device that is not the CPU, and holds values.

``far(function)`` is handed to ``Cluster.run`` in place of ``function``. Its arguments are moved to the device, and its
result back. What a test itself makes without naming a device lands on the far one, as under
``torch.set_default_device``; what the library makes lands where the library says, and on the CPU if it says nothing.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from fake_device_tensor import FAR, FarTensor, is_pytorch, to_far, to_near, waits
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.cluster.state import monkeypatch_guard

HAS_FAR = hasattr(
    __import__("torch.utils.backend_registration", fromlist=["x"]), "_setup_privateuseone_for_python_backend"
)
_libraries: list[Any] = []


def set_up() -> None:
    """Tell PyTorch of the device, once in a process."""
    if hasattr(torch.Tensor, "is_far"):  # also where ranks have forgotten this module since
        return
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend("far")
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty.memory_format", _empty, "PrivateUse1")
    library.impl("empty_strided", _empty_strided, "PrivateUse1")
    library.impl("_copy_from", _copy_from, "PrivateUse1")  # where torch.tensor has turned subclasses off
    uncast = torch.library.Library("_", "IMPL")
    uncast.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    _libraries.extend([library, uncast])
    _let_pytorch_ask()
    torch.nn.Module.to = _to  # type: ignore[method-assign]
    _let_gloo_carry_it()
    monkeypatch_guard.accept()  # as if PyTorch had come with such a device


_plain_to = torch.nn.Module.to


def _to(self: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    """A tied weight stays tied on its way, as it does to a GPU."""
    device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
    if device is None or device.type != "far":
        return _plain_to(self, *args, **kwargs)
    return _moved_module(self if dtype is None else _plain_to(self, dtype), to_far)


def _let_pytorch_ask() -> None:
    """What autocast and pipelining ask the module of a device for. Autocast casts nothing here."""
    module: Any = torch.get_device_module("far")
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    module.get_rng_state = lambda device=None: torch.get_rng_state()
    module.set_rng_state = lambda state, device=None: torch.set_rng_state(state)


def _let_gloo_carry_it() -> None:
    """Whoever asks a group for the back end of the far device is given that of the CPU."""
    from torch._C._distributed_c10d import ProcessGroup

    plain = ProcessGroup._get_backend

    def get_backend(group: Any, device: torch.device) -> Any:
        return plain(group, torch.device("cpu") if device.type == "far" else device)

    ProcessGroup._get_backend = get_backend  # type: ignore[method-assign]


def _empty(size: Any, *, dtype: Any = None, memory_format: Any = None, **_: Any) -> torch.Tensor:
    return FarTensor(torch.empty(size, dtype=dtype, memory_format=memory_format, device="cpu"))


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **_: Any) -> torch.Tensor:
    return FarTensor(torch.empty_strided(size, stride, dtype=dtype, device="cpu"))


def _copy_from(source: Any, destination: Any, non_blocking: bool = False) -> torch.Tensor:
    getattr(destination, "near", destination).copy_(getattr(source, "near", source))
    return destination


class MakesFarTensors(TorchFunctionMode):
    """Whoever asks for a tensor on the far device gets one; with ``for_tests`` a test's own lines need not ask.

    Without it ``torch.arange`` and others that find the size themselves would hand out a tensor without elements.
    """

    def __init__(self, *, for_tests: bool) -> None:
        super().__init__()
        self.for_tests = for_tests

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in _makers():
            return func(*args, **kwargs)
        asked = kwargs.get("device")
        if asked is not None and torch.device(asked).type == "far":
            return pytree.tree_map_only(torch.Tensor, to_far, func(*args, **kwargs | {"device": "cpu"}))
        made = func(*args, **kwargs)
        if asked is None and self.for_tests and _asked_by_a_test(sys._getframe(1)):
            return pytree.tree_map_only(torch.Tensor, to_far, made)
        return made


@functools.cache
def _makers() -> frozenset[Any]:
    from torch.utils._device import _device_constructors

    return frozenset(_device_constructors())


def _asked_by_a_test(frame: Any) -> bool:
    while frame is not None:
        name = frame.f_code.co_filename
        makes_model = "course_lib/models/" in name and frame.f_code.co_name != "forward"
        if not (is_pytorch(name) or makes_model or "/far_" in name):
            return "course_lib/" not in name
        frame = frame.f_back
    return False


_WITHOUT_DATA = {"c10d::barrier", "c10d::monitored_barrier_"}


class OnlyFarInCollectives(TorchDispatchMode):
    """What NCCL would refuse; objects are sent as bytes, for which PyTorch finds the device itself."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d" and func._schema.name not in _WITHOUT_DATA and not _sends_objects():
            given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            if any(not isinstance(tensor, FarTensor) for tensor in given):
                raise RuntimeError(f"{func} was given a tensor of the CPU, and this rank's device is {FAR}")
        return func(*args, **(kwargs or {}))


def _sends_objects() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if "object" in frame.f_code.co_name and "/torch/" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def far(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` as it is to be called on a rank: ``me.device`` is far, and so are its arguments."""

    @functools.wraps(function)
    def on_far(me: Any, *args: Any, **kwargs: Any) -> Any:
        return run_far(me, function, args, kwargs, for_tests=True)

    return on_far


def run_far(
    me: Any, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, for_tests: bool
) -> Any:
    """Call a function on a rank whose device is far; its arguments go there, and its result comes back."""
    set_up()
    there = dataclasses.replace(me, device=torch.device(FAR))
    with MakesFarTensors(for_tests=for_tests), OnlyFarInCollectives():
        function, args, kwargs = _moved((_with_far_cells(function), tuple(args), dict(kwargs)), to_far)
        result = function(there, *args, **kwargs)
    return _moved(result, to_near)


def waits_on(function: Callable[..., Any]) -> Callable[..., Any]:
    """As ``far``; the result is what made the host wait for the device: how often, by operation and line."""
    return functools.partial(_waits_of, function)


def _waits_of(function: Callable[..., Any], me: Any, *args: Any, **kwargs: Any) -> dict[tuple[str, str], int]:
    waits.clear()  # a function of this module, so that it is this module's own counter also on a rank
    far(function)(me, *args, **kwargs)
    return dict(waits)


def _moved(value: Any, move: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Every tensor and module in containers and dataclasses."""
    if isinstance(value, torch.Tensor):
        return move(value)
    if isinstance(value, torch.nn.Module):
        return _moved_module(value, move)
    if isinstance(value, dict):
        return (
            type(value)({key: _moved(part, move) for key, part in value.items()})
            if type(value) in (dict, collections.OrderedDict)
            else value
        )
    if type(value) in (list, tuple, set):
        return type(value)(_moved(part, move) for part in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(part, move) for part in value))
    return value


def _moved_module(module: torch.nn.Module, move: Callable[[torch.Tensor], torch.Tensor]) -> torch.nn.Module:
    done: dict[int, torch.Tensor] = {}

    def once(tensor: torch.Tensor) -> torch.Tensor:
        return done.setdefault(id(tensor), move(tensor))

    for part in module.modules():
        for table in (part._parameters, part._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    table[name] = once(tensor)
    return module


def _with_far_cells(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with what it has caught from around it moved, too."""
    if isinstance(function, functools.partial):
        return functools.partial(
            _with_far_cells(function.func),
            *_moved(function.args, to_far),
            **_moved(function.keywords, to_far),
        )
    if isinstance(function, types.FunctionType):
        for cell in function.__closure__ or ():
            if cell.cell_contents is not function:
                cell.cell_contents = _moved(cell.cell_contents, to_far)
    return function
