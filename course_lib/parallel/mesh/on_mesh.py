"""A transformer on a mesh: what exists for each axis, put together in an order that works.

::

    1  tp            split_transformer   a slice of every matrix              collectives within a layer
    2  pp            cut, Pipeline       some of the pieces                   messages between stages
    3  dp_shard      FullySharded        rows of what is left, of each unit   all-gather, reduce-scatter
       dp_replicate  hybrid sharding, or DistributedDataParallel, or one average a batch of a pipeline

From the inside out: each step wraps what the one before has left, and sees ordinary parameters. A group of ranks is
that of one axis; no strategy knows that there are others. torchtitan puts PyTorch's own together in this order.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import COMBINED_AXES, Mesh
from course_lib.models import Transformer, TransformerBlock, next_token_loss
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.data.distributed_data_parallel import DistributedDataParallel
from course_lib.parallel.data.naive_ddp import broadcast_parameters
from course_lib.parallel.data.replica_check import check_once, check_replicas, tensors_of
from course_lib.parallel.mesh.data import DataShare
from course_lib.parallel.mesh.groups import MeshGroups
from course_lib.parallel.model.cutting import cut, parameter_costs, split_evenly
from course_lib.parallel.pipeline.data_parallel import average_gradients
from course_lib.parallel.pipeline.runtime import Pipeline
from course_lib.parallel.sharded.fully_sharded import FullySharded
from course_lib.parallel.tensor.transformer import split_transformer
from course_lib.parallel.tensor.vocabulary import vocab_parallel_cross_entropy
from course_lib.schedules import one_f_one_b
from course_lib.schedules.table import Schedule

__all__ = ["OnMesh"]


class OnMesh:
    """This rank's part of a transformer, with the collectives of all axes; every rank makes one of the whole model::

        model = OnMesh(me, Mesh.of(pp=2, dp_shard=2, tp=2), Transformer(config))
        optimizer = torch.optim.AdamW(model.parameters())
        for tokens, targets in batches:                          # the whole batch, on every rank
            optimizer.zero_grad()
            loss = model.step(*model.data.deal(tokens, targets))  # the batch's mean, on every rank
            clip_gradients(model, 1.0)
            optimizer.step()

    ``model`` is taken apart; its weights are those of rank 0. ``schedule``: that of the pipeline, of as many ranks as
    ``pp``; by default 1F1B with twice as many micro-batches. ``cuts``: the pieces of each stage (0 is the stem, then
    come blocks, last the head), such as ``[range(0, 3), range(3, 6)]``; by default stages have about equally many
    parameters.
    ``sequence_parallel`` as in ``split_transformer``. A sharded stage gathers its weights for every micro-batch, there
    and back, and keeps whole gradients until the batch is over, which are then reduced once.

    ``ValueError`` for a model of another kind, for models whose shapes differ between ranks, for an axis that is not
    combined here, and whatever the strategies refuse: a mesh of another number of ranks, heads that ``tp`` does not
    divide, a schedule of other ranks, more stages than pieces.
    """

    def __init__(
        self,
        me: Rank,
        mesh: Mesh,
        model: Transformer,
        *,
        schedule: Schedule | None = None,
        sequence_parallel: bool = False,
        cuts: Sequence[range] | None = None,
    ) -> None:
        _refuse_others(mesh, model)
        mesh.refuse_others(COMBINED_AXES, "combined")
        if schedule is None and mesh.size("pp") > 1:
            schedule = one_f_one_b(mesh.size("pp"), 2 * mesh.size("pp"))
        if schedule is not None and schedule.num_ranks != mesh.size("pp"):
            raise ValueError(
                f"the schedule {schedule.name!r} has {schedule.num_ranks} ranks, and this mesh pp={mesh.size('pp')}; "
                "each pipeline of the mesh runs the schedule, so the two are the same"
            )
        if schedule is None and cuts is not None:
            raise ValueError(
                f"cuts={list(cuts)} were given, and {mesh} has no stages; leave out cuts=, or give the mesh an axis pp"
            )
        self.me, self.mesh, self.groups = me, mesh, MeshGroups(me, mesh)
        self.data = DataShare.of(mesh, me.rank)
        self.vocab_size, self._weight = model.config.vocab_size, 1.0
        named = list(model.named_parameters(remove_duplicate=False))
        self.shapes = {name: tuple(p.shape) for name, p in named}  # of the plain model
        name_of = {p: name for name, p in reversed(named)}
        self.first_names = {name: name_of[p] for name, p in named}  # a tied parameter has several names

        check_replicas(me, Members.of(me, None), type(self).__name__, tensors_of(model), values=False)
        broadcast_parameters(me, model)
        # Where to cut, the whole model says: slices may be uneven, and all of a stage's ranks must agree.
        costs = parameter_costs(model)
        if mesh.size("tp") > 1:
            split_transformer(me, model, group=self.groups.group("tp"), sequence_parallel=sequence_parallel)
        model.to(me.device)
        if schedule is None:
            self.pipeline, self._replica = None, self._with_data_parallelism(model)
        else:
            self.pipeline = Pipeline(
                me,
                cut(model, split_evenly(costs, schedule.num_stages) if cuts is None else cuts),
                schedule,
                self._loss_of,
                ranks=mesh.group(me.rank, "pp"),
                wrap=self._sharded if self.shards else None,
            )
            self._check_pipelines()

    @property
    def shards(self) -> bool:
        """Whether ranks share the rows of weights, gradients and optimizer states."""
        return self.mesh.size("dp_shard") > 1

    def _check_pipelines(self) -> None:
        """Compare the replicas of a stage when the model is built, so that no step has to."""
        if self.pipeline is not None and self._averages_pipelines:
            members = Members.of(self.me, self.groups.group("dp_replicate"))
            check_once(self.me, members, type(self).__name__, self.pipeline.named_parameters())

    @property
    def _averages_pipelines(self) -> bool:
        """Whether several pipelines hold the same stages, and nothing but ``step`` averages their gradients."""
        return self.pipeline is not None and self.mesh.size("dp_replicate") > 1 and not self.shards

    @property
    def modules(self) -> list[nn.Module]:
        """The pieces of the model on this rank, as they are within their wrappers: names are the plain model's."""
        wrapped = [self._replica] if self.pipeline is None else self.pipeline.stages.values()
        wrappers = (FullySharded, DistributedDataParallel)
        return [m.module if isinstance(m, wrappers) else m for m in wrapped]

    def parameters(self) -> list[nn.Parameter]:
        """What this rank keeps, each once: for an optimizer, made after this."""
        return list(nn.ModuleList(self.modules).parameters())

    def zero_grad(self) -> None:
        """Clear the gradients of this rank's parameters."""
        nn.ModuleList(self.modules).zero_grad()

    def train(self, mode: bool = True) -> None:
        """Switch dropout on, or off."""
        for module in self.modules:
            module.train(mode)

    def step(self, x: Tensor, targets: Tensor, weight: float = 1.0) -> Tensor:
        """Forward and backward with this rank's rows, (B/n, T) each: gradients of the whole batch's mean, that mean.

        ``weight`` is what this rank's mean counts for, as ``data.deal`` tells. Returned is a 0-d float64, the same on
        every rank. Gradients are added to those that are there. ``RuntimeError`` after ``close``.
        """
        if self.groups.is_closed:
            raise RuntimeError(
                "this model is closed, and its groups have ended. Make a new one on every rank by OnMesh(me, mesh, "
                "model), and close it after its last step"
            )
        self._weight = weight
        x, targets = x.to(self.me.device), targets.to(self.me.device)
        loss: Tensor | None
        if self.pipeline is None:
            loss = self._loss_of(self._replica(x), targets)
            loss.backward()
        else:
            loss = self.pipeline.step(x, targets)
            if self._averages_pipelines:
                average_gradients(self.pipeline, self.groups.group("dp_replicate"))
        return self._mean_loss(loss)

    def close(self) -> None:
        """End the groups; every rank does."""
        self.groups.close()

    # -- loss -----------------------------------------------------------------------------------------------------

    def _loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """(B, T, V), or (B, T, V/n) of a split model, and (B, T) -> (), the same on all ranks of ``tp``."""
        if self.mesh.size("tp") > 1:
            group, size = self.groups.group("tp"), self.vocab_size
            loss = vocab_parallel_cross_entropy(self.me, logits, targets, vocab_size=size, group=group)
        else:
            loss = next_token_loss(logits, targets)
        return loss * self._weight

    @torch.no_grad()
    def _mean_loss(self, loss: Tensor | None) -> Tensor:
        """Each loss counted once: the last stage has one, and of the ranks of ``tp``, which all have it, the first."""
        mean = torch.zeros((), dtype=torch.float64, device=self.me.device)
        if loss is not None and self.groups.coordinates.get("tp", 0) == 0:
            mean += loss / self.data.count
        dist.all_reduce(mean)
        return mean

    # -- data parallelism -----------------------------------------------------------------------------------------

    def _with_data_parallelism(self, module: nn.Module) -> nn.Module:
        if self.shards:
            return self._sharded(module)
        if self.mesh.size("dp_replicate") > 1:
            return DistributedDataParallel(self.me, module, group=self.groups.group("dp_replicate"))
        return module

    def _sharded(self, module: nn.Module) -> nn.Module:
        """Units are blocks, and one for the rest; with replicas, rows are averaged over these too."""
        replicas = self.groups.group("dp_replicate") if self.mesh.size("dp_replicate") > 1 else None
        blocks = [part for part in module.modules() if isinstance(part, TransformerBlock)]
        group = self.groups.group("dp_shard")
        return FullySharded(self.me, module, blocks, group=group, replicas=replicas)


def _refuse_others(mesh: Mesh, model: nn.Module) -> None:
    """Raise ``ValueError`` for what is no mesh, or a model whose parts are not known."""
    if not isinstance(mesh, Mesh) or not isinstance(model, Transformer):
        given = f"{type(mesh).__name__} and {type(model).__name__}"
        raise ValueError(
            "OnMesh(me, mesh, model): a rank, a Mesh and a Transformer of course_lib.models, whose parts it knows how "
            f"to cut; you gave {given}. Cut other models by the strategies themselves, as DistributedDataParallel(me, "
            "model, group=...)."
        )
