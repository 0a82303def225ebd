"""What the sharded explorer's controls choose, and what the cost model says of the choice.

The model is a stack of layers, a matrix each. 129 rows divide by no number of ranks that one would choose, so the last
rank keeps fewer than the others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from course_lib.cost.data_parallel.sharded import sharded_sent_bytes
from course_lib.cost.data_parallel.sharded_stages import largest_by_phase, step_moments
from course_lib.cost.data_parallel.sharded_step import ShardedMoment, UnitSizes

__all__ = ["NUM_LAYERS", "WIDTH", "ShardedChoice", "ranks_alike"]

NUM_LAYERS, WIDTH = 12, 129  # W: (129, 129), without bias
LAYER_BYTES = 4 * WIDTH * WIDTH
_MOST_BARS = 8  # of ranks, one by one
_COPIES = 3  # of a rank's rows that stay: weights, and AdamW's two states


@dataclass(frozen=True)
class ShardedChoice:
    """One setting of the explorer; ``per_unit`` layers make a unit of stage 3, and a bucket of the other stages."""

    stage: int = 0
    num_ranks: int = 4
    per_unit: int = 1
    prefetch: int = 0
    reshard_after_forward: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        """By name, as ``watched_step`` takes them; the number of ranks is the cluster's."""
        chosen = {name: value for name, value in asdict(self).items() if name != "num_ranks"}
        return {**chosen, "num_layers": NUM_LAYERS, "width": WIDTH}

    @property
    def num_units(self) -> int:
        return NUM_LAYERS // self.per_unit

    def moments(self) -> list[ShardedMoment]:
        """Of a rank that has all its rows."""
        return list(_moments(self))

    def phases(self, rank: int = 0) -> list[ShardedMoment]:
        """The largest moment of each part of the step."""
        missing = self._missing_bytes(rank)
        largest = _largest(self)
        return [replace(one, kept=one.kept - missing) for one in largest] if missing else list(largest)

    def peak(self, rank: int = 0) -> ShardedMoment:
        """The moment at which the rank holds most."""
        return max(self.phases(rank), key=lambda moment: moment.total)

    def num_rows(self, rank: int) -> int:
        """Rows of each matrix that a rank keeps."""
        rows = -(-WIDTH // self.num_ranks)
        return max(0, min(WIDTH - rank * rows, rows))

    def _missing_bytes(self, rank: int) -> int:
        """What a rank keeps less than one that has all its rows: buffers are as large on all ranks."""
        num_copies = (0, _COPIES - 1, _COPIES - 1, _COPIES)[self.stage]
        missing_rows = self.num_rows(0) - self.num_rows(rank)
        return missing_rows * WIDTH * 4 * NUM_LAYERS * num_copies

    @property
    def num_messages(self) -> int:
        """Collectives of a step: a unit's all-reduce; its reduce-scatter and its all-gathers."""
        gathers = 1 + self.reshard_after_forward if self.stage == 3 else 1
        return self.num_units * (1 if self.stage == 0 else 1 + gathers)

    @property
    def sent_bytes(self) -> int:
        """Bytes that each rank sends in a step, by rings."""
        if self.stage == 0:
            return round(2 * (self.num_ranks - 1) / self.num_ranks * NUM_LAYERS * LAYER_BYTES)
        return sharded_sent_bytes(
            [(WIDTH, WIDTH)] * NUM_LAYERS,
            stage=self.stage,
            num_ranks=self.num_ranks,
            reshard_after_forward=self.reshard_after_forward,
        )

    def __str__(self) -> str:
        layers = "1 layer" if self.per_unit == 1 else f"{self.per_unit} layers"
        said = f"stage {self.stage}, {self.num_ranks} ranks, {layers} a {self.unit_name}"
        if self.stage < 3:
            return said
        kept = "" if self.reshard_after_forward else ", whole after forward"
        return f"{said}, prefetch {self.prefetch}{kept}"

    @property
    def unit_name(self) -> str:
        """What layers that are sent together are called."""
        return "unit" if self.stage == 3 else "bucket"


@lru_cache(maxsize=512)  # an explorer asks for the same setting again and again
def _moments(choice: ShardedChoice) -> tuple[ShardedMoment, ...]:
    part = -(-WIDTH // choice.num_ranks) * WIDTH
    moments = step_moments(
        [UnitSizes(choice.per_unit * WIDTH * WIDTH, choice.per_unit * part)] * choice.num_units,
        stage=choice.stage,
        num_ranks=choice.num_ranks,
        reshard_after_forward=choice.reshard_after_forward,
        prefetch=choice.prefetch,
        largest_numel=WIDTH * WIDTH,
    )
    return tuple(moments)


@lru_cache(maxsize=512)
def _largest(choice: ShardedChoice) -> tuple[ShardedMoment, ...]:
    return tuple(largest_by_phase(_moments(choice)).values())


def ranks_alike(choice: ShardedChoice, *, grouped: bool | None = None) -> dict[str, range]:
    """Ranks that keep equally many rows, by a name to stand below a bar; each by itself where they are few."""
    if not (choice.num_ranks > _MOST_BARS if grouped is None else grouped):
        return {str(rank): range(rank, rank + 1) for rank in range(choice.num_ranks)}
    alike: dict[str, range] = {}
    first = 0
    for rank in range(1, choice.num_ranks + 1):
        if rank == choice.num_ranks or choice.num_rows(rank) != choice.num_rows(first):
            alike[str(first) if rank - first == 1 else f"{first}-{rank - 1}"] = range(first, rank)
            first = rank
    return alike
