"""04.drift: wrong answers, each wrong in one way, and how some are told by what they leave behind."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import nn

from course_lib.cluster.base.rank import Rank
from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_04.drift.cases import (
    END,
    LIMIT_BYTES,
    MANY,
    NAN,
    SAME,
    SHORT,
    SWAP,
    TWO,
    ULP,
    ZERO,
    DriftReport,
    replica_with,
    weight_bytes,
)
from course_lib.learn.judging.report import reports

Mark = Callable[[nn.Parameter], Any]

# -- wrong answers ----------------------------------------------------------------------------------------------


def _gathered(me: Rank, mine: Any) -> list[Any]:
    everything: list[Any] = [None] * me.world_size
    dist.all_gather_object(everything, mine)
    return everything


def _names_where(model: nn.Module, rows: list[list[Any]]) -> list[str]:
    names = [name for name, _ in model.named_parameters()]
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return [name for name, values in columns if any(value != values[0] for value in values)]


def _bytes(parameter: nn.Parameter) -> bytes:
    return parameter.detach().cpu().numpy().tobytes()


def _crc(parameter: nn.Parameter) -> int:
    return zlib.crc32(_bytes(parameter))


def by(mark: Mark) -> Callable[[Rank, nn.Module], list[str]]:
    """Compares all ranks' marks of each parameter."""
    return lambda me, model: _names_where(model, _gathered(me, [mark(p) for p in model.parameters()]))


def first_alone(me: Rank, model: nn.Module) -> list[str]:
    return by(_crc)(me, model)[:1]


def hash_of_the_model(me: Rank, model: nn.Module) -> list[str]:
    mark = hashlib.sha256(b"".join(map(_bytes, model.parameters()))).hexdigest()
    names = [name for name, _ in model.named_parameters()]
    return names if len(set(_gathered(me, mark))) > 1 else []


# -- what they leave behind -------------------------------------------------------------------------------------


def _of(evidence: Evidence, label: str) -> list[AnswerOutcome]:
    return [o for o in evidence.outcomes if o.error is None and o.case.startswith(f"{label}, rank")]


def _finds_all(evidence: Evidence, *labels: str) -> bool:
    """Whether every rank gave the right names in these cases."""
    seen = [outcome for label in labels for outcome in _of(evidence, label)]
    return bool(seen) and all(outcome.got.names == outcome.expected.names for outcome in seen)


def _sees_nothing(evidence: Evidence, label: str) -> bool:
    """Whether this drift went unseen, on every rank."""
    seen = _of(evidence, label)
    return evidence.error is None and bool(seen) and all(outcome.got.names == [] for outcome in seen)


def _most_sent(evidence: Evidence) -> int:
    return max(report.sent for _, report in reports(evidence, DriftReport))


def _wrong_labels(evidence: Evidence) -> set[str]:
    return {outcome.case.partition(", rank ")[0] for outcome in evidence.wrong}


def takes_pythons_hash(evidence: Evidence) -> bool:
    """Whether ``hash`` was called on bytes or text, and equal replicas are said to differ everywhere."""
    names = [name for name, _ in replica_with(SAME).named_parameters()]
    seen = _of(evidence, SAME)
    return bool(seen) and all(o.got.names == names and o.got.hashed for o in seen)


def ranks_disagree(evidence: Evidence) -> bool:
    """Whether ranks of one run gave unequal lists, and each had waited for what it asked for."""
    if any(outcome.unwaited for outcome in evidence.outcomes):
        return False
    lists: dict[str, list[Any]] = {}
    for outcome in evidence.outcomes:
        if outcome.error is None and isinstance(outcome.got.names, list):
            run = outcome.case.partition(", rank ")[0] + outcome.case.rpartition(" of ")[2]
            lists.setdefault(run, []).append(outcome.got.names)
    return any(names != run[0] for run in lists.values() for names in run)


def sends_weights(evidence: Evidence) -> bool:
    seen = _of(evidence, SAME)
    return bool(seen) and all(outcome.got.sent >= 0.9 * weight_bytes() for outcome in seen)


def finds_nothing(evidence: Evidence) -> bool:
    """Whether every list is empty, and no rank has sent another anything."""
    empty = all(_sees_nothing(evidence, label) for label in (SWAP, ULP, TWO, END))
    return empty and _most_sent(evidence) == 0


def takes_sums(evidence: Evidence) -> bool:
    return _sees_nothing(evidence, SWAP) and _finds_all(evidence, SAME, TWO, END)


def takes_numbers(evidence: Evidence) -> bool:
    return evidence.error is None and _wrong_labels(evidence) == {NAN}


def takes_minus_zero_for_zero(evidence: Evidence) -> bool:
    return _sees_nothing(evidence, ZERO) and _wrong_labels(evidence) == {ZERO}


def has_a_tolerance(evidence: Evidence) -> bool:
    return _sees_nothing(evidence, ULP) and _finds_all(evidence, SAME, SWAP, TWO, END)


def misses_the_end(evidence: Evidence) -> bool:
    return _sees_nothing(evidence, END) and _finds_all(evidence, SAME, SWAP, TWO, ULP)


def has_few_bits(evidence: Evidence) -> bool:
    """Whether only changes escape that a part of a hash does not tell."""
    return (
        evidence.error is None
        and _wrong_labels(evidence) <= {SHORT, MANY}
        and all(isinstance(o.got.names, list) and set(o.got.names) < set(o.expected.names) for o in evidence.wrong)
    )


def overlooks_frozen(evidence: Evidence) -> bool:
    """Whether nothing is missing but parameters that do not learn."""
    frozen = {name for name, p in replica_with(SAME).named_parameters() if not p.requires_grad}
    return evidence.error is None and all(
        isinstance(o.got.names, list) and o.got.names == [name for name in o.expected.names if name not in frozen]
        for o in evidence.wrong
    )


def names_buffers(evidence: Evidence) -> bool:
    buffers = {name for name, _ in replica_with(SAME).named_buffers()}
    return any(isinstance(o.got.names, list) and buffers & set(o.got.names) for o in _of(evidence, SAME))


def in_another_order(evidence: Evidence) -> bool:
    return (
        evidence.error is None
        and all(
            isinstance(o.got.names, list) and sorted(o.got.names) == sorted(o.expected.names) for o in evidence.outcomes
        )
        and not _finds_all(evidence, TWO)
        and _most_sent(evidence) <= LIMIT_BYTES
    )
