"""09.assemble: axes in any order, gradients that add up, and sentences that fit what was done."""

from __future__ import annotations

import copy
from functools import partial

import torch
import torch.distributed as dist
from answer_table import Row

from course_lib.parallel.mesh import MeshGroups
from course_lib.parallel.model import cut, parameter_costs, split_evenly
from course_lib.parallel.pipeline import Pipeline
from course_lib.parallel.sharded import FullySharded
from course_lib.parallel.tensor import split_transformer, vocab_parallel_cross_entropy
from course_lib.schedules import one_f_one_b


class RightThreeD:
    def __init__(self, me, groups, model):
        self.me, self.groups, self.vocab_size = me, groups, model.config.vocab_size
        num_stages = groups.mesh.size("pp")
        stages = self.stages(model, num_stages)
        split_transformer(me, model, group=groups.group("tp"))
        wrap = partial(FullySharded, me, group=self.rows())
        schedule = one_f_one_b(num_stages, 2 * num_stages)
        self.pipeline = Pipeline(me, cut(model, stages), schedule, self.loss_of, ranks=self.ranks(), wrap=wrap)

    def stages(self, model, num_stages):
        return split_evenly(parameter_costs(model), num_stages)

    def rows(self):
        return self.groups.group("dp_shard")

    def ranks(self):
        return self.groups.mesh.group(self.me.rank, "pp")

    def parameters(self):
        return self.pipeline.parameters()

    def loss_of(self, logits, targets):
        group = self.groups.group("tp")
        return vocab_parallel_cross_entropy(self.me, logits, targets, vocab_size=self.vocab_size, group=group)

    def step(self, tokens, targets):
        num_shares, place = self.groups.mesh.size("dp_shard"), self.groups.coordinates["dp_shard"]
        loss = self.pipeline.step(tokens.chunk(num_shares)[place], targets.chunk(num_shares)[place])
        total = torch.zeros((), dtype=torch.float64, device=self.me.device)
        if loss is not None:
            total += loss
        dist.all_reduce(total)
        return total / (num_shares * self.groups.mesh.size("tp"))


class PipelineByNumber(RightThreeD):
    def ranks(self):
        apart = self.me.world_size // self.groups.mesh.size("pp")
        return range(self.me.rank % apart, self.me.world_size, apart)


class ClearsGradients(RightThreeD):
    def step(self, tokens, targets):
        for parameter in self.parameters():
            parameter.grad = None
        return super().step(tokens, targets)


class KeepsTheWholeModel(RightThreeD):
    def __init__(self, me, groups, model):
        self.model = copy.deepcopy(model)
        super().__init__(me, groups, model)


class GroupsInEveryStep(RightThreeD):
    def step(self, tokens, targets):
        MeshGroups(self.me, self.groups.mesh)
        return super().step(tokens, targets)


class AllButTheHeadFirst(RightThreeD):
    def stages(self, model, num_stages):
        pieces = len(parameter_costs(model))
        return [range(pieces)] if num_stages == 1 else [range(pieces - 1), range(pieces - 1, pieces)]


class RowsAlongTp(RightThreeD):
    def rows(self):
        return self.groups.group("tp")


ROWS = [
    Row(answer=RightThreeD, verdict="passed", why="the definition"),
    Row(
        answer=PipelineByNumber,
        verdict="not yet",
        mistake="by-arithmetic",
        why="with dp_shard=2 tp=1 pp=2 the ranks of a pipeline are neighbours",
        unsaid=("Without `group=`",),
    ),
    Row(answer=ClearsGradients, verdict="not yet", why="`step` has to add its gradients", words=("has to add",)),
    Row(
        answer=KeepsTheWholeModel,
        verdict="passed",
        why="nobody looks at what else an object holds, and the sentence says so",
        unsaid=("no rank keeps more",),
        words=("`parameters()`",),
    ),
    Row(answer=GroupsInEveryStep, verdict="not yet", why="one more group a step", words=("process group",)),
    Row(
        answer=AllButTheHeadFirst,
        verdict="not yet",
        mistake="uneven-stages",
        why="`parameters()` are those of its stage, which is too large",
        unsaid=("`parameters()` has to give those of the pipeline",),
    ),
    Row(
        answer=RowsAlongTp,
        verdict="not yet",
        why="a group was given, and it is another axis's",
        unsaid=("found another stage",),
    ),
]
