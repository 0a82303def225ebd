"""What a rank of a mesh holds of a transformer, by shapes: pieces by ``pp``, slices by ``tp``, rows by ``dp_shard``.

It follows ``course_lib.parallel.mesh.OnMesh``, where the parameters are. A *piece* is the stem, a block or the head.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import NamedTuple, Protocol

from course_lib.cost.data_parallel.sharded import shared_numel
from course_lib.cost.data_parallel.step import ddp_buckets
from course_lib.cost.single_device.architectures import TransformerSizes
from course_lib.layouts.linear_partition import split_evenly
from course_lib.layouts.mesh import DATA_AXES, Mesh
from course_lib.layouts.row_partition import rounded_up_range, split_sizes
from course_lib.schedules.table import Schedule

__all__ = ["HeldParts", "PieceParameter", "StepSizes", "UnitCost", "pieces_of_stages", "transformer_pieces"]


class StepSizes(Protocol):
    """What is asked of a step on a mesh; ``course_lib.cost.MeshStep`` has it all."""

    @property
    def config(self) -> TransformerSizes: ...
    @property
    def mesh(self) -> Mesh: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def schedule(self) -> Schedule | None: ...
    @property
    def sequence_parallel(self) -> bool: ...
    @property
    def backend(self) -> str: ...
    @property
    def num_data_parts(self) -> int: ...


class PieceParameter(NamedTuple):
    """A parameter of a piece, and the dim along which ``tp`` cuts it; None: each rank of ``tp`` has all of it."""

    name: str
    shape: tuple[int, ...]
    cut_dim: int | None


class UnitCost(NamedTuple):
    """Parameters that are whole together: those of a block, or what else a stage has (``piece`` None)."""

    piece: int | None
    numel: int  # that a rank keeps, with padding

    @property
    def name(self) -> str:
        return "the rest" if self.piece is None else f"block {self.piece - 1}"


class HeldParts:
    """What one rank holds in a step on a mesh."""

    def __init__(self, step: StepSizes, rank: int) -> None:
        self.mesh, self.itemsize, self.here = step.mesh, step.itemsize, step.mesh.coordinates(rank)
        self.data_place = self.mesh.group_rank(rank, *DATA_AXES)  # which part of the batch it is given
        self.pieces = transformer_pieces(step.config)
        schedule = step.schedule
        self.stages = pieces_of_stages(step.config, schedule.num_stages if schedule else 1)
        self._units: dict[int, list[UnitCost]] = {}  # by stage: asked for again for every micro-batch
        self.my_stages = schedule.stages_of_rank[self.here.get("pp", 0)] if schedule else (0,)

    @property
    def parameters(self) -> list[PieceParameter]:
        """Those of all stages of this rank, each once."""
        pieces = (self.pieces[piece] for stage in self.my_stages for piece in self.stages[stage])
        return list(dict.fromkeys(parameter for piece in pieces for parameter in piece))

    def units(self, stage: int) -> list[UnitCost]:
        """The units of a sharded stage, in the order of their forwards; none where nothing is sharded."""
        if stage not in self._units:
            self._units[stage] = self._find_units(stage) if self.mesh.size("dp_shard") > 1 else []
        return self._units[stage]

    def _find_units(self, stage: int) -> list[UnitCost]:
        ends = (0, len(self.pieces) - 1)
        rest = dict.fromkeys(p for piece in self.stages[stage] if piece in ends for p in self.pieces[piece])
        units = [UnitCost(None, self._kept_numel(rest))] if rest else []
        blocks = [piece for piece in self.stages[stage] if piece not in ends]
        return [*units, *(UnitCost(piece, self._kept_numel(self.pieces[piece])) for piece in blocks)]

    def buckets(self) -> list[tuple[int, int]]:
        """Of DDP over the whole model: the piece whose backward fills a bucket, and the bucket's bytes."""
        piece_of = {p: piece for piece, found in reversed([*enumerate(self.pieces)]) for p in found}
        in_order = sorted(piece_of, key=lambda p: piece_of[p])  # stable: within a piece as they stand there
        left, found = list(in_order), []
        for size_bytes in ddp_buckets([self.slice_bytes(parameter) for parameter in in_order]):
            filled_bytes = 0
            while filled_bytes < size_bytes:
                parameter = left.pop()
                filled_bytes += self.slice_bytes(parameter)
            found.append((piece_of[parameter], size_bytes))
        return found

    def slice_bytes(self, parameter: PieceParameter) -> int:
        """What ``tp`` leaves of it."""
        return prod(self._slice(parameter)) * self.itemsize

    def rows_bytes(self, parameter: PieceParameter) -> int:
        """What ``dp_shard`` leaves of that, without padding."""
        num_rows, *rest = self._slice(parameter)
        first, end = rounded_up_range(num_rows, self.mesh.size("dp_shard"), self.here.get("dp_shard", 0))
        return (end - first) * prod(rest) * self.itemsize

    def _kept_numel(self, parameters: Iterable[PieceParameter]) -> int:
        return shared_numel([self._slice(p) for p in parameters], self.mesh.size("dp_shard"))

    def _slice(self, parameter: PieceParameter) -> tuple[int, ...]:
        shape = list(parameter.shape)
        if parameter.cut_dim is not None:
            places = split_sizes(shape[parameter.cut_dim], self.mesh.size("tp"))
            shape[parameter.cut_dim] = places[self.here.get("tp", 0)]
        return tuple(shape)


