"""Right answers to 09.assemble in other styles."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from answers.lesson_09.wrong.assemble_values import Assembled
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.models import Transformer, TransformerBlock, next_token_loss
from course_lib.parallel.mesh import DataShare, MeshGroups
from course_lib.parallel.model import cut, parameter_costs, split_evenly
from course_lib.parallel.pipeline import Pipeline
from course_lib.parallel.sharded import FullySharded
from course_lib.parallel.tensor import split_transformer, vocab_parallel_cross_entropy
from course_lib.schedules import gpipe, one_f_one_b

__all__ = ["ALL", "SAME"]


class OnlyWhatIsNeeded:
    """An ``if`` for each axis: what has one place is left out. Loss by objects; DataShare deals."""

    def __init__(self, me: Rank, groups: MeshGroups, model: Transformer) -> None:
        mesh = groups.mesh
        self.me, self.groups, self.vocab_size = me, groups, model.config.vocab_size
        costs = parameter_costs(model)
        if mesh.size("tp") > 1:
            split_transformer(me, model, group=groups.group("tp"))
        self.pipeline = None
        if mesh.size("pp") > 1:
            stages = cut(model, split_evenly(costs, mesh.size("pp")))
            ranks, schedule = mesh.group(me.rank, "pp"), gpipe(mesh.size("pp"), 4)
            self.pipeline = Pipeline(me, stages, schedule, self.loss_of, ranks=ranks, wrap=self.wrap)
        else:
            self.whole = self.wrap(model)

    def wrap(self, module: nn.Module) -> nn.Module:
        if self.groups.mesh.size("dp_shard") == 1:
            return module
        blocks = [part for part in module.modules() if isinstance(part, TransformerBlock)]
        return FullySharded(self.me, module, blocks, group=self.groups.group("dp_shard"))

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        if self.groups.mesh.size("tp") == 1:
            return next_token_loss(logits, targets)
        group, size = self.groups.group("tp"), self.vocab_size
        return vocab_parallel_cross_entropy(self.me, logits, targets, vocab_size=size, group=group)

    def parameters(self) -> list[nn.Parameter]:
        return list(self.whole.parameters()) if self.pipeline is None else self.pipeline.parameters()

    def step(self, tokens: Tensor, targets: Tensor) -> float:
        mine = DataShare.of(self.groups.mesh, self.me.rank).deal(tokens, targets)[:2]
        if self.pipeline is not None:
            loss = self.pipeline.step(*mine)
        else:
            x, y = (one.to(self.me.device) for one in mine)
            loss = self.loss_of(self.whole(x), y)
            loss.backward()
        found: list[Any] = [None] * self.me.world_size
        dist.all_gather_object(found, None if loss is None else float(loss))
        there = [one for one in found if one is not None]
        return sum(there) / len(there)


class AxisByAxis(Assembled):
    """The loss from the last stage to the others, then the mean along dp_shard; more micro-batches."""

    def pipe(self, stages: Any) -> None:
        schedule, group = one_f_one_b(len(stages), 4 if len(stages) > 1 else 1), self.ranks()
        self.pipeline = Pipeline(self.me, stages, schedule, self.loss_of, ranks=group, wrap=self.shard)

    def mean(self, loss: Tensor | None) -> Tensor:
        total = torch.zeros(1, dtype=torch.float64, device=self.me.device)
        if loss is not None:
            total.copy_(loss.detach())
        dist.broadcast(total, src=self.mesh.group(self.me.rank, "pp")[-1], group=self.groups.group("pp"))
        dist.all_reduce(total, op=dist.ReduceOp.AVG, group=self.groups.group("dp_shard"))
        return total


class AlongPositions(Assembled):
    """With sequence parallelism; the first of each tensor group counts."""

    def split(self, model: Transformer) -> None:
        group = self.groups.group("tp")
        split_transformer(self.me, model, group=group, sequence_parallel=True)

    def mean(self, loss: Tensor | None) -> float:
        counts = loss is not None and self.groups.coordinates["tp"] == 0
        return float(self.summed(loss if counts else None)) / self.mesh.size("dp_shard")


class StagesByHand(Assembled):
    """Parts of the model are made first, then sliced: the two cuts may change places."""

    def build(self, model: Transformer, stages: Any) -> None:
        per_stage = -(-(len(model.blocks) + 2) // self.mesh.size("pp"))
        self.split(model)
        places = range(0, len(model.blocks) + 2, per_stage)
        self.pipe(cut(model, [range(at, min(at + per_stage, len(model.blocks) + 2)) for at in places]))

    def share(self, batch: Tensor) -> Tensor:
        return batch.tensor_split(self.mesh.size("dp_shard"))[self.groups.coordinates["dp_shard"]]


ALL: tuple[Any, ...] = (OnlyWhatIsNeeded, AxisByAxis, AlongPositions, StagesByHand)

_ORDER = "Neither line reads what the other makes."
SAME: dict[str, str] = {
    "9: `def parameters(self):` after `def loss_of(self, logits, targets):`": "Methods may stand in any order.",
    "12: `def loss_of(self, logits, targets):` after `def step(self, tokens, targets):`": "Methods may stand in any "
    "order.",
    "3: `split_transformer(me, model, group=groups.group('tp'))` after `schedule, ranks = (one_f_one_b(num_stages, 2 * "
    "num_stages), groups.mesh.group(me.rank, 'pp'))`": _ORDER,
    "4: `schedule, ranks = (one_f_one_b(num_stages, 2 * num_stages), groups.mesh.group(me.rank, 'pp'))` after `wrap = "
    "partial(FullySharded, me, group=groups.group('dp_shard'))`": _ORDER,
    "26: `loss = self.pipeline.step(tokens.chunk(num_shares)[place], targets.chunk(num_shares)[place])` after `total = "
    "torch.zeros((), dtype=torch.float64, device=self.me.device)`": _ORDER,
    "29: `total += loss` -> a new name for a new value": "The sum is read from that name.",
    "27: `torch.zeros((), dtype=torch.float64, device=self.me.device)` -> `torch.zeros((), dtype=torch.float64)`": "On "
    "ranks that compute on the CPU it is there already; where ranks have GPUs, the check refuses it.",
}
