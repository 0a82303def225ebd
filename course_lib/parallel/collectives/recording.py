"""A collective, recorded as it runs: what every rank holds after each step, and which messages brought it there.

Every rank begins with one piece for each rank, and the pieces carry marks: piece 2 of rank 1 is a number in which one
bit of its own is set. Adding pieces joins their marks, so that a sum tells what it is a sum of. What is recorded is
read off the memory of real ranks whenever they start to send.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.message_steps import Batch, message_steps

if TYPE_CHECKING:
    import torch

__all__ = ["PIECE_BYTES", "RECORDABLE", "Piece", "RecordedTransfer", "Recording", "RecordingFrame", "record"]

PIECE_BYTES = 1024
_MOST_RANKS = 7  # a mark for each piece of each rank has to find room in 63 bits

Piece = frozenset[tuple[int, int]]  # (rank it comes from, its number there): several of one number are a sum


@dataclass(frozen=True)
class RecordedTransfer:
    """One message."""

    sender: int
    receiver: int
    size_bytes: int


@dataclass(frozen=True)
class RecordingFrame:
    """``held[rank][part]`` is what lies there after a step; ``transfers`` are the messages of that step."""

    held: tuple[tuple[Piece, ...], ...]
    transfers: tuple[RecordedTransfer, ...] = ()


@dataclass(frozen=True)
class Recording:
    """Frame 0 is the beginning. The last frame shows the result alone, without sums that were left half-way."""

    name: str
    num_ranks: int
    frames: tuple[RecordingFrame, ...]

    @property
    def num_steps(self) -> int:
        return len(self.frames) - 1

    def sent_bytes(self, rank: int, *, until: int | None = None) -> int:
        """What ``rank`` has sent by the end of step ``until`` (default: the last)."""
        end = self.num_steps if until is None else until
        messages = (message for frame in self.frames[: end + 1] for message in frame.transfers)
        return sum(message.size_bytes for message in messages if message.sender == rank)


@dataclass(frozen=True)
class _Scene:
    """``run(me, memory)`` does the collective in place; ``begins`` and ``ends``: whether a place counts then."""

    run: Callable[[Rank, torch.Tensor], object]
    begins: Callable[[int, int], bool] = lambda rank, part: True
    ends: Callable[[int, int], bool] = lambda rank, part: True


def record(cluster: Cluster, what: str | Callable[[Rank, torch.Tensor], Any]) -> Recording:
    """Run a collective on ``cluster``, with rank 0 as root where there is one, and record it.

    ``what`` is one of ``RECORDABLE``, or a function ``f(me, tensor)`` of your own that works in place or returns its
    result, of the tensor's shape, and sends by ``exchange``. Raises ValueError for an unknown name and too many ranks.
    """
    if cluster.world_size > _MOST_RANKS:
        raise ValueError(f"{cluster.world_size} ranks cannot be recorded; the most is {_MOST_RANKS}")
    if isinstance(what, str) and what not in RECORDABLE:
        raise ValueError(f"{what!r} cannot be recorded; choose one of {', '.join(RECORDABLE)}")
    run = cluster.call(_on_rank, (what,), show=False)
    name = what if isinstance(what, str) else getattr(what, "__name__", "a function")
    return Recording(name, cluster.world_size, _frames(list(run)))


# -- on the rank ----------------------------------------------------------------------------------------------

Held = tuple[Piece, ...]


def _on_rank(me: Rank, what: str | Callable[..., Any]) -> list[tuple[Held, Batch]]:
    """What this rank held before each batch of messages, and the batch; last, what it held in the end."""
    import torch
    import torch.distributed as dist

    scene = _scenes()[what] if isinstance(what, str) else _Scene(what)
    n, seen = me.world_size, []
    memory = torch.tensor([(1 << (me.rank * n + part)) * scene.begins(me.rank, part) for part in range(n)])
    memory = memory.repeat_interleave(PIECE_BYTES // 8).to(me.device)
    plain = dist.batch_isend_irecv

    def recorded_batch(operations: list[dist.P2POp]) -> Any:
        batch = [(op.peer, op.tensor.nbytes, op.op is dist.irecv) for op in operations]
        seen.append((_held(memory, n), batch))
        return plain(operations)

    dist.batch_isend_irecv = recorded_batch  # type: ignore[assignment]  # as long as the recording lasts
    try:
        result = scene.run(me, memory)
    finally:
        dist.batch_isend_irecv = plain
    if isinstance(result, torch.Tensor) and result.shape == memory.shape:
        memory = result
    held = _held(memory, n)
    return [
        *seen,
        (tuple(piece if scene.ends(me.rank, i) else frozenset() for i, piece in enumerate(held)), []),
    ]


def _held(memory: torch.Tensor, n: int) -> Held:
    marks = memory[:: PIECE_BYTES // 8].tolist()
    return tuple(frozenset(divmod(bit, n) for bit in range(n * n) if mark >> bit & 1) for mark in marks)


def _scenes() -> dict[str, _Scene]:
    from course_lib.parallel import collectives
    from course_lib.parallel.collectives.members import Members, adder
    from course_lib.parallel.collectives.ring import reduce_around

    def own(me: Rank, memory: torch.Tensor) -> torch.Tensor:
        return memory.tensor_split(me.world_size)[me.rank]

    def reduce_scatter(me: Rank, memory: torch.Tensor) -> None:
        parts = memory.tensor_split(me.world_size)
        reduce_around(Members.of(me, None), parts, dict(enumerate(parts)), adder("sum", memory.dtype))

    def at_root(rank: int, part: int) -> bool:
        return rank == 0

    def at_own(rank: int, part: int) -> bool:
        return rank == part

    def all_reduce(algorithm: str) -> _Scene:
        return _Scene(lambda me, memory: collectives.all_reduce(me, memory, out=memory, algorithm=algorithm))

    return {
        "broadcast": _Scene(lambda me, memory: collectives.broadcast(me, memory, out=memory), begins=at_root),
        "scatter": _Scene(
            lambda me, memory: collectives.scatter(me, None if me.rank else memory, out=own(me, memory)),
            begins=at_root,
            ends=at_own,
        ),
        "gather": _Scene(
            lambda me, memory: collectives.gather(me, own(me, memory), out=None if me.rank else memory),
            begins=at_own,
            ends=at_root,
        ),
        "all_gather": _Scene(lambda me, memory: collectives.all_gather(me, own(me, memory), out=memory), begins=at_own),
        "reduce": _Scene(lambda me, memory: collectives.reduce(me, memory, out=memory), ends=at_root),
        "reduce_scatter": _Scene(reduce_scatter, ends=at_own),
        **{f"all_reduce, {name}": all_reduce(name) for name in collectives.ALL_REDUCE_ALGORITHMS},
        "all_to_all": _Scene(collectives.all_to_all),
    }


RECORDABLE = (
    "broadcast",
    "scatter",
    "gather",
    "all_gather",
    "reduce",
    "reduce_scatter",
    "all_reduce, ring",
    "all_reduce, tree",
    "all_reduce, halving-doubling",
    "all_reduce, naive",
    "all_to_all",
)

# -- putting the ranks' stories together ------------------------------------------------------------------------


def _frames(stories: Sequence[list[tuple[Held, Batch]]]) -> tuple[RecordingFrame, ...]:
    """Frames on one common count of steps. Ranks have no common clock: messages tell what came after what."""
    batches = [[batch for _, batch in story[:-1]] for story in stories]
    step_of = message_steps(batches)
    num_steps = max((max(steps.values(), default=0) for steps in step_of.values()), default=0)
    frames = []
    for step in range(num_steps + 1):
        held, transfers = [], []
        for rank, story in enumerate(stories):
            over = [max(step_of[rank, number].values(), default=0) <= step for number in range(len(story) - 1)]
            held.append(story[sum(over)][0] if step < num_steps else story[-1][0])
            for number, batch in enumerate(batches[rank]):
                transfers += [
                    RecordedTransfer(rank, peer, size_bytes)
                    for index, (peer, size_bytes, is_recv) in enumerate(batch)
                    if not is_recv and step_of[rank, number][index] == step
                ]
        frames.append(RecordingFrame(tuple(held), tuple(transfers)))
    return tuple(frames)
