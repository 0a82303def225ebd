"""A training step on a mesh with one data axis, whose ranks share out the optimizer's states (ZeRO stage 1).

``OnMesh`` gives gradients, and leaves clip, optimizer and checkpoint to its caller. This class has all of a step, and
the interface of the one that a learner builds in lesson 09. The weights of a stage's slices are whole on every rank of
``dp_shard``; what is updated there is a share of one vector of all that learns on the rank::

    reduce-scatter of the gradients  ->  own share of the sum  ->  optimizer  ->  all-gather of the new weights

A checkpoint has a file for each stage, by the plain model's names, so that any mesh finds its slices in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.base.checks import above_zero
from course_lib.cluster.base.rank import Rank
from course_lib.models.transformer import Transformer
from course_lib.parallel.collectives.members import Members, split_sizes
from course_lib.parallel.mesh.groups import MeshGroups
from course_lib.parallel.model.cutting import cut, parameter_costs, split_evenly
from course_lib.parallel.pipeline.runtime import Pipeline
from course_lib.parallel.tensor.checkpoint import gather_state, parameter_placements
from course_lib.parallel.tensor.placements import Placement, Shard
from course_lib.parallel.tensor.transformer import split_transformer
from course_lib.parallel.tensor.vocabulary import vocab_parallel_cross_entropy
from course_lib.schedules import one_f_one_b

__all__ = ["MeshTrainer"]

_AXES = ("pp", "dp_shard", "tp")
_FIRST, _SECOND = "stem.tokens.weight", "head.w_vocab.weight"  # of a tied matrix
_FILES = "stage-*.pt"


class MeshTrainer:
    """Trains ``model`` as one process with ``optimizer_class`` would, on a mesh of the axes pp, dp_shard and tp.

    ``model`` is whole and the same on all ranks; it is taken apart. ``parts``: this rank's parameters, by the plain
    model's names, a tied one under each that is here. The optimizer has to work number by number. Raises ValueError
    for other axes, and whatever ``split_transformer`` and ``Pipeline`` refuse.
    """

    def __init__(
        self,
        me: Rank,
        groups: MeshGroups,
        model: Transformer,
        optimizer_class: Any,
        num_micro_batches: int = 2,
        **defaults: Any,
    ) -> None:
        mesh = groups.mesh
        mesh.refuse_others(_AXES, "combined")
        self.me, self.groups, self.here, self.vocab_size = me, groups, groups.coordinates, model.config.vocab_size
        self.is_tied, self._weight = model.head.w_vocab.weight is model.stem.tokens.weight, 1.0
        stages = split_evenly(parameter_costs(model), mesh.size("pp"))
        split_transformer(me, model, group=groups.group("tp"))
        schedule, ranks = one_f_one_b(mesh.size("pp"), num_micro_batches), mesh.group(me.rank, "pp")
        self.pipeline = Pipeline(me, cut(model, stages), schedule, self._loss_of, ranks=ranks)
        (self.stage,) = self.pipeline.stages.values()
        named = self.stage.named_parameters(remove_duplicate=False)
        self.parts: dict[str, nn.Parameter] = {name: part for name, part in named if isinstance(part, nn.Parameter)}
        self.placements = parameter_placements(self.stage)
        self._vector = _SharedVector(self.parts, Members.of(me, groups.group("dp_shard")))
        self.share = nn.Parameter(self._vector.own(self.parts))
        self._counts = self._vector.own({name: self._counted(name, part) for name, part in self.parts.items()})
        self.optimizer = optimizer_class([self.share], **defaults)

    # -- a step -------------------------------------------------------------------------------------------------------

    def step(self, tokens: Tensor, targets: Tensor, max_norm: float | None = None) -> tuple[float, float]:
        """One step on the whole batch, (B, T) on every rank: its mean loss, and the gradient's norm before the clip.

        Raises ValueError where a share of the batch has fewer rows than there are micro-batches, and for a
        ``max_norm`` that is not above 0.
        """
        if max_norm is not None:
            above_zero(max_norm=max_norm)
        sizes = split_sizes(len(tokens), self.groups.mesh.size("dp_shard"))
        place = self.here["dp_shard"]
        mine = [batch.split(sizes)[place].to(self.me.device) for batch in (tokens, targets)]
        self._weight = sizes[place] / len(tokens)
        self.pipeline.zero_grad()
        loss = self.pipeline.step(*mine)
        return self._update(loss, max_norm)

    def _loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        """What a micro-batch adds to the mean of the whole batch, times its share of the rank's rows: 0-d."""
        group = self.groups.group("tp")
        loss = vocab_parallel_cross_entropy(self.me, logits, targets, vocab_size=self.vocab_size, group=group)
        return loss * self._weight

    @torch.no_grad()
    def _update(self, loss: Tensor | None, max_norm: float | None) -> tuple[float, float]:
        gradient = self._vector.reduced({name: part.grad for name, part in self.parts.items()})
        mine = 0.0 if loss is None or self.here["tp"] else loss.item()  # one rank of tp speaks for all
        square = (gradient.double().square() * self._counts).sum().item()
        told = torch.tensor([mine, square], dtype=torch.float64, device=self.me.device)
        dist.all_reduce(told)
        norm = told[1].sqrt()
        if max_norm is not None:
            gradient *= (max_norm / (norm + 1e-6)).clamp(max=1.0).to(gradient.dtype)
        self.share.grad = gradient
        self.optimizer.step()
        self.share.grad = None
        self._spread()
        return told[0].item(), norm.item()

    def _counted(self, name: str, part: Tensor) -> Tensor:
        """1 where this rank counts the number in a norm, 0 where another one does; of the shape of the part."""
        is_copy = self.here["tp"] > 0 and not isinstance(self.placements[name], Shard)
        is_second = self.is_tied and self.here["pp"] > 0 and name == _SECOND
        return torch.zeros_like(part) if is_copy or is_second else torch.ones_like(part)

    def _spread(self) -> None:
        for name, piece in self._vector.named(self._vector.whole(self.share)).items():
            self.parts[name].copy_(piece)

    # -- checkpoints --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def save(self, folder: str | Path) -> None:
        """Write weights and states into ``folder``, which all ranks see; returns when all have written."""
        state = self.optimizer.state.get(self.share, {})
        vectors = {key: one for key, one in state.items() if isinstance(one, Tensor) and one.shape == self.share.shape}
        kept: dict[str, Mapping[str, Tensor]] = {"weights": {name: part.detach() for name, part in self.parts.items()}}
        kept |= {key: self._vector.named(self._vector.whole(one)) for key, one in vectors.items()}
        wholes = {key: self._unsplit(named) for key, named in kept.items()}
        if self.here["dp_shard"] == self.here["tp"] == 0:
            rest = {key: one for key, one in state.items() if key not in vectors}
            torch.save({"wholes": wholes, "rest": rest}, Path(folder) / f"stage-{self.here['pp']:04d}.pt")
        dist.barrier()

    @torch.no_grad()
    def load(self, folder: str | Path) -> None:
        """Go on with what a trainer of any mesh has saved. Raises ValueError where the folder has no checkpoint."""
        paths = sorted(Path(folder).glob(_FILES))
        if not paths:
            raise ValueError(f"{folder} holds no checkpoint: there is no file {_FILES} in it")
        wholes: dict[str, dict[str, Tensor]] = {}
        state: dict[str, Any] = {}
        for path in paths:
            file = torch.load(path, weights_only=True, map_location=self.me.device)
            state |= file["rest"]
            for key, named in file["wholes"].items():
                wholes.setdefault(key, {}).update(named)
        weights = wholes.pop("weights")
        for name, part in self.parts.items():
            part.copy_(self._slice(name, weights[name]))
        self.share.copy_(self._vector.own(self.parts))
        for key, named in wholes.items():
            one_end = {_SECOND: named[_FIRST]} if self.is_tied and _FIRST in named else {}  # saved without stages
            found = one_end | named
            state[key] = self._vector.own({name: self._slice(name, found[name]) for name in self._vector.names})
        self.optimizer.state[self.share] = state

    def _unsplit(self, named: Mapping[str, Tensor]) -> dict[str, Tensor]:
        holder = _Holder(named, self.placements)
        return gather_state(self.me, holder, group=self.groups.group("tp")) if named else {}

    def _slice(self, name: str, whole: Tensor) -> Tensor:
        placement = self.placements[name]
        if not isinstance(placement, Shard):
            return whole
        sizes = split_sizes(whole.size(placement.dim), self.groups.mesh.size("tp"))
        return whole.split(sizes, placement.dim)[self.here["tp"]]


