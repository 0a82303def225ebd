"""States of a sharded optimizer as the plain one has them: whole, and numbered over all parameters it was given.

Frozen parameters have numbers too. The inner optimizer, of this rank's rows, has the trained ones alone, so it
numbers them otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from torch import Tensor

from course_lib.parallel.sharded.zero.optimizer_buckets import OptimizerBucket

__all__ = ["full_state", "own_share"]

Groups = Sequence[dict[str, Any]]  # param_groups of an optimizer
State = dict[str, Any]  # what its state_dict() returns


def full_state(groups: Groups, buckets: Sequence[OptimizerBucket], own: dict[Tensor, dict[str, Any]]) -> State:
    """Full states, on every rank, of what each has for its rows: ``own``, by shard."""
    numbers = {p: number for number, p in enumerate(_parameters(groups))}
    state: dict[int, dict[str, Any]] = {}
    for parameter, (bucket, index) in _bucket_of(groups, buckets).items():
        shard = bucket.shards[index]
        full = {
            name: bucket.full(index, value) if _is_by_row(value, tuple(shard.shape)) else value
            for name, value in own.get(shard, {}).items()
        }
        if full:
            state[numbers[parameter]] = full
    packed = [{**group, "params": [numbers[p] for p in group["params"]]} for group in groups]
    return {"state": state, "param_groups": packed}


def own_share(groups: Groups, buckets: Sequence[OptimizerBucket], full: State) -> State:
    """This rank's rows of full states, as the inner optimizer loads them; states of frozen parameters are left out.

    ``ValueError`` where the groups have other sizes.
    """
    sizes = [[len(group["params"]) for group in those] for those in (full["param_groups"], groups)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"this state has parameter groups of {sizes[0]} parameters, and this optimizer has groups of {sizes[1]}. "
            "Make the optimizer with the same parameters, frozen ones too"
        )
    number_there = dict(zip(_parameters(groups), _parameters(full["param_groups"]), strict=True))
    bucket_of = _bucket_of(groups, buckets)
    number_here = {p: number for number, p in enumerate(bucket_of)}
    state = {}
    for parameter, (bucket, index) in bucket_of.items():
        rows, group_rank = bucket.packing.tensors[index], bucket.members.group_rank
        found = full["state"].get(number_there[parameter], {})
        own = {
            name: rows.cut(value, group_rank).contiguous().clone() if _is_by_row(value, rows.shape) else value
            for name, value in found.items()
        }
        if own:
            state[number_here[parameter]] = own
    packed = [
        {**there, "params": [number_here[p] for p in here["params"] if p in number_here]}
        for there, here in zip(full["param_groups"], groups, strict=True)
    ]
    return {**full, "state": state, "param_groups": packed}


def _parameters(groups: Groups) -> list[Any]:
    """In the order in which an optimizer numbers them."""
    return list(chain.from_iterable(group["params"] for group in groups))


def _bucket_of(groups: Groups, buckets: Sequence[OptimizerBucket]) -> dict[Tensor, tuple[OptimizerBucket, int]]:
    """Of each trained parameter, in the order of the groups: its bucket, and its place there."""
    found = {p: (bucket, index) for bucket in buckets for index, p in enumerate(bucket.parameters)}
    return {p: found[p] for p in _parameters(groups) if p in found}


def _is_by_row(value: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0 and tuple(value.shape) == shape
