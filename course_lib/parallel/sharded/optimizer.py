"""ZeRO stages 1 and 2: every rank has all weights, and the optimizer states of its own rows alone.

A step of any element-wise optimizer (SGD, Adam, ...) needs of a weight only that weight, its gradient and its states.
So a rank that keeps 1/n of the states can update 1/n of the weights, if it has the mean gradient of these; what the
others have updated it gets from them. A reduce-scatter and an all-gather: the two halves of the all-reduce that DDP
would have sent, and the same bytes.

Stage 1 sends gradients when ``step`` is called. Stage 2 sends a bucket as soon as backward has filled it, and frees
the whole gradients: each rank keeps the rows of its own (``gradient_sharding.py``).

Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (2020), stages 1
and 2. In production: ``torch.distributed.optim.ZeroRedundancyOptimizer``, which deals out whole tensors, or FSDP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster import Rank
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.data.buckets import BUCKET_SIZE_BYTES
from course_lib.parallel.sharded.clipping import clip_shards
from course_lib.parallel.sharded.gradient_sharding import GradientSharding
from course_lib.parallel.sharded.optimizer_buckets import optimizer_buckets

__all__ = ["NEEDS_WHOLE_MATRICES", "ShardedOptimizer"]

NEEDS_WHOLE_MATRICES = (
    "Adafactor",
    "Muon",
)  # of torch.optim: what they do to one number depends on its whole matrix
_NEEDS_EVERYTHING = ("LBFGS",)

Parameters = Iterable[nn.Parameter] | Iterable[dict[str, Any]]


class ShardedOptimizer(torch.optim.Optimizer):
    """Any element-wise ``torch.optim`` class, with 1/n of its states on each of n ranks.

    ``ShardedOptimizer(me, model.parameters(), torch.optim.AdamW, lr=1e-3)``. The model is a plain one, with the same
    weights on all ranks; each rank computes its own part of the batch, and ``step`` averages the gradients. Parameter
    groups, learning-rate schedulers and ``zero_grad`` work as usual. ``state_dict()`` is this rank's share;
    ``full_state_dict()`` is that of the plain optimizer.

    ``stage=2``: gradients are sent, averaged and cut while backward goes on; ``parameter.grad`` is then ``None``.
    More backwards before a step add up. ``master_dtype``: the rows that are updated are kept in this dtype too, and
    the model's weights (16 bits, say) are copies of them.

    ``ValueError`` for an optimizer that needs more than rows (Muon, Adafactor, LBFGS), and where nothing is to be
    trained. ``RuntimeError`` in ``step`` where some parameters have no gradient on this rank and others do.
    """

    def __init__(
        self,
        me: Rank,
        params: Parameters,
        optimizer_class: type[torch.optim.Optimizer],
        *,
        stage: int = 1,
        group: dist.ProcessGroup | None = None,
        bucket_size_bytes: int = BUCKET_SIZE_BYTES,
        master_dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        _check(optimizer_class, stage)
        super().__init__(params, options)
        self.me, self.members, self.stage = me, Members.of(me, group), stage
        trained = [p for g in self.param_groups for p in g["params"] if p.requires_grad]
        if not trained:
            raise ValueError(
                "no parameter given to this optimizer requires a gradient: there is nothing to train"
            )
        self.buckets = optimizer_buckets(self.members, trained, bucket_size_bytes, master_dtype)
        self._shard_of = {p: s for b in self.buckets for p, s in zip(b.parameters, b.shards, strict=True)}
        groups = [{**group, "params": self._shards(group["params"])} for group in self.param_groups]
        self.inner = optimizer_class(groups, **options)
        self.state = self.inner.state  # by shard
        for outer, inner in zip(
            self.param_groups, self.inner.param_groups, strict=True
        ):  # the class's own defaults
            outer.update({name: value for name, value in inner.items() if name != "params"})
        if stage == 2:
            self.gradient_sharding = GradientSharding(self.buckets)

    def _shards(self, parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
        return [self._shard_of[p] for p in parameters if p in self._shard_of]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Average gradients, update this rank's rows, and get those of the others."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self.reduce_gradients():
            return loss
        for outer, inner in zip(self.param_groups, self.inner.param_groups, strict=True):
            inner.update(
                {name: value for name, value in outer.items() if name != "params"}
            )  # a scheduler's, say
        self.inner.step()
        for bucket in self.buckets:
            bucket.update_own_rows()
        self._gather_weights()
        for bucket in self.buckets:
            bucket.drop_gradients()
        return loss

    def _gather_weights(self) -> None:
        """Two buckets at a time: each holds all its weights once more, and one travels while the other is copied."""
        finish: Callable[[], Tensor] | None = self.buckets[0].start_gather()
        for bucket, following in zip_longest(self.buckets, self.buckets[1:]):
            finish, arrive = following.start_gather() if following else None, finish
            assert arrive is not None  # of this bucket: it was started before
            bucket.take(arrive())
            del arrive  # and with it the buffer

    @torch.no_grad()
    def reduce_gradients(self) -> bool:
        """Bring the mean gradients to the shards, where they are not there yet; False where there are none at all."""
        if any(shard.grad is not None for shard in self._shard_of.values()):
            return True  # stage 2, or called before
        missing = [p for p in self._shard_of if p.grad is None]
        if len(missing) == len(self._shard_of):
            return False
        if missing:
            shapes = ", ".join(str(tuple(p.shape)) for p in missing[:3])
            raise RuntimeError(
                f"{len(missing)} of {len(self._shard_of)} parameters (of shapes {shapes}) have no gradient on "
                "this rank. If "
                "another rank has one, ranks would not agree about it: use every parameter in the loss, or freeze it."
            )
        for bucket in self.buckets:
            bucket.accumulate(bucket.start_reduction([p.grad for p in bucket.parameters])())
        return True

    def clip_grad_norm(self, max_norm: float) -> Tensor:
        """Scale the mean gradients so that their norm over all ranks' shards is ``max_norm`` at most; returns the
        norm."""
        self.reduce_gradients()
        return clip_shards(self._shard_of.values(), max_norm, self.members)

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        for bucket in self.buckets:
            bucket.drop_gradients()

    # -- states -------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """This rank's share: states of its rows. It fits a run of as many ranks."""
        return self.inner.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a share back. ``ValueError`` where its states have other shapes than this rank's rows."""
        shards = [p for g in self.inner.param_groups for p in g["params"]]
        for number, state in state_dict["state"].items():
            for name, value in state.items():
                shape = tuple(shards[number].shape) if number < len(shards) else None
                if isinstance(value, Tensor) and value.dim() and tuple(value.shape) != shape:
                    raise ValueError(
                        f"{name} of parameter {number} has shape {tuple(value.shape)}, and this rank, "
                        f"{self.members.place} of "
                        f"{self.members.count}, keeps {shape}: it is a share of another run. Save full_state_dict(), "
                        "which loads on any number of ranks."
                    )
        self.inner.load_state_dict(state_dict)
        for outer, inner in zip(self.param_groups, self.inner.param_groups, strict=True):
            outer.update({name: value for name, value in inner.items() if name != "params"})

    def full_state_dict(self) -> dict[str, Any]:
        """The state that the plain optimizer would have, on every rank. All ranks call it."""
        own = self.inner.state_dict()
        shards = [p for g in self.inner.param_groups for p in g["params"]]
        where = {shard: (bucket, i) for bucket in self.buckets for i, shard in enumerate(bucket.shards)}
        state = {}
        for number, shard in enumerate(shards):
            bucket, i = where[shard]
            rows = bucket.packing.tensors[i]
            state[number] = {
                name: bucket.whole(rows, value) if _is_by_row(value, shard) else value
                for name, value in own["state"].get(number, {}).items()
            }
        return {"state": {n: s for n, s in state.items() if s}, "param_groups": own["param_groups"]}

    def load_full_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take this rank's rows of a plain optimizer's state, or of ``full_state_dict`` of any number of ranks."""
        shards = [p for g in self.inner.param_groups for p in g["params"]]
        where = {shard: (bucket, i) for bucket in self.buckets for i, shard in enumerate(bucket.shards)}
        state = {}
        for number, whole in state_dict["state"].items():
            bucket, i = where[shards[number]]
            rows = bucket.packing.tensors[i]
            state[number] = {
                name: rows.cut(value, self.members.place).clone()
                if isinstance(value, Tensor) and tuple(value.shape) == rows.shape
                else value
                for name, value in whole.items()
            }
        self.load_state_dict({**state_dict, "state": state})


def _is_by_row(value: Any, shard: Tensor) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0 and value.shape == shard.shape


def _check(optimizer_class: type, stage: int) -> None:
    if stage not in (1, 2):
        raise ValueError(
            f"stage={stage} is not known: 1 shares optimizer states, 2 gradients too; 3 is FullySharded"
        )
    name = getattr(optimizer_class, "__name__", str(optimizer_class))
    if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, torch.optim.Optimizer)):
        raise ValueError(f"{name} is no optimizer class; give the class itself, such as torch.optim.AdamW")
    if name in NEEDS_WHOLE_MATRICES:
        raise ValueError(
            f"{name} needs whole matrices: on a rank's rows alone it computes something else, without a word. Give it "
            "whole ones by WholeMatrixOptimizer."
        )
    if name in _NEEDS_EVERYTHING:
        raise ValueError(
            f"{name} needs all gradients at once, and cannot work on a share. The nearest is torch.optim.AdamW."
        )
