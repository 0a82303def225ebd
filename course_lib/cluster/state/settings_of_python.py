"""What a function may leave in Python and numpy: paths, signals, limits, filters, ways to compute and to print."""

from __future__ import annotations

import _signal
import contextlib
import functools
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from course_lib.cluster.state.code_of_functions import code_of_functions
from course_lib.cluster.state.setting import Setting, silent

__all__ = ["settings_of_python"]


def settings_of_python() -> tuple[Setting, ...]:
    return (*_of_the_process(), *_interpreter(), *_signals(), *_arithmetic(), *_of_numpy())


def _of_the_process() -> tuple[Setting, ...]:
    return (
        Setting("the environment", _environment, _set_environment, _environment_in_words),
        Setting("the working folder", _folder, os.chdir, lambda now: f"the working folder at {now!r}"),
        Setting("sys.path", lambda: tuple(sys.path), _set_path, lambda _: "sys.path changed"),
        Setting("hooks of imports", _import_hooks, _set_import_hooks, lambda _: "hooks of imports changed"),
    )


def _interpreter() -> tuple[Setting, ...]:
    return (
        Setting("the limit of recursion", sys.getrecursionlimit, sys.setrecursionlimit, silent),
        Setting("digits of numbers", sys.get_int_max_str_digits, sys.set_int_max_str_digits, silent),
        Setting("the stack of threads", threading.stack_size, threading.stack_size, silent),
        Setting("the switch interval", sys.getswitchinterval, sys.setswitchinterval, silent),
        Setting("the garbage collector", gc.isenabled, lambda on: gc.enable() if on else gc.disable(), silent),
        Setting("thresholds of the collector", gc.get_threshold, lambda now: gc.set_threshold(*now), silent),
        Setting("tracing", sys.gettrace, sys.settrace, silent),
        Setting("profiling", sys.getprofile, sys.setprofile, silent),
        code_of_functions(),
        Setting("filters of warnings", lambda: tuple(warnings.filters), _set_filters, silent),
    )


def _import_hooks() -> tuple[Any, ...]:
    return tuple(sys.meta_path), tuple(sys.path_hooks)


def _set_import_hooks(wanted: tuple[Any, ...]) -> None:
    sys.meta_path[:], sys.path_hooks[:] = wanted


def _set_filters(wanted: tuple[Any, ...]) -> None:
    warnings.simplefilter("default")  # so that warnings that were once filtered are looked at again
    warnings.filters[:] = wanted  # type: ignore[index]


# -- signals ------------------------------------------------------------------------------------------------------


def _signals() -> tuple[Setting, ...]:
    timers = [
        number
        for name in ("REAL", "VIRTUAL", "PROF")
        if (number := getattr(signal, f"ITIMER_{name}", None)) is not None
    ]

    def alarm() -> bool:
        return any(signal.getitimer(number)[0] for number in timers)

    def stop_alarm(_: Any) -> None:
        for number in timers:
            signal.setitimer(number, 0)

    clocks = [Setting("the alarm clock", alarm, stop_alarm, lambda _: "an alarm")] if timers else []
    return (*clocks, *map(_handler_of, _handled()), *_masked())


def _handled() -> Iterator[Any]:
    for number in sorted(signal.valid_signals()):
        usual = isinstance(number, signal.Signals) and number.name not in ("SIGKILL", "SIGSTOP")
        if usual and not number.name.startswith("SIGRT"):
            yield number


def _handler_of(number: Any) -> Setting:
    def restore(handler: Any) -> None:
        if number.name == "SIGUSR1":
            raise RuntimeError("faulthandler has it, and Python cannot give it back")
        signal.signal(number, handler)

    # The public function looks for an enum, and takes ten times as long.
    get = functools.partial(_signal.getsignal, number)
    return Setting(f"the handler of {number.name}", get, restore, silent)


def _masked() -> tuple[Setting, ...]:
    if not hasattr(_signal, "pthread_sigmask"):
        return ()
    get = functools.partial(_signal.pthread_sigmask, _signal.SIG_BLOCK, ())
    restore = functools.partial(signal.pthread_sigmask, signal.SIG_SETMASK)
    return (Setting("blocked signals", get, restore, silent),)


# -- the environment ----------------------------------------------------------------------------------------------


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


# -- ways to compute and to print ---------------------------------------------------------------------------------


def _arithmetic() -> tuple[Setting, ...]:
    import _locale
    import decimal
    import locale

    def context() -> tuple[Any, ...]:
        now = decimal.getcontext()
        return now.prec, now.rounding, now.Emin, now.Emax, now.capitals, now.clamp, tuple(now.traps.values())

    fresh, usual = decimal.getcontext().copy(), decimal.DefaultContext.copy()

    def of_threads() -> tuple[int, str]:
        return decimal.DefaultContext.prec, decimal.DefaultContext.rounding

    def restore_threads(_: Any) -> None:
        decimal.DefaultContext.prec, decimal.DefaultContext.rounding = usual.prec, usual.rounding

    return (
        Setting(
            "decimal",
            context,
            lambda _: decimal.setcontext(fresh.copy()),
            lambda now: f"the context of decimal at {now[0]} digits, {now[1]}",
        ),
        Setting("decimal in new threads", of_threads, restore_threads, silent),
        Setting(
            "the locale",
            lambda: _locale.setlocale(_locale.LC_ALL, None),
            lambda now: locale.setlocale(locale.LC_ALL, now),
            lambda now: f"the locale at {now!r}",
        ),
    )


def _of_numpy() -> tuple[Setting, ...]:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return ()

    def restore_print_options(wanted: dict[str, Any]) -> None:
        numpy.set_printoptions(**wanted)

    return (
        Setting(
            "errors of numpy",
            numpy.geterr,
            lambda now: numpy.seterr(**now),
            lambda now: f"errors of numpy at {now}",
        ),
        Setting("numpy's print options", numpy.get_printoptions, restore_print_options, silent),
    )
