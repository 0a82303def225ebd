"""One lesson as a script whose own bodies run on the far device (``fake_device``): what names no device is on the CPU.

    PYTHONPATH=.:tests/support python tests/support/fake_device_lesson.py notebooks/src/04a_distributed_data_parallel.py

A tensor of the CPU beside one of the device is an error, and so is one in a collective: NCCL takes none. What judges
ask of ranks stays on the CPU (they look into storages, which a far tensor does not have), and so does what PyTorch
itself does on real devices only (``NEAR``).
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fake_device import run_far, set_up

from course_lib.cluster.api.cluster import Cluster

# Functions of lessons: why the far device cannot stand for a GPU there.
NEAR = {
    "two_tasks": "PyTorch's DDP asks a device's hooks for pinned memory, to look for unused parameters",
    "save_and_go_on": "a checkpoint holds tensors of a GPU, which far tensors are not when they are saved",
    "load_and_go_on": "it loads that checkpoint",
    "steps_of": "PyTorch's fully_shard asks a device for streams",
    "torch_loads_ours": "PyTorch's fully_shard asks a device for streams",
    "train_by_torch": "PyTorch's fully_shard asks a device for streams",
    "save_by_rank": "a checkpoint holds tensors of a GPU, which far tensors are not when they are saved",
    "loss_of_files": "it loads that checkpoint",
    "measure_message_times": "on gloo messages lie in main memory; a function of the course",
    "both": "on gloo PyTorch's pipeline stages stay on the CPU, as the lesson says",
    "times_of_both": "on gloo PyTorch's pipeline stages stay on the CPU, as the lesson says",
    "train_and_resume": "a checkpoint holds tensors of a GPU, which far tensors are not when they are saved",
    "balances": "PyTorch's checkpoint asks a device for its random state, from the threads of backward",
}

_plain, _plain_init, _plain_shaped = Cluster.call, Cluster.__init__, Cluster.shaped


def init(self: Cluster, *args: Any, **settings: Any) -> None:
    """``Cluster(..., links=...)`` has its ranks on the CPU on any machine; one that asks for gloo is a judge's."""
    _plain_init(self, *args, **settings)
    self.is_far = settings.get("backend") is None and settings.get("links") is None  # type: ignore[attr-defined]
    self.is_shaped = False  # type: ignore[attr-defined]


@contextlib.contextmanager
def shaped(self: Cluster, **shape: Any) -> Iterator[Cluster]:
    """Shaped ranks sit on the CPU, whether their links are slow or not."""
    before, self.is_shaped = self.is_shaped, shape.get("links") is not None  # type: ignore[attr-defined]
    try:
        with _plain_shaped(self, **shape):
            yield self
    finally:
        self.is_shaped = before  # type: ignore[attr-defined]


def on_far(me: Any, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Runs on a rank."""
    return run_far(me, function, args, kwargs, for_tests=False)


def near(me: Any, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Runs on a rank. PyTorch must hear of the device before the first backward pass of a process."""
    set_up()
    return function(me, *args, **kwargs)


def call(
    self: Cluster,
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """``Cluster.call`` of a lesson: far, unless a judge asks."""
    given = (function, tuple(args), dict(kwargs or {}))
    if self._shape is not None or self.is_shaped:  # type: ignore[attr-defined]
        return _plain(self, near, given, **options)
    stays = _asked_by_claims() or _innermost(function, args).__name__ in NEAR
    if stays or not self.is_far:  # type: ignore[attr-defined]
        return _plain(_twin(self), *given, **options)
    return _plain(self, on_far, given, **options)


_twins: dict[int, Cluster] = {}


def _twin(cluster: Cluster) -> Cluster:
    """As many ranks that have never heard of the device: PyTorch would take it for the machine's accelerator."""
    if not cluster.is_far:  # type: ignore[attr-defined]
        return cluster
    if cluster.world_size not in _twins:
        _twins[cluster.world_size] = Cluster(cluster.world_size, backend="gloo")
    return _twins[cluster.world_size]


def _asked_by_claims() -> bool:
    frame = sys._getframe(2)
    while frame is not None and "course_lib/claims/" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None


def _innermost(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """The lesson's own function: meters and runs hand theirs, with the lesson's as an argument."""
    while isinstance(function, functools.partial):
        function, args = function.func, (*function.args, *args)
    own = function.__module__ == "__main__"
    return function if own else next((one for one in args if callable(one) and hasattr(one, "__name__")), function)


if __name__ == "__main__":
    import fake_device_lesson

    Cluster.call, Cluster.__init__ = fake_device_lesson.call, fake_device_lesson.init  # type: ignore[method-assign]
    Cluster.shaped = fake_device_lesson.shaped  # type: ignore[method-assign]
    from course_lib.authoring.bench.gpu.lesson_script import main

    sys.exit(main(sys.argv[1:]))
