"""What a function may do to the process that runs it, so that a later one would be wrong: one kind, one function.

``KEPT`` holds what can be put back; what cannot, and costs the ranks, stands in ``COSTLY``. ``right`` and
``expected`` are a call that meets all of it.
"""

from __future__ import annotations

import builtins
import contextlib
import decimal
import functools
import gc
import json
import locale
import math
import operator
import os
import random
import resource
import signal
import socket
import sys
import threading
import time
import unittest.mock
import warnings

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def right(me):
    """Needs what the acts below spoil. Everything is a small whole number, exact in any arithmetic."""
    import json as found

    x = torch.ones(3, requires_grad=True)
    total = torch.full((2,), float(me.rank + 1))
    dist.all_reduce(total)
    layer = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        layer.weight.fill_(2.0)
    layer(x).sum().backward()
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    optimizer.step()
    print("said", me.rank)
    sums = [
        x.sum(),
        (x + x).sum(),
        torch.add(x, 1).sum(),
        F.relu(-x).sum(),
        F.linear(x, torch.ones(1, 3)),
        x.matmul(x),
    ]
    numbers = [int(value.item()) for value in sums]
    numbers += [
        int(numpy.sum(numpy.ones(4))),
        len([1, 2]),
        max(3, 4),
        math.floor(2.5),
        functools.reduce(operator.add, [1, 2]),
    ]
    numbers += [int(total[0].item()), *map(int, x.grad.tolist()), int(layer.weight.detach()[0, 0].item())]
    texts = [
        str(decimal.Decimal(1) / 3),
        found.dumps([1]),
        str(torch.get_default_dtype()),
        f"{os.getcwd() == HOME}",
        str(len(str(10**1000))),
        _in_a_thread(lambda: str(decimal.Decimal(1) / 3)),
    ]
    state = [
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
    ]
    state += [
        resource.getrlimit(resource.RLIMIT_CORE) == CORE,
        _mask() == MASK,
        (sys.float_info.min / 2) != 0,
    ]
    state += [numpy.geterr()["divide"], socket.getdefaulttimeout(), sys.excepthook.__module__ != __name__]
    state += [
        random.random() < 1,
        threading.excepthook.__module__ != __name__,
        os.getpriority(os.PRIO_PROCESS, 0) == NICE,
    ]
    return numbers, texts, state


def _in_a_thread(function):
    said = []
    thread = threading.Thread(target=lambda: said.append(function()))
    thread.start()
    thread.join()
    return said[0]


def expected(world_size):
    total = world_size * (world_size + 1) // 2
    numbers = [3, 6, 6, 0, 3, 3, 4, 2, 4, 2, 3, total, 2, 2, 2, 1]
    texts = ["0." + 28 * "3", "[1]", "torch.float32", "True", "1001", "0." + 28 * "3"]
    state = [True, False, True, True, True, True, "warn", None, True, True, True, True]
    return [(numbers, texts, state)] * world_size


HOME = os.getcwd()
CORE = resource.getrlimit(resource.RLIMIT_CORE)
NICE = os.getpriority(os.PRIO_PROCESS, 0)


def _mask():
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


MASK = _mask()


def _zero(*args, **kwargs):
    return 0


def _times_0(tensor, *args, **kwargs):
    return tensor * 0


def _nothing(*args, **kwargs):
    return None


def _keep(name, make):
    """Held where no end of a function reaches it."""
    held = make()
    KEPT_ALIVE[name] = held
    return held


KEPT_ALIVE: dict[str, object] = {}


def _enter(make):
    manager = make()
    _keep("entered", lambda: manager)
    manager.__enter__()


def _delete(owner, name):
    delattr(owner, name)


@contextlib.contextmanager
def _twice():
    """Every sum after the first one fails: somebody's decorator, made of the standard library's code."""
    _SEEN.append(1)
    assert len(_SEEN) < 2
    yield


_SEEN: list[int] = []