def transformer_pieces(config: TransformerSizes) -> list[list[PieceParameter]]:
    """The parameters of each piece in the model's order. A tied matrix is in the stem and, by the same name, in the
    head.
    """
    tokens = PieceParameter("stem.tokens.weight", (config.vocab_size, config.width), 0)
    stem = [tokens, PieceParameter("stem.positions.weight", (config.context_length, config.width), None)]
    w_vocab = tokens if config.tied else tokens._replace(name="head.w_vocab.weight")
    blocks = [list(_block(config, f"blocks.{i}")) for i in range(config.num_layers)]
    return [stem, *blocks, [*_norm(config, "head.norm"), w_vocab]]


def pieces_of_stages(config: TransformerSizes, num_stages: int) -> list[range]:
    """Which pieces each stage has: about equally many parameters, as ``OnMesh`` cuts."""
    costs = [sum(prod(parameter.shape) for parameter in piece) for piece in transformer_pieces(config)]
    return split_evenly(costs, num_stages)


def _block(config: TransformerSizes, name: str) -> Iterator[PieceParameter]:
    width, heads = config.width, config.num_heads * config.head_dim
    kv_heads = config.kv_heads * config.head_dim
    yield from _norm(config, f"{name}.norm1")
    for layer, rows in (("w_q", heads), ("w_k", kv_heads), ("w_v", kv_heads)):
        yield from _linear(config, f"{name}.attention.{layer}", (rows, width), 0)
    yield from _linear(config, f"{name}.attention.w_out", (width, heads), 1)
    yield from _norm(config, f"{name}.norm2")
    yield from _linear(config, f"{name}.mlp.w_up", (config.mlp_hidden, width), 0)
    yield from _linear(config, f"{name}.mlp.w_down", (width, config.mlp_hidden), 1)


def _linear(config: TransformerSizes, name: str, shape: tuple[int, int], cut_dim: int) -> Iterator[PieceParameter]:
    """A weight, and a bias if there is one: of a layer cut by its outputs it is cut too."""
    yield PieceParameter(f"{name}.weight", shape, cut_dim)
    if config.bias:
        yield PieceParameter(f"{name}.bias", shape[:1], 0 if cut_dim == 0 else None)


def _norm(config: TransformerSizes, name: str) -> Iterator[PieceParameter]:
    for kind in ("weight", "bias")[: 1 + config.bias]:
        yield PieceParameter(f"{name}.{kind}", (config.width,), None)