class _SharedVector:
    """All that learns of ``parts`` as one vector, of which each member has one of as many equal shares."""

    def __init__(self, parts: Mapping[str, nn.Parameter], members: Members) -> None:
        self._members, self._like = members, next(iter(parts.values())).detach()
        learning = {id(part): name for name, part in reversed(list(parts.items())) if part.requires_grad}
        self.names = [name for name in parts if name in learning.values()]  # of a tied part the first
        self._shapes = {name: parts[name].shape for name in self.names}

    def _flat(self, named: Mapping[str, Tensor | None]) -> Tensor:
        pieces: Iterable[Tensor] = (
            self._like.new_zeros(shape).flatten() if (one := named[name]) is None else one.detach().flatten()
            for name, shape in self._shapes.items()
        )
        vector = torch.cat([self._like.new_empty(0), *pieces])
        return nn.functional.pad(vector, (0, -len(vector) % self._members.count))

    def own(self, named: Mapping[str, Tensor]) -> Tensor:
        """This member's share of a vector of these, which it keeps."""
        vector = self._flat(named)
        return vector.view(self._members.count, -1)[self._members.group_rank].clone() if len(vector) else vector

    def reduced(self, named: Mapping[str, Tensor | None]) -> Tensor:
        """This member's share of the sum over all; None counts as zeros."""
        vector = self._flat(named)
        if not len(vector):
            return vector
        rows = list(vector.chunk(self._members.count))
        share = torch.empty_like(rows[0])
        dist.reduce_scatter(share, rows, group=self._members.group)
        return share

    def whole(self, share: Tensor) -> Tensor:
        """The vector of all shares."""
        rows = [torch.empty_like(share) for _ in range(self._members.count)]
        if len(share):
            dist.all_gather(rows, share.detach(), group=self._members.group)
        return torch.cat(rows)

    def named(self, vector: Tensor) -> dict[str, Tensor]:
        """Views of it, in the shapes of the parts."""
        sizes = [shape.numel() for shape in self._shapes.values()]
        pieces = vector[: sum(sizes)].split(sizes)
        return {name: piece.view(shape) for piece, (name, shape) in zip(pieces, self._shapes.items(), strict=True)}


class _Holder(nn.Module):
    """Tensors under dotted names with the placements of parameters: what ``gather_state`` makes whole."""

    def __init__(self, named: Mapping[str, Tensor], placements: Mapping[str, Placement]) -> None:
        super().__init__()
        for name, tensor in named.items():
            home, _, last = name.rpartition(".")
            module: Any = self
            for step in home.split("."):
                if step not in module._modules:
                    module.add_module(step, nn.Module())
                    module._modules[step].placements = {}
                module = module._modules[step]
            module.placements[last] = placements[name]
            module.register_parameter(last, nn.Parameter(tensor, requires_grad=False))