KEPT = {
    "Tensor.sum": lambda: setattr(torch.Tensor, "sum", lambda s, *a, **k: s * 0),
    "Tensor.__add__": lambda: setattr(torch.Tensor, "__add__", lambda s, o: s),
    "Tensor.matmul": lambda: setattr(torch.Tensor, "matmul", _times_0),
    "Tensor.backward": lambda: setattr(torch.Tensor, "backward", _nothing),
    "Tensor.item": lambda: setattr(torch.Tensor, "item", _zero),
    "Tensor.grad": lambda: setattr(torch.Tensor, "grad", property(lambda s: torch.zeros(3))),
    "Tensor by mock": lambda: unittest.mock.patch.object(torch.Tensor, "sum", return_value=torch.ones(1)).start(),
    "torch.add": lambda: setattr(torch, "add", torch.sub),
    "torch.ones": lambda: setattr(torch, "ones", torch.zeros),
    "torch.no_grad": lambda: setattr(torch, "no_grad", unittest.mock.MagicMock()),
    "torch.full gone": lambda: _delete(torch, "full"),
    "torch by its dict": lambda: vars(torch).update(add=torch.mul),
    "F.relu": lambda: setattr(F, "relu", F.gelu),
    "F.linear": lambda: setattr(F, "linear", lambda x, *a: x),
    "nn.Linear.forward": lambda: setattr(nn.Linear, "forward", lambda s, x: x),
    "nn.Linear.forward by its code": lambda: setattr(
        nn.Linear.forward, "__code__", (lambda self, input: input).__code__
    ),
    "nn.Linear's defaults": lambda: setattr(nn.Linear.__init__, "__defaults__", (True, "meta", None)),
    "SGD's defaults": lambda: setattr(
        torch.optim.SGD.__init__,
        "__kwdefaults__",
        {**torch.optim.SGD.__init__.__kwdefaults__, "maximize": True},
    ),
    "nn.Linear": lambda: setattr(nn, "Linear", nn.Identity),
    "Module.__call__": lambda: setattr(nn.Module, "__call__", lambda s, x: x),
    "Module.__call__ without gradients": lambda: setattr(nn.Module, "__call__", torch.no_grad()(nn.Module.__call__)),
    "Tensor.sum in a context": lambda: setattr(torch.Tensor, "sum", _twice()(torch.Tensor.sum)),
    "SGD.step": lambda: setattr(torch.optim.SGD, "step", _nothing),
    "dist.all_reduce": lambda: setattr(dist, "all_reduce", _nothing),
    "float32": lambda: setattr(torch, "float32", torch.float64),
    "numpy.sum": lambda: setattr(numpy, "sum", _zero),
    "builtins.print": lambda: setattr(builtins, "print", _nothing),
    "builtins.len": lambda: setattr(builtins, "len", _zero),
    "builtins.max": lambda: setattr(builtins, "max", min),
    "builtins.int": lambda: setattr(builtins, "int", _zero),
    "math.floor": lambda: setattr(math, "floor", math.ceil),
    "functools.reduce": lambda: setattr(functools, "reduce", _zero),
    "operator.add": lambda: setattr(operator, "add", operator.sub),
    "random.random": lambda: setattr(random, "random", lambda: 2),
    "json.dumps": lambda: setattr(json, "dumps", repr),
    "os.getcwd": lambda: setattr(os, "getcwd", _zero),
    "time.monotonic": lambda: setattr(time, "monotonic", _zero),
    "sys.modules json": lambda: sys.modules.update(json=math),
    "sys.modules gone": lambda: sys.modules.pop("json"),
    "sys.excepthook": lambda: setattr(sys, "excepthook", _nothing),
    "threading.excepthook": lambda: setattr(threading, "excepthook", _nothing),
    "sys.stdout": lambda: setattr(sys, "stdout", None),
    "decimal": lambda: setattr(decimal.getcontext(), "prec", 3),
    "decimal in threads": lambda: setattr(decimal.DefaultContext, "prec", 3),
    "digits of numbers": lambda: sys.set_int_max_str_digits(700),
    "locale": lambda: locale.setlocale(locale.LC_ALL, "C"),
    "limits": lambda: resource.setrlimit(resource.RLIMIT_CORE, (CORE[0] // 2 if CORE[0] > 0 else 0, CORE[1])),
    "umask": lambda: os.umask(0o077),
    "SIGTERM": lambda: signal.signal(signal.SIGTERM, _nothing),
    "blocked signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2}),
    "cwd": lambda: os.chdir("/"),
    "environment": lambda: os.environ.clear(),
    "recursion": lambda: sys.setrecursionlimit(2000),
    "trace": lambda: sys.settrace(lambda *_: None),
    "profile": lambda: sys.setprofile(_nothing),
    "gc": lambda: (gc.disable(), gc.set_threshold(1, 1, 1)),
    "warnings": lambda: warnings.simplefilter("error"),
    "numpy errors": lambda: numpy.seterr(all="raise"),
    "timeout of sockets": lambda: socket.setdefaulttimeout(1e-3),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "default device": lambda: torch.set_default_device("meta"),
    "gradients": lambda: torch.set_grad_enabled(False),
    "denormals": lambda: torch.set_flush_denormal(True),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "saved tensors": lambda: _enter(torch.autograd.graph.save_on_cpu),
    "function mode": lambda: _enter(lambda: torch.overrides.TorchFunctionMode()),
    "hooks of modules": lambda: nn.modules.module.register_module_forward_hook(lambda m, i, o: o * 0),
    "hooks of optimizers": lambda: sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook(
        lambda o, a, k: ((), {"closure": 3})
    ),
    "meta path": lambda: sys.meta_path.clear(),
    "sys.path": lambda: sys.path.clear(),
    "alarm": lambda: signal.setitimer(signal.ITIMER_REAL, 0.5),
}

COSTLY = {
    "inference mode": lambda: _enter(torch.inference_mode),
    "a kernel": lambda: _keep("library", lambda: torch.library.Library("aten", "IMPL")).impl(
        "relu", lambda x: x, "CPU"
    ),
    "SIGUSR1": lambda: signal.signal(signal.SIGUSR1, _nothing),
    "a profiler": lambda: _enter(torch.autograd.profiler.profile),
}
