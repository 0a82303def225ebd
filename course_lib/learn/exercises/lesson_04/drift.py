"""04.drift: which parameters are no longer the same on all ranks?"""

from __future__ import annotations

import builtins
import hashlib
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from course_lib.cluster import Rank
from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.tries import all_got, replica, times_sent
from course_lib.learn.judge import by_trial

__all__ = ["DRIFT"]

_NAMES, _SENT = "the names", "weights sent"
_SAME, _NAN = "replicas that agree", "replicas that agree, on a number that is none"
_SWAP, _ULP = "two numbers swapped on the last rank", "one number off by its last bit on rank 0"
_TWO = "two parameters, each off on another rank"


def _plant(kind: str, model: nn.Module, rank: int, world_size: int) -> None:
    with torch.no_grad():
        if kind == _NAN:
            model.get_parameter("2.weight")[0, 0] = float("nan")
        elif kind == _SWAP and rank == world_size - 1:
            weight = model.get_parameter("2.weight")
            weight[0, :2] = weight[0, :2].flip(0)
        elif kind == _ULP and rank == 0:
            bias = model.get_parameter("0.bias")
            bias[3] = torch.nextafter(bias[3], bias[3] + 1)
        elif kind == _TWO and rank == 0:
            model.get_parameter("4.bias")[0] += 1.0
        elif kind == _TWO and rank == 1:
            model.get_parameter("0.weight")[0, 0] += 1.0


_FOUND = {_SAME: [], _SWAP: ["2.weight"], _ULP: ["0.bias"], _TWO: ["0.weight", "4.bias"], _NAN: []}


def _trial(answer: Callable[..., Any], me: Rank, kind: str) -> dict[str, Any]:
    from course_lib.meter.recorder import Recorder

    model = replica(me.device, width=64)
    _plant(kind, model, me.rank, me.world_size)
    with Recorder(me.rank) as recorder, _salted_hash(me.rank):
        names = answer(me, model)
    sent = times_sent(recorder.calls, sum(parameter.nbytes for parameter in model.parameters()))
    return {
        _NAMES: list(names) if isinstance(names, tuple | set | list | dict) else names,
        _SENT: "a little" if sent <= 0.3 else "about all of them",
    }


@contextmanager
def _salted_hash(rank: int) -> Iterator[None]:
    """``hash(bytes)`` differs between ranks, as under torchrun; the ranks here share a parent, and its salt."""
    plain_hash = builtins.hash

    def salted(value: object) -> int:
        return plain_hash((rank, value)) if isinstance(value, bytes) else plain_hash(value)

    builtins.hash = salted
    try:
        yield
    finally:
        builtins.hash = plain_hash


def _right(kind: str) -> Callable[[int, int], dict[str, Any]]:
    return lambda rank, world_size: {_NAMES: _FOUND[kind], _SENT: "a little"}


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _gathered(me: Rank, mine: Any) -> list[Any]:
    everything: list[Any] = [None] * me.world_size
    dist.all_gather_object(everything, mine)
    return everything


def _names_where(model: nn.Module, rows: list[list[Any]], differ: Callable[[list[Any]], bool]) -> list[str]:
    names = [name for name, _ in model.named_parameters()]
    return [name for name, values in zip(names, zip(*rows, strict=True), strict=True) if differ(list(values))]


def _bits(model: nn.Module) -> list[int]:
    return [zlib.crc32(p.detach().cpu().numpy().tobytes()) for p in model.parameters()]


def _some_differ(values: list[Any]) -> bool:
    return any(value != values[0] for value in values)


def _compares_sums(me: Rank, model: nn.Module) -> list[str]:
    rows = _gathered(me, [f"{parameter.sum().item()}" for parameter in model.parameters()])
    return _names_where(model, rows, _some_differ)


def _with_tolerance(me: Rank, model: nn.Module) -> list[str]:
    """Positions weigh, so that a swap is seen; rounding to six digits hides the last bit."""

    def mark(parameter: nn.Parameter) -> str:
        flat = parameter.detach().double().flatten()
        return f"{(flat * torch.arange(1, len(flat) + 1, device=flat.device)).sum().item():.6g}"

    rows = _gathered(me, [mark(parameter) for parameter in model.parameters()])
    return _names_where(model, rows, _some_differ)


def _only_the_others_know(me: Rank, model: nn.Module) -> list[str]:
    from_rank_0 = [_bits(model)]
    dist.broadcast_object_list(from_rank_0, src=0)
    return _names_where(model, [from_rank_0[0], _bits(model)], _some_differ)


def _next_neighbour(me: Rank, model: nn.Module) -> list[str]:
    rows = _gathered(me, _bits(model))
    return _names_where(model, [rows[me.rank], rows[(me.rank + 1) % me.world_size]], _some_differ)


def _gathers_weights(me: Rank, model: nn.Module) -> list[str]:
    found = []
    for name, parameter in model.named_parameters():
        everything = [torch.empty_like(parameter) for _ in range(me.world_size)]
        dist.all_gather(everything, parameter.detach())
        words = {other.cpu().numpy().tobytes() for other in everything}
        found += [name] if len(words) > 1 else []
    return found


def _hash_and_largest(me: Rank, model: nn.Module) -> list[str]:
    marks = [[mark, p.abs().max().item()] for mark, p in zip(_bits(model), model.parameters(), strict=True)]
    return _names_where(model, _gathered(me, marks), _some_differ)


