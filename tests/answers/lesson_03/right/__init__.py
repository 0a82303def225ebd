"""Right answers of other styles than the reference solutions: a judge that refuses one of them is wrong."""

from __future__ import annotations

import copy
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["MEANS_NOTHING", "RIGHT_ANSWERS", "SAME_FUNCTION"]

State = dict[str, Tensor]
Modules = list[Callable[[Any], Any]]


def replicas_by_arithmetic(module: nn.Module, num_replicas: int) -> list[State]:
    """Any recorded operation that makes new memory is a copy; replica 0 has the originals."""
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    first = {**parameters, **buffers}
    rest = [
        {**{n: p * 1 for n, p in parameters.items()}, **{n: b.detach().clone() for n, b in buffers.items()}}
        for _ in range(num_replicas - 1)
    ]
    return [first, *rest]


def replicas_from_rows(module: nn.Module, num_replicas: int) -> list[State]:
    """One stack of copies for each parameter, a row of it for each replica; `copy_` for buffers."""

    def other(buffer: Tensor) -> Tensor:
        return torch.empty_like(buffer).copy_(buffer)

    rows = {name: torch.stack([p] * num_replicas).unbind() for name, p in module.named_parameters()}
    return [
        {name: row[r] for name, row in rows.items()}
        | {name: other(buffer) if r else buffer for name, buffer in module.named_buffers()}
        for r in range(num_replicas)
    ]


class _Copy(torch.autograd.Function):
    """A copy to each replica, whose backward adds up."""

    @staticmethod
    def forward(ctx: Any, count: int, tensor: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.clone() for _ in range(count))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        return None, torch.stack([grad for grad in grads if grad is not None]).sum(0)


