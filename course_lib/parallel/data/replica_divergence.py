"""Replicas that drift apart (replica divergence): found by a few bytes, named by parameter, rank and step.

Data parallelism rests on one fact that nobody enforces: all ranks hold the same weights. A gradient that was not
reduced, a rank with a seed of its own, a parameter changed by hand on one rank, a flipped bit: training goes on, the
loss looks well, and the model that is saved is that of one rank alone. So compare now and then. Weights must agree
in every *bit* (all ranks add the same averaged gradients to the same weights), hence a fingerprint of bits will do:

1. each parameter's fingerprint, 64 bits, computed where the parameter lies;
2. one fingerprint of them all: 8 bytes to every rank, and in nearly every check the ranks agree and that was all;
3. only where they do not: all fingerprints of all ranks, and a vote on each parameter.

The fingerprint: the words of the tensor times fixed random odd numbers, added up modulo 2^64 (Carter and Wegman,
"Universal classes of hash functions", 1979). A change of one word is always seen, for an odd number times a difference
is never 0; words that change places, or several changes at once, escape with a chance of one in billions.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.base.checks import at_least
from course_lib.base.text import and_list
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members, in_one_piece
from course_lib.parallel.collectives.parts import part_of

__all__ = ["Divergence", "DivergenceDetector", "disagreements", "find_divergence", "fingerprints"]

_CHUNK = 1 << 18  # words at a time: bounds the memory for products, 2 MiB
_ODD = 6364136223846793005  # tells one chunk from the next (the multiplier of Knuth's MMIX generator)


def fingerprints(module: nn.Module, *, include_buffers: bool = True) -> dict[str, int]:
    """64 bits for each parameter, then each buffer, in model order: equal bits, dtype and shape give equal numbers.

    Bits are compared, not numbers: 0.0 differs from -0.0, and NaN equals itself. Computed on the tensors' devices.
    """
    tensors: dict[str, Tensor] = dict(module.named_parameters())
    if include_buffers:
        tensors |= dict(module.named_buffers())
    if not tensors:
        return {}
    sums = [_weighted_sum(tensor.detach()) for tensor in tensors.values()]  # started on the devices, one after another
    values = torch.stack([one.to(sums[0].device) for one in sums]).tolist()  # and fetched at once
    return {
        name: _digest(f"{tensor.dtype} {tuple(tensor.shape)} {value}")
        for (name, tensor), value in zip(tensors.items(), values, strict=True)
    }


def find_divergence(
    me: Rank, module: nn.Module, *, include_buffers: bool = False, group: dist.ProcessGroup | None = None
) -> Divergence | None:
    """Where the ranks of ``group`` (default: all) hold different bits, or None. Each of them has to call it, and all
    get the same answer.

    Cost: one pass over the weights, and one all-gather of 8 bytes a rank; a table of all fingerprints only where
    something differs. Buffers are left out by default: those of BatchNorm follow each rank's own batches, and differ
    without anything being wrong. Left out as well is what these ranks hold in parts, as slices or shards: of a
    tensor-parallel model its biases of rows and its norms are compared. ``ValueError`` where nothing else is left.
    """
    members = Members.of(me, group)
    mine = _copies_among(members, module, fingerprints(module, include_buffers=include_buffers))
    digest = torch.tensor(_digest(repr(sorted(mine.items()))), device=me.device)
    digests = [torch.empty_like(digest) for _ in members.ranks]
    dist.all_gather(digests, digest, group=group)
    if len({int(one) for one in digests}) == 1:
        return None
    tables: list[dict[str, int]] = [{} for _ in members.ranks]
    dist.all_gather_object(tables, mine, group=group)
    groups = disagreements(dict(zip(members.ranks, tables, strict=True)))
    buffers = {name for name, _ in module.named_buffers()}
    return Divergence(groups, tuple(name for name in groups if name in buffers))


@dataclass(frozen=True)
class Divergence:
    """What differs between ranks. ``str()`` says it in a sentence."""

    groups: Mapping[str, tuple[tuple[int, ...], ...]]  # by name, in model order: ranks that agree, most ranks first
    buffers: tuple[str, ...] = ()  # those of the names that are buffers
    step: int | None = None  # of the first check that found it
    last_agreed_step: int | None = None  # of the check before; None where there was none

    @property
    def parameter(self) -> str:
        """The first name in model order; a buffer only where all parameters agree."""
        return next((name for name in self.groups if name not in self.buffers), next(iter(self.groups)))

    @property
    def parameters(self) -> tuple[str, ...]:
        """All names that differ, in model order, buffers last."""
        return tuple(self.groups)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Who differs from the majority anywhere; all ranks where no group of them is the largest."""
        return tuple(sorted({rank for name in self.groups for rank in self._odd_ones(name)}))

    def _odd_ones(self, name: str) -> tuple[int, ...]:
        first, second, *_ = groups = self.groups[name]
        odd = groups if len(first) == len(second) else groups[1:]
        return tuple(sorted(rank for group in odd for rank in group))

    def __str__(self) -> str:
        odd, groups = self._odd_ones(self.parameter), self.groups[self.parameter]
        is_vote = len(groups[0]) > len(groups[1])
        text = f"{_ranks(odd)} differ{'s' * (len(odd) == 1)}{' from the others' * is_vote}"
        if not is_vote and len(groups[0]) > 1:
            text += f" ({' against '.join(and_list(group) for group in groups)})"
        text += f" in {'buffer ' * (self.parameter in self.buffers)}{self.parameter}"
        more = len(self.groups) - 1
        text += f" (and {more} more)" * bool(more)
        if self.step is None:
            return text
        if self.last_agreed_step is None:
            return f"{text} at step {self.step}, the first that was checked"
        if self.last_agreed_step == self.step - 1:
            return f"{text} since step {self.step}"
        return f"{text} at step {self.step}; at step {self.last_agreed_step} all agreed"


