"""What a function may change in its process and forget to put back: switches, hooks, random numbers, surroundings.

A run begins with what a fresh rank has, whatever the call before it did. That holds for random numbers too: a function
that does not seed draws the same numbers in every run. Cells of ``%%ranks`` are a notebook within the notebook: what
one of them sets lasts for the next, and is put aside while a function runs.
"""

from __future__ import annotations

import _signal
import contextlib
import functools
import gc
import os
import signal
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from course_lib.cluster.patches import patched, patches
from course_lib.cluster.random_state import random_states

__all__ = ["Surroundings"]


@dataclass(frozen=True)
class _Setting:
    """``say(value)`` is the end of "rank 1 left ..." for the value found; empty: put back without a word."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], Any]
    say: Callable[[Any], str]


class Surroundings:
    """In the rank: remembers what a fresh rank has, and what the cells have made of it.

    ``without`` names settings to leave alone, where somebody else looks after them.
    """

    def __init__(self, *, without: Collection[str] = ()) -> None:
        self._settings = tuple(setting for setting in _settings() if setting.name not in without)
        self._getters = [setting.get for setting in self._settings]
        self._base = self._capture()
        self._of_cells: dict[str, Any] | None = None
        self._random = random_states()
        self._random_of_cells = self._random
        self._in_cells, self._is_whole = False, True

    def rebase(self) -> None:
        """The notebook has given this rank another folder, path and environment: these are the ones to keep."""
        now = {setting.name: setting.get() for setting in self._settings if setting.name in _OF_THE_NOTEBOOK}
        self._base |= now
        if self._of_cells is not None:
            self._of_cells |= now

    def enter_run(self) -> bool:
        """A function is about to run: what the cells have set waits aside. True where there were cells."""
        was_in_cells, self._in_cells = self._in_cells, False
        if was_in_cells:
            self._of_cells, self._random_of_cells = self._capture(), random_states()
            self._put_back(self._base)
        for state in self._random:  # to put them costs less than to look whether they have changed
            state.put()
        return was_in_cells

    def enter_cells(self) -> None:
        """A cell is about to run: where the last one left off."""
        if not self._in_cells:
            self._put_back(self._of_cells or self._base)
            for state in self._random_of_cells:
                state.put()
        self._in_cells = True

    def tidy(self) -> tuple[str, ...]:
        """After a call: put back what a function has changed, and say what that was. Cells keep theirs."""
        return () if self._in_cells else self._put_back(self._base)

    @property
    def is_whole(self) -> bool:
        """Whether everything could be put back so far."""
        return self._is_whole

    def _capture(self) -> dict[str, Any]:
        return {setting.name: setting.get() for setting in self._settings}

    def _put_back(self, wanted: dict[str, Any]) -> tuple[str, ...]:
        try:
            if [get() for get in self._getters] == list(wanted.values()):  # as nearly always
                return ()
        except Exception:  # one cannot be read, or not be compared: one by one
            pass
        said = []
        for setting in self._settings:
            what = ""
            try:
                now = setting.get()
                if now is wanted[setting.name] or now == wanted[setting.name]:
                    continue
                what = setting.say(now)
                setting.put(wanted[setting.name])
            except Exception:  # the process is not what it was, and cannot be made so
                self._is_whole = False
                what = what or setting.name
            if what:
                said.append(f"left {what}")
        return tuple(said)


def _silent(_: Any) -> str:
    return ""


_OF_THE_NOTEBOOK = ("the environment", "the working folder", "sys.path")


def _settings() -> tuple[_Setting, ...]:
    return (*_switches(), *_stacks(), *_of_pytorch_besides(), *_of_python())


def _switched(what: str) -> Callable[[Any], str]:
    return lambda now: f"{what} {now if not isinstance(now, bool) else 'on' if now else 'off'}"


def _switches() -> tuple[_Setting, ...]:
    import torch

    get_autocast, set_autocast = torch.is_autocast_enabled, torch.set_autocast_enabled
    get_precision = getattr(torch._C, "_get_float32_matmul_precision", torch.get_float32_matmul_precision)
    rows: tuple[tuple[str, Any, Any], ...] = (
        ("gradients switched", torch.is_grad_enabled, torch._C._set_grad_enabled),
        ("inference mode", torch.is_inference_mode_enabled, _refuse),
        ("the default dtype at", torch.get_default_dtype, torch.set_default_dtype),
        ("the default device at", _default_device, torch.set_default_device),
        ("the number of threads at", torch.get_num_threads, torch.set_num_threads),
        ("anomaly detection", torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
        ("autocast", functools.partial(get_autocast, "cpu"), functools.partial(set_autocast, "cpu")),
        (
            "autocast of CUDA",
            functools.partial(get_autocast, "cuda"),
            functools.partial(set_autocast, "cuda"),
        ),
        ("the precision of matrix products at", get_precision, torch.set_float32_matmul_precision),
    )
    if torch.cuda.is_initialized():  # as on a rank that has joined with a GPU, which NCCL goes by
        rows += (("the current GPU at", torch.cuda.current_device, torch.cuda.set_device),)
    search = _Setting("cuDNN's search", torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark, _silent)
    return (search, *(_Setting(what, get, put, _switched(what)) for what, get, put in rows))


def _default_device() -> Any:
    module = sys.modules.get("torch.utils._device")  # which PyTorch itself loads late
    return module and module.CURRENT_DEVICE


def _stacks() -> tuple[_Setting, ...]:
    """What is entered and left; whoever enters by hand may forget to leave."""
    import torch
    from torch._C import _autograd

    def unstack(depth: Callable[[], int], pop: Callable[[], Any]) -> Callable[[int], None]:
        def put(wanted: int) -> None:
            while depth() > wanted:
                pop()

        return put

    def hooks() -> Any:
        return _autograd._top_saved_tensors_default_hooks(True)

    def drop_hooks(_: Any) -> None:
        while hooks() is not None:
            _autograd._pop_saved_tensors_default_hooks()

    functions, dispatch = torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack
    pop_function, pop_dispatch = torch._C._pop_torch_function_stack, torch._C._pop_torch_dispatch_stack
    return (
        _Setting(
            "a function mode", functions, unstack(functions, pop_function), lambda _: "a function mode on"
        ),
        _Setting(
            "a dispatch mode", dispatch, unstack(dispatch, pop_dispatch), lambda _: "a dispatch mode on"
        ),
        _Setting("hooks on saved tensors", hooks, drop_hooks, lambda _: "hooks on saved tensors"),
    )


def _of_pytorch_besides() -> tuple[_Setting, ...]:
    import torch

    def set_deterministic(value: tuple[bool, bool]) -> None:
        torch.use_deterministic_algorithms(value[0], warn_only=value[1])

    are_on, only_warn = (
        torch._C._get_deterministic_algorithms,
        torch._C._get_deterministic_algorithms_warn_only,
    )

    def deterministic() -> tuple[bool, bool]:
        return are_on(), only_warn()

    print_options = vars(torch._tensor_str.PRINT_OPTS)

    def put_options(values: tuple[Any, ...]) -> None:
        print_options.update(zip(print_options, values, strict=True))

    return (
        _Setting(
            "deterministic algorithms",
            deterministic,
            set_deterministic,
            lambda now: f"deterministic algorithms {'on' if now[0] else 'off'}",
        ),
        _Setting("print options", lambda: tuple(print_options.values()), put_options, _silent),
        _Setting(
            "functions of PyTorch",
            patched,
            patches,
            lambda now: f"{', '.join(sorted(now))} replaced by its own",
        ),
    )


def _refuse(_: Any) -> None:
    raise RuntimeError("nobody but the one who entered it can leave it")


def _of_python() -> tuple[_Setting, ...]:
    return (
        _Setting("the environment", _environment, _set_environment, _environment_in_words),
        _Setting("the working folder", _folder, os.chdir, lambda now: f"the working folder at {now!r}"),
        _Setting("sys.path", lambda: tuple(sys.path), _set_path, lambda _: "sys.path changed"),
        _Setting("the limit of recursion", sys.getrecursionlimit, sys.setrecursionlimit, _silent),
        _Setting(
            "the garbage collector", gc.isenabled, lambda on: gc.enable() if on else gc.disable(), _silent
        ),
        _Setting(
            "the alarm clock",
            lambda: signal.getitimer(signal.ITIMER_REAL)[0],
            _stop_alarm,
            lambda _: "an alarm",
        ),
        _Setting("tracing", sys.gettrace, sys.settrace, _silent),
        _Setting("profiling", sys.getprofile, sys.setprofile, _silent),
        *(_handler_of(number) for number in _SIGNALS),
    )


_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGUSR2", "SIGALRM") if hasattr(signal, name))


def _handler_of(number: Any) -> _Setting:
    return _Setting(
        f"the handler of {number.name}",
        functools.partial(
            _signal.getsignal, number
        ),  # the public one looks for an enum, and takes 10 times as long
        lambda handler: signal.signal(number, handler),
        _silent,
    )


def _stop_alarm(_: Any) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)


def _environment() -> dict[Any, Any]:
    raw = dict(os.environ._data)  # type: ignore[attr-defined]  # decoding it all would cost 20 us a call
    for key in _SET_BY_TORCH:
        raw.pop(key, None)
    return raw


_SET_BY_TORCH = ("TORCHINDUCTOR_CACHE_DIR", b"TORCHINDUCTOR_CACHE_DIR")  # when ``torch._dynamo`` is loaded


def _set_environment(wanted: dict[Any, Any]) -> None:
    decode, now = os.environ.decodevalue, _environment()
    for key in now.keys() - wanted.keys():
        del os.environ[decode(key)]
    for key, value in wanted.items():
        if now.get(key) != value:
            os.environ[decode(key)] = decode(value)


def _environment_in_words(_: dict[Any, Any]) -> str:
    return "the environment changed (os.environ)"


def _folder() -> str:
    with contextlib.suppress(OSError):
        return os.getcwd()
    return ""


def _set_path(wanted: tuple[str, ...]) -> None:
    sys.path[:] = wanted
