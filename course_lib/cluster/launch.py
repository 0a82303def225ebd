"""The same rank function under PyTorch's own launcher, on one machine or many.

::

    torchrun --nproc-per-node 2 -m course_lib.cluster.launch train:main steps=100

``MODULE:FUNCTION`` is called as ``FUNCTION(me, steps=100)`` on every rank, where ``me`` is its ``Rank``. What it
returns is printed by rank 0.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib.cluster.base.rank import Rank

__all__ = ["main", "rank_from_env"]


def rank_from_env(env: Mapping[str, str]) -> Rank:
    """The ``Rank`` that torchrun describes in the environment, on a GPU of its own where there is one for each."""
    import torch

    missing = [name for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in env]
    if missing:
        raise ValueError(
            f"{', '.join(missing)} not set: start this module with torchrun, as in "
            "'torchrun --nproc-per-node 2 -m course_lib.cluster.launch MODULE:FUNCTION'"
        )
    local_rank = int(env["LOCAL_RANK"])
    num_gpus = torch.cuda.device_count()
    one_each = num_gpus >= int(env.get("LOCAL_WORLD_SIZE", "1"))
    return Rank(
        rank=int(env["RANK"]),
        world_size=int(env["WORLD_SIZE"]),
        device=torch.device(f"cuda:{local_rank % num_gpus}" if num_gpus else "cpu"),
        backend="nccl" if num_gpus and one_each else "gloo",
        local_rank=local_rank,
        node=int(env.get("GROUP_RANK", "0")),
    )


def main(arguments: Sequence[str]) -> None:
    """Join the process group, call the function, print rank 0's result, leave."""
    import torch
    import torch.distributed as dist

    if not arguments:
        raise ValueError("nothing to run: name it as MODULE:FUNCTION, for example train:main")
    function, options = resolve(arguments[0]), parse_options(arguments[1:])
    me = rank_from_env(os.environ)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if me.device.type == "cuda":
        torch.cuda.set_device(me.device)
    dist.init_process_group(me.backend, device_id=me.device if me.backend == "nccl" else None)
    try:
        result = function(me, **options)
        if me.rank == 0 and result is not None:
            print(result)
    finally:
        sys.stdout.flush()
    dist.destroy_process_group()  # not after a failure: NCCL would wait there for peers, which wait for this rank


def resolve(name: str) -> Callable[..., Any]:
    """The function that ``MODULE:FUNCTION`` names; the current folder counts as a place to import from."""
    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        raise ValueError(f"{name!r} does not name a function; write MODULE:FUNCTION, for example train:main")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = importlib.import_module(module_name)
    function = getattr(module, function_name, None)
    if not callable(function):
        offers = sorted(
            n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module_name
        )
        raise ValueError(f"{module_name} has no function {function_name!r}; it has {', '.join(offers) or 'none'}")
    return function


def parse_options(words: Sequence[str]) -> dict[str, Any]:
    """``name=value`` words as keyword arguments; a value that is no Python literal is text."""
    options: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (name.isidentifier() and equals):
            raise ValueError(f"{word!r} is not of the form name=value")
        try:
            options[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            options[name] = text
    return options


if __name__ == "__main__":
    from torch.distributed.elastic.multiprocessing.errors import record

    record(main)(sys.argv[1:])