class DivergenceDetector:
    """Compares the replicas every ``every`` steps and remembers when they last agreed::

    detector = DivergenceDetector(me, model, every=100)
    for step, batch in enumerate(batches):
        ...
        if drift := detector.check(step):
            raise RuntimeError(str(drift))
    """

    def __init__(
        self,
        me: Rank,
        module: nn.Module,
        every: int = 1,
        *,
        include_buffers: bool = False,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        at_least(1, every=every)
        if not isinstance(module, nn.Module):
            raise ValueError(
                f"DivergenceDetector(me, module): a rank, then a model; module is a {type(module).__name__}"
            )
        self.me, self.module, self.every, self.include_buffers = me, module, every, include_buffers
        self.group = group  # the ranks that hold copies; None: all
        self._last_agreed_step: int | None = None
        self._found_at_step: int | None = None

    def check(self, step: int) -> Divergence | None:
        """The drift if the ranks differ, else None; nothing is compared unless ``step`` is a multiple of ``every``.

        Every rank has to call it with the same ``step``. A drift that goes on keeps the step of the check which
        found it first.
        """
        at_least(0, step=step)
        if step % self.every:
            return None
        divergence = find_divergence(self.me, self.module, include_buffers=self.include_buffers, group=self.group)
        if divergence is None:
            self._last_agreed_step, self._found_at_step = step, None
            return None
        if self._found_at_step is None:
            self._found_at_step = step
        return replace(divergence, step=self._found_at_step, last_agreed_step=self._last_agreed_step)


def _weighted_sum(tensor: Tensor) -> Tensor:
    """The words of the tensor times odd numbers, modulo 2^64: int64 arithmetic wraps around. () on its device."""
    # At most 32 bits a word: two values, exchanged, differ by their difference times that of their multipliers,
    # and the fewer zero bits the first can end in, the harder the product is 0 modulo 2^64.
    word = {1: torch.uint8, 2: torch.int16}.get(tensor.element_size(), torch.int32)
    words = in_one_piece(tensor).flatten().view(word)
    multipliers = _odd_numbers(tensor.device)
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for chunk in words.split(_CHUNK):
        total = total * _ODD + (chunk * multipliers[: len(chunk)]).sum()
    return total


@functools.cache
def _odd_numbers(device: torch.device) -> Tensor:
    """(_CHUNK,) random int64 numbers, all odd, the same on every rank."""
    generator = torch.Generator().manual_seed(0)
    return (torch.randint(-(2**63), 2**63 - 1, (_CHUNK,), generator=generator) | 1).to(device)


def _digest(text: str) -> int:
    """64 bits of a text, as an int64. (Python's own ``hash`` differs from process to process.)"""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


def _copies_among(members: Members, module: nn.Module, found: dict[str, int]) -> dict[str, int]:
    """The fingerprints without those of parameters of which ``members`` hold different parts."""
    parts = [name for name, p in module.named_parameters() if (one := part_of(p)) and one.is_sharded_among(members)]
    copies = {name: number for name, number in found.items() if name not in set(parts)}
    if parts and not copies:
        raise ValueError(
            f"ranks {and_list(members.ranks)} hold different parts of {parts[0]} and of this model's other "
            "parameters, so there are no copies to compare. Give the group of ranks that hold the same parts, as "
            "along the data axis of a mesh"
        )
    return copies


def disagreements(tables: Mapping[int, Mapping[str, int]]) -> dict[str, tuple[tuple[int, ...], ...]]:
    """By name, the groups of ranks that agree, the largest first; only names with more than one group.

    ``tables``: by rank, the fingerprint of each name.
    """
    found = {}
    for name in dict.fromkeys(name for table in tables.values() for name in table):
        by_value: dict[int | None, list[int]] = {}  # None: this rank has no such parameter
        for rank, table in sorted(tables.items()):
            by_value.setdefault(table.get(name), []).append(rank)
        if len(by_value) > 1:
            found[name] = tuple(tuple(group) for group in sorted(by_value.values(), key=lambda g: (-len(g), g)))
    return found


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {and_list(ranks)}"