def _python_hash(me: Rank, model: nn.Module) -> list[str]:
    marks = [hash(p.detach().cpu().numpy().tobytes()) for p in model.parameters()]
    return _names_where(model, _gathered(me, marks), _some_differ)


def _first_alone(me: Rank, model: nn.Module) -> list[str]:
    return _names_where(model, _gathered(me, _bits(model)), _some_differ)[:1]


def _looks_alone(me: Rank, model: nn.Module) -> list[str]:
    return []


def _hash_of_the_model(me: Rank, model: nn.Module) -> list[str]:
    mark = hashlib.sha256(
        b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
    ).hexdigest()
    names = [name for name, _ in model.named_parameters()]
    return names if len(set(_gathered(me, mark))) > 1 else []


def _by_the_library(me: Rank, model: nn.Module) -> list[str]:
    from course_lib.parallel.data import find_drift

    drift = find_drift(me, model)
    return [] if drift is None else list(drift.parameters)


def _overlooks(evidence: Evidence, label: str) -> bool:
    """Whether this drift went unseen, on any rank."""
    return any(o.case.startswith(f"{label},") and o.got[_NAMES] == [] for o in evidence.outcomes)


def _finds_everything(evidence: Evidence) -> bool:
    """Whether every parameter is said to differ, on replicas that agree."""
    names = [name for name, _ in replica().named_parameters()]
    return any(o.case.startswith(f"{_SAME},") and o.got[_NAMES] == names for o in evidence.outcomes)


def _ranks_disagree(evidence: Evidence) -> bool:
    answers = [
        o.got[_NAMES] for o in evidence.outcomes if o.case.startswith(_TWO) and o.case.endswith("of 4")
    ]
    return any(names != answers[0] for names in answers)


DRIFT = Exercise(
    name="04.drift",
    title="Which parameters have drifted?",
    judge=by_trial((4, 2), tuple(Case(kind, (kind,), _right(kind)) for kind in _FOUND), _trial),
    mistakes=(
        Mistake(
            "python-hash",
            "You found a drift where there is none. Python's own `hash` of bytes is salted, with another number in "
            "each process that starts by itself, so equal bits give unequal hashes. Take one that is the same "
            "everywhere: `zlib.crc32`.",
            _python_hash,
            lambda evidence: evidence.error is None and _finds_everything(evidence),
        ),
        Mistake(
            "ranks-disagree",
            "The ranks come to different lists: some of them learn less than others. All ranks need all hashes "
            "(`dist.all_gather`), not those of rank 0 or of a neighbour alone; then every rank can say the same.",
            _only_the_others_know,
            _ranks_disagree,
        ),
        Mistake(
            "sends-all-weights",
            "To find the names, every rank sent all its weights: more than a training step sends. "
            "Send a *hash* of each parameter, a few bytes that change when any bit changes.",
            _gathers_weights,
            lambda evidence: evidence.error is None and "about all of them" in all_got(evidence, _SENT),
        ),
        Mistake(
            "compares-sums",
            "Two numbers changed places on one rank, and you did not see it: a sum is the same in any order, and a "
            "norm or a mean likewise. Hash the bytes: `zlib.crc32(parameter.detach().cpu().numpy().tobytes())`.",
            _compares_sums,
            lambda evidence: _overlooks(evidence, _SWAP),
        ),
        Mistake(
            "not-a-number",
            "You found a drift where there is none: all ranks hold the same bits, and one number is NaN, which is not "
            "equal even to itself. Compare bits, not numbers.",
            _hash_and_largest,
            lambda evidence: {o.case.partition(", rank")[0] for o in evidence.wrong} == {_NAN},
        ),
        Mistake(
            "a-tolerance",
            "A difference in the last bit was not seen. Replicas that apply the same update to the same numbers agree "
            "to the bit, so the first bit is the first sign; a tolerance sees the drift when it is large.",
            _with_tolerance,
            lambda evidence: _overlooks(evidence, _ULP) and not _overlooks(evidence, _TWO),
        ),
        Mistake(
            "only-the-first",
            "You name the first parameter that differs and leave out the second. Go through all of them.",
            _first_alone,
        ),
        Mistake(
            "one-hash-for-all",
            "One hash of the whole model says that something differs, not what. One hash for each parameter costs "
            "little more.",
            _hash_of_the_model,
        ),
    ),
    hints=(
        "How few bytes can show that two tensors differ in a bit somewhere? And who has to see whose?",
        "A hash for each parameter, as a tensor of integers on `me.device`, in the model's order; an all-gather of "
        "that tensor; then the names of the columns in which not all ranks have the same.",
        "`mine = torch.tensor([zlib.crc32(p.detach().cpu().numpy().tobytes()) for p in model.parameters()])`, "
        "`rows = [torch.empty_like(mine) for _ in range(me.world_size)]`, `dist.all_gather(rows, mine)`, and "
        "`torch.stack(rows)` has a row for each rank. (Python's own `hash` of bytes differs from process to process.)",
    ),
    forbidden=("course_lib.parallel.data.find_drift",),
    forbidden_example=_by_the_library,
    passed="Every rank gives the same names, bit for bit, and what was sent is a few bytes for each parameter.",
)  # fmt: skip