def replicas_by_a_function_of_autograd(module: nn.Module, num_replicas: int) -> list[State]:
    """A broadcast with a backward of its own, as in the library; names of shared weights are all given."""
    replicas: list[State] = [OrderedDict() for _ in range(num_replicas)]
    done: dict[int, tuple[Tensor, ...]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        key = id(parameter)
        done[key] = done.get(key) or _Copy.apply(num_replicas, parameter)
        for replica, one in zip(replicas, done[key], strict=True):
            replica[name] = one
    for name, buffer in module.named_buffers():
        for place, replica in enumerate(replicas):
            replica[name] = buffer if place == 0 else copy.deepcopy(buffer)
    return replicas


def replicas_in_a_flat_buffer(module: nn.Module, num_replicas: int) -> list[State]:
    """All parameters in one vector, copied once for each replica, and cut again."""
    names, parameters = zip(*module.named_parameters(), strict=True)
    sizes = [p.numel() for p in parameters]

    def make() -> Iterator[State]:
        for replica in range(num_replicas):
            flat = torch.cat([p.reshape(-1) for p in parameters]).split(sizes)
            tensors = {n: piece.view(p.shape) for n, piece, p in zip(names, flat, parameters, strict=True)}
            tensors.update((n, [b, b.clone()][replica > 0]) for n, b in module.named_buffers())
            yield tensors

    return list(make())


def threads_from_a_pool(modules: Modules, inputs: list[Any]) -> list[Any]:
    """An executor keeps the order, and brings exceptions home."""
    recording = torch.is_grad_enabled()

    def work(pair: tuple[Callable[[Any], Any], Any]) -> Any:
        with torch.set_grad_enabled(recording):
            return pair[0](pair[1])

    with ThreadPoolExecutor(len(modules)) as pool:
        futures = [pool.submit(work, pair) for pair in zip(modules, inputs, strict=True)]
    for r, future in enumerate(futures):
        if error := future.exception():
            error.add_note(f"in replica {r}")
            raise error
    return [future.result() for future in futures]


class _Worker(threading.Thread):
    def __init__(self, module: Callable[[Any], Any], given: Any) -> None:
        super().__init__()
        self.module, self.given, self.recording = module, given, torch.is_grad_enabled()
        self.future: Future[Any] = Future()

    def run(self) -> None:
        torch.set_grad_enabled(self.recording)
        try:
            self.future.set_result(self.module(self.given))
        except Exception as error:
            self.future.set_exception(error)


def threads_as_a_class(modules: Modules, inputs: list[Any]) -> list[Any]:
    """A class of threads with a future each; the error names the replica and what it said, without `from`."""
    workers = [_Worker(*pair) for pair in zip(modules, inputs, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    failed = [
        f"replica {r}: {worker.future.exception()}" for r, worker in enumerate(workers) if worker.future.exception()
    ]
    if failed:
        raise RuntimeError(failed[0])
    return [worker.future.result() for worker in workers]


def threads_with_a_queue(modules: Modules, inputs: list[Any]) -> list[Any]:
    """Results come through a queue with their numbers and are sorted; all failures go into an exception group."""
    results: queue.Queue[tuple[int, Any, Exception | None]] = queue.Queue()
    context = torch.enable_grad if torch.is_grad_enabled() else torch.no_grad

    def work(r: int, module: Callable[[Any], Any], given: Any) -> None:
        try:
            with context():
                results.put((r, module(given), None))
        except Exception as error:
            results.put((r, None, error))

    threads = [
        threading.Thread(target=work, args=(r, *pair)) for r, pair in enumerate(zip(modules, inputs, strict=True))
    ]
    _ = [thread.start() for thread in threads]  # type: ignore[func-returns-value]
    came = sorted((results.get() for _ in threads), key=lambda one: one[0])
    _ = [thread.join() for thread in threads]  # type: ignore[func-returns-value]
    if errors := [RuntimeError(f"replica {r}: {error}") for r, _, error in came if error]:
        raise ExceptionGroup("some replicas failed", errors)
    return [output for _, output, _ in came]


def load_guarded_by_the_library(model: nn.Module, saved: State) -> None:
    """PyTorch's own helper, where the names are not the model's."""
    mine = OrderedDict(saved)
    if set(mine) != set(model.state_dict()):
        torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(mine, "module.")
    model.load_state_dict(mine)


def load_by_hand(model: nn.Module, saved: State) -> None:
    """No `load_state_dict`: names are compared, and tensors copied one by one."""
    mine = model.state_dict()
    prefix = "" if set(saved) == set(mine) else "module."
    if {prefix + name for name in mine} != set(saved):
        raise KeyError(f"not this model's names: {sorted({prefix + name for name in mine} ^ set(saved))}")
    if any(saved[prefix + name].shape != tensor.shape for name, tensor in mine.items()):
        raise ValueError("not this model's shapes")  # copy_ would broadcast
    with torch.no_grad():
        for name, tensor in mine.items():
            tensor.copy_(saved[prefix + name])


def load_into_a_wrapper_of_its_kind(model: nn.Module, saved: State) -> None:
    """Wraps the model for as long as the names need it."""
    as_it_is = sorted(saved) == sorted(model.state_dict())
    (model if as_it_is else nn.ModuleDict({"module": model})).load_state_dict(saved)


def load_by_trying(model: nn.Module, saved: State) -> None:
    """Asks forgiveness: as the names are, and without the prefix if that fails."""
    try:
        model.load_state_dict(saved)
    except RuntimeError:
        start = len("module.")
        model.load_state_dict({n[start:] if n.startswith("module.") else n: t for n, t in chain(saved.items())})


RIGHT_ANSWERS: dict[str, tuple[Callable[..., Any], ...]] = {
    "03.replicas": (
        replicas_by_arithmetic,
        replicas_from_rows,
        replicas_by_a_function_of_autograd,
        replicas_in_a_flat_buffer,
    ),
    "03.threads": (threads_from_a_pool, threads_as_a_class, threads_with_a_queue),
    "03.load": (load_guarded_by_the_library, load_by_hand, load_into_a_wrapper_of_its_kind, load_by_trying),
}

MEANS_NOTHING: dict[str, dict[str, str]] = {
    "03.load": {
        "fails-where-nothing-is-to-do": "no model of the lesson is without weights, and a file without any fits none",
        "only-contiguous": "what is saved lies in memory in its own order, as `state_dict` gives it here",
        "only-without-requires-grad": "what `state_dict` gives asks for no gradient, unless told otherwise",
        "float64-inside": "what was widened is narrowed as it is copied into the model: the same numbers arrive",
        "loses-the-text-of-errors": "the text asks for an error where something does not fit, and not for its words",
    },
    "03.threads": {
        "fails-where-nothing-is-to-do": "neither the text nor a cell calls it without modules, and a pool of no "
        "threads is no pool",
    },
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "03.replicas": {
        "16: `for name, buffer in module.named_buffers():` after `dictionaries.append(tensors)`": "the list holds the "
        "dictionary itself, and the buffers come into it a line later",
    },
    "03.threads": {
        "23: `results, failures = ([None] * len(modules), {})` after `def work(r):`": "the function looks for these "
        "names when a thread runs it, and they are there by then",
        "25: `def work(r):` after `recording = torch.is_grad_enabled()`": "a function may be made a line later",
        "36: `recording = torch.is_grad_enabled()` after `threads = [threading.Thread(target=work, args=(r,)) for r in "
        "range(len(modules))]`": "no thread has started yet",
        "42: `for r, error in sorted(failures.items()):` -> once": "the first time round it raises",
        "42: `sorted(failures.items())` -> `failures.items()`": "when several replicas fail, the text leaves open "
        "which one is told",
        "37: `range(len(modules))` -> `reversed(range(len(modules)))`": "threads may start in any order",
        "work: gradients switched off": "the switch belongs to the thread, is set to the caller's in the next line, "
        "and ends with the thread",
        "work: its first result for ever": "it has no result: what it makes is put into a list",
    },
}
