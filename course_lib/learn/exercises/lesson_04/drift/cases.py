"""04.drift: replicas with planted drifts, what is looked at afterwards, and what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.judging.compare import no_more, short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING, Report, fact
from course_lib.learn.sandbox.salted_hash import salted_hash

__all__ = [
    "END",
    "FOUND",
    "LIMIT_BYTES",
    "MANY",
    "NAN",
    "SAME",
    "SHORT",
    "SWAP",
    "TWO",
    "ULP",
    "ZERO",
    "DriftReport",
    "replica_with",
    "right",
    "trial",
    "weight_bytes",
]

LIMIT_BYTES = 200  # a hash as text, in a dictionary with its name, and what pickling adds
SAME, NAN = "replicas that agree", "replicas that agree, on a number that is none"
SWAP, ULP = "two numbers swapped on the last rank", "one number off by its last bit on rank 0"
TWO = "four parameters, off on rank 0 or on rank 1"
END = "the last number of a tensor off on one rank in the middle"
ZERO = "0.0 on some ranks and -0.0 on the last"
SHORT = "two changes of which a part of a hash says nothing"
MANY = "very many parameters, all of them off on rank 0"
FOUND = {
    SAME: (),
    SWAP: ("2.weight",),
    ULP: ("0.bias",),
    TWO: ("0.weight", "2.bias", "10.weight", "12.bias"),
    NAN: (),
    END: ("4.weight",),
    ZERO: ("9.bias",),
    SHORT: ("6.bias", "8.bias"),
    MANY: None,  # all
}
# Exclusive ors with the last number of a tensor that change nothing in its zlib.crc32 but one bit, the lowest or a high
# one: a hash that is cut to some of its bits, or that lies in a tensor of float32, stays what it was.
_ONLY_THE_LOWEST_BIT, _ONLY_BIT_24 = 0xB66B1FA6, 0xF4898239


def _of_names(want: list[str], have: list[str] | str) -> str:
    if isinstance(have, str):
        return f"expected a list of names in the model's order, got {have}"
    missing = [name for name in want if name not in have]
    extra = [name for name in have if name not in want]
    if missing:
        return f"{short(missing)} differ{'s' * (len(missing) == 1)}, and the list does not say so: {short(have)}"
    if extra:
        return f"{short(extra)} should not be in the list, which is {short(want)}"
    return f"expected {short(want)}, in the model's order, got {short(have)}" if want != have else ""


@dataclass(frozen=True, kw_only=True)
class DriftReport(Report):
    """What came on a rank: the names first; then what was sent, of which less is as good; then what was changed."""

    asked_for = "a list of names"
    names: list[str] | str = fact("{difference}", by=_of_names)
    sent: int = fact(
        "each rank sent {got} bytes for each parameter to each other one; a hash takes a few",
        by=no_more,
        right=LIMIT_BYTES,
    )
    kept: str = fact("the names are right, and your code changed what it was given: {got}", right=NOTHING)
    hashed: bool = False  # Python's own hash was taken of bytes or text: tells wrong answers apart


def replica_with(kind: str, device: torch.device | str = "cpu", *, many: int = 20) -> nn.Module:
    """The model on every rank, before anything is planted; the drifts are the same whatever the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        if kind == MANY:
            return nn.ParameterList([torch.randn(1, dtype=torch.float64) for _ in range(many)]).to(device)
        layers = [nn.Linear(8, 64), nn.BatchNorm1d(64), nn.Linear(64, 64), nn.Dropout(0.2)]
        layers += [nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32)]
        layers += [nn.LayerNorm(32), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 4)]
        model = nn.Sequential(*layers).double()
    model[8].weight = model[6].weight
    model[10].float()
    model[12].bias.requires_grad_(False)
    return model.to(device)


def weight_bytes(kind: str = SAME) -> float:
    """Bytes of a parameter of the model, on average."""
    parameters = list(replica_with(kind).parameters())
    return sum(parameter.nbytes for parameter in parameters) / len(parameters)


def _plant(kind: str, model: nn.Module, rank: int, world_size: int) -> None:
    last, of = rank == world_size - 1, model.get_parameter
    with torch.no_grad():
        if kind == NAN:
            of("2.weight")[0, 0] = float("nan")
        elif kind == SWAP and last:
            of("2.weight")[0, :2] = of("2.weight")[0, :2].flip(0)
        elif kind == ULP and rank == 0:
            of("0.bias")[3] = torch.nextafter(of("0.bias")[3], of("0.bias")[3] + 1)
        elif kind == TWO and rank < 2:
            names = ("2.bias", "12.bias") if rank == 0 else ("0.weight", "10.weight")
            for name in names:
                of(name).view(-1)[0] += 1.0
        elif kind == END and rank == world_size // 2:
            of("4.weight")[-1, -1] += 0.5
        elif kind == ZERO and last:
            of("9.bias")[5] = -0.0
        elif kind == SHORT and rank == 0:
            _flip_bits(of("6.bias"), _ONLY_BIT_24)
            _flip_bits(of("8.bias"), _ONLY_THE_LOWEST_BIT)
        elif kind == MANY and rank == 0:
            for parameter in model.parameters():
                parameter.add_(1e-6)


def _flip_bits(tensor: Tensor, bits: int) -> None:
    tensor.view(torch.int64).view(-1)[-1] ^= bits


def _what_may_differ(model: nn.Module, rank: int) -> None:
    """Statistics of BatchNorm and gradients are each rank's own: no drift."""
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer += 0.1 * (rank + 1)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.full_like(parameter, float(rank))


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> DriftReport:
    from course_lib.meter.communication.recorder import Recorder

    model = replica_with(kind, me.device, many=_many(me.world_size))
    _plant(kind, model, me.rank, me.world_size)
    _what_may_differ(model, me.rank)
    kept = Kept(model=model)
    with Recorder(me.rank) as recorder, salted_hash(me.rank) as hashed:
        names = _plain(answer(me, model))
    sent = sum(sum(call.sent_bytes.values()) for call in recorder.calls)
    return DriftReport(
        names=names,
        sent=round(sent / (me.world_size - 1) / len(list(model.parameters()))),
        hashed=bool(hashed),
        kept=kept.changes() or NOTHING,
    )


def _many(world_size: int) -> int:
    """A hash of eight bits overlooks some of a thousand changes; two ranks are enough for that."""
    return 1000 if world_size == 2 else 20


def _plain(names: Any) -> Any:
    if isinstance(names, str | bytes | Set) or not isinstance(names, Iterable):
        return f"a {type(names).__name__}, {short(names)}"
    return [str(name) for name in names]


@lru_cache(maxsize=8)
def _all_names(world_size: int) -> tuple[str, ...]:
    return tuple(name for name, _ in replica_with(MANY, many=_many(world_size)).named_parameters())


def right(kind: str) -> Callable[[int, int], DriftReport]:
    def expected(rank: int, world_size: int) -> DriftReport:
        found = FOUND[kind]
        return DriftReport(names=list(_all_names(world_size) if found is None else found))

    return expected
