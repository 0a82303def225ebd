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

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.data.buckets import BUCKET_SIZE_BYTES
from course_lib.parallel.data.ddp_errors import check_gradient
from course_lib.parallel.sharded.agreement import agree
from course_lib.parallel.sharded.clipping import clip_shards
from course_lib.parallel.sharded.zero.gradient_marks import (
    check_unwritten,
    is_averaged,
    mark_averaged,
    mark_complete,
)
from course_lib.parallel.sharded.zero.gradient_sharding import GradientSharding
from course_lib.parallel.sharded.zero.optimizer_buckets import OptimizerBucket, optimizer_buckets
from course_lib.parallel.sharded.zero.optimizer_states import full_state, own_share
from course_lib.parallel.sharded.zero.stand_in import NO_SCALER

__all__ = ["NEEDS_WHOLE_MATRICES", "ShardedOptimizer"]

# Of torch.optim: what they do to one number depends on its whole matrix.
NEEDS_WHOLE_MATRICES = ("Adafactor", "Muon")
_NEEDS_EVERYTHING = ("LBFGS",)

Parameters = Iterable[nn.Parameter] | Iterable[dict[str, Any]]


class ShardedOptimizer(torch.optim.Optimizer):
    """Any element-wise ``torch.optim`` class, with 1/n of its states on each of n ranks.

    ``ShardedOptimizer(me, model.parameters(), torch.optim.AdamW, lr=1e-3)``. The model is a plain one; its weights
    become those of the first rank. Each rank computes its own part of the batch, and ``step`` averages the gradients.
    Parameter groups, learning-rate schedulers and ``zero_grad`` work as usual. ``state_dict()`` is this rank's share;
    ``full_state_dict()`` is that of the plain optimizer.

    ``stage=2``: gradients are sent, averaged and cut while backward goes on; ``parameter.grad`` is then a stand-in of
    nan, without memory. More backwards before a step add up. ``master_dtype``: the rows that are updated are kept in
    this dtype too, and the model's weights (16 bits, say) are copies of them.

    Gradients in ``parameter.grad`` are no means over ranks: clip with ``clip_grad_norm`` of this class. To write to
    them in place, as torch's ``clip_grad_norm_`` does, is a ``RuntimeError``.

    ``ValueError`` for an optimizer that needs more than rows (Muon, Adafactor, LBFGS), where nothing is to be trained,
    where ranks have other parameters, and for parameters that have no rows of their own (of shape (), expanded,
    overlapping). ``RuntimeError`` in ``step`` where parameters have no gradient on this rank.
    """

    _step_supports_amp_scaling = True  # so that a GradScaler calls step, which says no

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
        if not any(p.requires_grad for group in self.param_groups for p in group["params"]):
            raise ValueError("no parameter of this optimizer requires a gradient, so there is nothing to train")
        self.me, self.members, self.stage = me, Members.of(me, group), stage
        self.bucket_size_bytes, self.master_dtype = bucket_size_bytes, master_dtype
        self.buckets: list[OptimizerBucket] = []
        self.gradient_sharding = GradientSharding() if stage == 2 else None
        self._shard_of: dict[Tensor, nn.Parameter] = {}
        self.inner = optimizer_class(self._sharded_groups(self.param_groups), **options)
        self.state = self.inner.state  # by shard
        self.defaults.update(self.inner.defaults)
        for outer, inner in zip(self.param_groups, self.inner.param_groups, strict=True):
            _copy_settings(inner, outer)  # the class's own defaults

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Train more parameters from now on. All ranks call it, between steps; ``ValueError`` as for the first ones."""
        super().add_param_group(param_group)
        if not hasattr(self, "inner"):
            return  # called by torch.optim.Optimizer.__init__
        try:
            self.inner.add_param_group(self._sharded_groups(self.param_groups[-1:])[0])
        except ValueError:
            self.param_groups.pop()
            raise
        _copy_settings(self.inner.param_groups[-1], self.param_groups[-1])

    def _sharded_groups(self, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """These groups, of this rank's rows of the parameters that are trained."""
        parameters = [p for group in groups for p in group["params"]]
        agree(self.me, parameters, self.master_dtype, self.members.group)
        trained = [p for p in parameters if p.requires_grad]
        for bucket in optimizer_buckets(self.members, trained, self.bucket_size_bytes, self.master_dtype):
            self.buckets.append(bucket)
            self._shard_of.update(zip(bucket.parameters, bucket.shards, strict=True))
            if self.gradient_sharding is not None:
                self.gradient_sharding.watch(bucket)
            else:
                for parameter in bucket.parameters:
                    parameter.register_post_accumulate_grad_hook(mark_complete)
        return [
            {**group, "params": [self._shard_of[p] for p in group["params"] if p in self._shard_of]} for group in groups
        ]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Average gradients, update this rank's rows, and get those of the others."""
        self._refuse_what_has_changed()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.reduce_gradients()
        for outer, inner in zip(self.param_groups, self.inner.param_groups, strict=True):
            _copy_settings(outer, inner)  # a scheduler's, say
        for bucket in self.buckets:
            bucket.follow_the_model()
        self.inner.step()
        for bucket in self.buckets:
            bucket.update_own_rows()
        self._gather_weights()
        for bucket in self.buckets:
            bucket.drop_gradients()
        return loss

    def _refuse_what_has_changed(self) -> None:
        if hasattr(self, "found_inf"):  # which a GradScaler puts here
            raise RuntimeError(NO_SCALER)
        for group in self.param_groups:
            for p in group["params"]:
                if p.requires_grad and p not in self._shard_of:
                    raise RuntimeError(
                        f"a parameter of shape {tuple(p.shape)} requires a gradient now, and did not when this "
                        "optimizer was made. So the optimizer has no rows of it: make the optimizer again."
                    )

    def _gather_weights(self) -> None:
        """Two buckets at a time: each holds all its weights once more, and one is sent while the other is copied."""
        finish: Callable[[], Tensor] | None = self.buckets[0].start_gather()
        for bucket, following in zip_longest(self.buckets, self.buckets[1:]):
            finish, arrive = following.start_gather() if following else None, finish
            assert arrive is not None  # of this bucket: it was started before
            bucket.take(arrive())
            del arrive  # and with it the buffer

    @torch.no_grad()
    def reduce_gradients(self) -> None:
        """Bring the mean gradients to the shards, where they are not there yet.

        ``RuntimeError`` where not all parameters have a gradient, or some have had theirs averaged already.
        """
        for parameter, shard in self._shard_of.items():
            if not is_averaged(parameter.grad):
                shard.grad = None  # its mean is of a gradient that was let go or replaced
        is_there = [is_averaged(parameter.grad) for parameter in self._shard_of]
        missing = [p for p in self._shard_of if p.grad is None]
        if missing:
            raise RuntimeError(_missing_message(missing, len(is_there)))
        if all(is_there):
            return  # stage 2, or called before
        if any(is_there):
            raise RuntimeError(
                f"{sum(is_there)} of {len(is_there)} parameters have the mean gradient over ranks, and the others "
                "have this rank's own, from another backward. Average, or clip, after the last backward of a step. "
                "optimizer.zero_grad() starts again."
            )
        for parameter in self._shard_of:
            check_gradient(f"a parameter of shape {tuple(parameter.shape)}", parameter)  # type: ignore[arg-type]
            check_unwritten(parameter.grad)  # type: ignore[arg-type]  # none is missing
        for bucket in self.buckets:
            bucket.accumulate(bucket.start_reduction([p.grad for p in bucket.parameters])())
            for parameter in bucket.parameters:
                mark_averaged(parameter.grad)  # type: ignore[arg-type]

    def clip_grad_norm(self, max_norm: float) -> Tensor:
        """Scale the mean gradients so that their norm over all ranks' shards is ``max_norm`` at most; returns the
        norm."""
        self.reduce_gradients()
        return clip_shards(self._shard_of.values(), max_norm, self.members)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for bucket in self.buckets:
            bucket.drop_gradients()
        super().zero_grad(set_to_none)

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
                        f"{self.members.group_rank} of {self.members.count}, keeps {shape}: the value is a shard of "
                        "another run. Save full_state_dict(), which loads on any number of ranks."
                    )
        self.inner.load_state_dict(state_dict)
        self.state = self.inner.state
        for outer, inner in zip(self.param_groups, self.inner.param_groups, strict=True):
            _copy_settings(inner, outer)

    def full_state_dict(self) -> dict[str, Any]:
        """The state that the plain optimizer would have, on every rank. All ranks call it."""
        return full_state(self.param_groups, self.buckets, self.inner.state)

    def load_full_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take this rank's rows of a plain optimizer's state, or of ``full_state_dict`` of any number of ranks.

        ``ValueError`` where it is of other parameter groups.
        """
        self.load_state_dict(own_share(self.param_groups, self.buckets, state_dict))

    def __reduce_ex__(self, protocol: object) -> Any:
        """Asked by ``copy`` and ``pickle``: ``TypeError``."""
        raise TypeError(
            "a ShardedOptimizer cannot be copied or pickled: each rank has one for its rows of the weights, and they "
            "work together. Save full_state_dict(). For a copy of the model make another ShardedOptimizer, and load "
            "that state by load_full_state_dict."
        )


def _copy_settings(source: dict[str, Any], target: dict[str, Any]) -> None:
    """Of a parameter group all but the parameters."""
    target.update({name: value for name, value in source.items() if name != "params"})


def _missing_message(missing: list[Tensor], count: int) -> str:
    if len(missing) == count:
        return (
            "no parameter has a gradient on this rank: call backward() before step(). A rank that skips a step would "
            "answer the other ranks one step late."
        )
    shapes = ", ".join(str(tuple(p.shape)) for p in missing[:3])
    return (
        f"{len(missing)} of {count} parameters (of shapes {shapes}) have no gradient on this rank. If another rank "
        "has one, the ranks would disagree about it. Use every parameter in the loss, or freeze it before you make "
        "the optimizer."
    )


def _check(optimizer_class: type, stage: int) -> None:
    if stage not in (1, 2):
        raise ValueError(
            f"stage={stage} is not known: 1 shards optimizer states, 2 shards gradients too, and 3 is FullySharded"
        )
    name = getattr(optimizer_class, "__name__", str(optimizer_class))
    if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, torch.optim.Optimizer)):
        raise ValueError(f"{name} is no optimizer class; give the class itself, such as torch.optim.AdamW")
    family = {one.__name__ for one in optimizer_class.__mro__}
    if family.intersection(NEEDS_WHOLE_MATRICES):
        raise ValueError(
            f"{name} needs whole matrices: on a rank's rows alone it computes other values and gives no error. Give "
            "it whole matrices by WholeMatrixOptimizer."
        )
    if family.intersection(_NEEDS_EVERYTHING):
        raise ValueError(
            f"{name} needs all gradients at once, and cannot work on a shard. The nearest is torch.optim.AdamW."
        )
