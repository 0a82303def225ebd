"""Right answers of other styles, which the judges of this lesson accept, and mutants that nobody could refuse."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from answers.lesson_07.right import runs, syncs
from torch import Tensor

from course_lib.schedules import from_text

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]


# -- 07.gpipe: a table whose columns are moments ------------------------------------------------------------------


def cell_by_cell(p: int, m: int) -> tuple[str, ...]:
    """A grid of dots, into which every cell is put at its column; dots at the end of a row are cut off."""
    grid = [["."] * (2 * (m + p - 1)) for _ in range(p)]
    for stage in range(p):
        for i in range(m):
            grid[stage][stage + i] = f"F{i}"
            grid[stage][m + 2 * (p - 1) - stage + i] = f"B{i}"
    return tuple(" ".join(row).rstrip(" .") for row in grid)


def moment_by_moment(p: int, m: int) -> Iterator[str]:
    """A simulation: in each moment every stage runs what it can; rows come from a generator."""
    rows: list[list[str]] = [[] for _ in range(p)]
    done: set[tuple[str, int, int]] = set()
    while len(done) < 2 * p * m:
        made = []
        for stage, row in enumerate(rows):
            cell = next((c for c in _cells_of(stage, m) if c not in done and _can_run(c, p, m, done)), None)
            row.append(f"{cell[0]}{cell[2]}" if cell else ".")
            made += [cell] if cell else []
        done.update(made)
    yield from map(" ".join, rows)


def _cells_of(stage: int, m: int) -> list[tuple[str, int, int]]:
    return [(kind, stage, i) for kind in "FB" for i in range(m)]


def _can_run(cell: tuple[str, int, int], p: int, m: int, done: set[tuple[str, int, int]]) -> bool:
    kind, stage, i = cell
    if kind == "F":
        return stage == 0 or ("F", stage - 1, i) in done
    all_forwards = all(("F", stage, each) in done for each in range(m))
    return all_forwards and (stage == p - 1 or ("B", stage + 1, i) in done)


def newest_goes_back_first(p: int, m: int) -> Any:
    """An array of texts, made by multiplying them; backwards from the last micro-batch to the first."""
    forwards = "".join(f"F{i} " for i in range(m))
    backwards = "".join(f"B{i} " for i in reversed(range(m)))
    return np.array([". " * s + forwards + ". " * (2 * (p - 1 - s)) + backwards for s in range(p)])


def one_stage_less(p: int, m: int) -> list[str]:
    """Recursion: a pipeline of one stage less begins a moment later and ends a moment earlier."""
    first = [f"{kind}{i}" for kind in "FB" for i in range(m)]
    if p == 1:
        return [" ".join(first)]
    gap = ["."] * (2 * (p - 1))
    return [" ".join(first[:m] + gap + first[m:]), *(f". {row}" for row in one_stage_less(p - 1, m))]


# -- 07.1f1b: the order of one stage ------------------------------------------------------------------------------


def as_room_allows(stage: int, p: int, m: int) -> tuple[str, ...]:
    """A loop over what is out: a forward while there is room for one, else the oldest backward."""
    order, out, back = [], 0, 0
    while back < m:
        if out < m and out - back < p - stage:
            order.append(f"F{out}")
            out += 1
        else:
            order.append(f"B{back}")
            back += 1
    return tuple(order)


def sorted_by_moment(stage: int, p: int, m: int) -> list[str]:
    """Every action has a moment at which it would run, and the row is sorted by it."""
    ahead = min(p - 1 - stage, m)
    cells = [(2 * (i - ahead), f"F{i}") for i in range(m)] + [(2 * i + 1, f"B{i}") for i in range(m)]
    return [text for _, text in sorted(cells)]


def from_two_queues(stage: int, p: int, m: int) -> Iterator[str]:
    """A generator that takes from two iterators until both are empty."""
    forwards, backwards = iter([f"F{i}" for i in range(m)]), iter([f"B{i}" for i in range(m)])
    for _ in range(p - 1 - stage):
        yield from (each for each in [next(forwards, None)] if each)
    while True:
        pair = [each for each in (next(forwards, None), next(backwards, None)) if each]
        if not pair:
            return
        yield from pair


def letters_then_numbers(stage: int, p: int, m: int) -> Any:
    """The letters of the row first, and then each one's number by counting; as an array."""
    warm_up = min(p - stage - 1, m)
    letters = "F" * warm_up + "FB" * (m - warm_up) + "B" * warm_up
    return np.array([f"{letter}{letters[:place].count(letter)}" for place, letter in enumerate(letters)])


# -- 07.halves: a backward in two halves --------------------------------------------------------------------------


def by_einsum(x: Tensor, gradient: Tensor, weight: Tensor) -> Any:
    """einsum for both halves, the second as a partial function."""

    def add(left: Tensor, right: Tensor) -> None:
        assert weight.grad is not None
        weight.grad.add_(torch.einsum("so,si->oi", left, right))

    return torch.einsum("so,oi->si", gradient, weight), partial(add, gradient, x)


def sample_by_sample(x: Tensor, gradient: Tensor, weight: Tensor) -> Any:
    """No product of matrices: vectors, one sample after the other."""

    def later() -> None:
        assert weight.grad is not None
        for row, left in zip(x, gradient, strict=True):
            weight.grad += torch.outer(left, row)

    return torch.stack([weight.T @ left for left in gradient]), later


class Waiting:
    """The second half is an object that can be called, and that lets its tensors go when it has been."""

    def __init__(self, x: Tensor, gradient: Tensor, weight: Tensor) -> None:
        self.held: tuple[Tensor, ...] = (x, gradient, weight)

    def __call__(self) -> None:
        x, gradient, weight = self.held
        made = torch.mm(gradient.t(), x)
        weight.grad = made if weight.grad is None else weight.grad + made
        self.held = ()


def by_an_object(x: Tensor, gradient: Tensor, weight: Tensor) -> Any:
    """A list of two, the second an object; a missing gradient is made."""
    return [F.linear(gradient, weight.T), Waiting(x, gradient, weight)]


def by_numpy(x: Tensor, gradient: Tensor, weight: Tensor) -> Any:
    """NumPy computes both halves, on the memory of the tensors."""

    def later() -> None:
        assert weight.grad is not None
        weight.grad.numpy()[...] += gradient.numpy().T @ x.numpy()

    return gradient.numpy() @ weight.numpy(), later


def by_broadcasting(x: Tensor, gradient: Tensor, weight: Tensor) -> Any:
    """Products number by number over a third axis, which is then summed."""
    back = (gradient.unsqueeze(2) * weight.unsqueeze(0)).sum(1)
    return back, lambda: weight.grad.add_((gradient.unsqueeze(2) * x.unsqueeze(1)).sum(0))  # type: ignore[union-attr]


# -- 07.loss: what a micro-batch adds to the mean loss of its batch -----------------------------------------------


def by_share(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    """The piece's own mean, by its share of the samples."""
    return F.cross_entropy(output, target) * len(output) / num_samples


def by_logarithms(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    """log_softmax and the entries at the targets."""
    return -output.log_softmax(dim=1)[torch.arange(len(target)), target].sum() / num_samples


def by_logsumexp(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    """The logarithm of the sum against the target's own output, a sample at a time before the mean."""
    own = output.gather(1, target.unsqueeze(1)).squeeze(1)
    return (output.logsumexp(dim=1) - own).div(num_samples).sum()


def by_one_hot(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    """A product with the targets as rows of zeros and a one; shifted by hand by the largest output."""
    shifted = output - output.amax(dim=1, keepdim=True).detach()
    logarithms = shifted - shifted.exp().sum(dim=1, keepdim=True).log()
    rows = F.one_hot(target, output.shape[1]).to(output)
    return -torch.einsum("sc,sc->", rows, logarithms).reshape(1) / num_samples


def by_a_module(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    """PyTorch's module, one loss a sample, weighted before they are added up."""
    each = torch.nn.CrossEntropyLoss(reduction="none")(output, target)
    return torch.dot(each, torch.full_like(each, 1 / num_samples))


# -- 07.design: a schedule of one's own ---------------------------------------------------------------------------

_BY_LINES = """
rank 0: F0 F1 F2 I0 W0 I1 F3 I2 W1 F4 W2 F5 I3 W3 I4 W4 I5 W5
rank 1: F0 F1 F2 I0 I1 W0 I2 W1 F3 F4 W2 F5 I3 I4 W3 I5 W4 W5
rank 2: F0 F1 I0 F2 I1 I2 W0 W1 W2 F3 F4 I3 F5 I4 I5 W5 W3 W4
rank 3: F0 I0 F1 I1 F2 I2 W0 W1 W2 F3 I3 F4 I4 F5 I5 W3 W5 W4
"""
_SOME_WHOLE = """
f0 f1 f2 i0 w0 i1 f3 i2 w1 f4 w2 f5 i3 w3 i4 w4 b5
f0 f1 f2 i0 i1 w0 i2 w1 f3 w2 f4 f5 i3 i4 w3 i5 w4 w5
f0 f1 i0 f2 i1 i2 w0 w1 w2 f3 f4 i3 f5 i4 i5 w3 w4 w5
f0 i0 f1 i1 f2 i2 w0 w1 w2 f3 i3 f4 i4 f5 i5 w3 w4 w5
"""
_IN_A_SCHEDULE = from_text(
    """
F0 F1 F2 I0 W0 I1 F3 I2 W1 F4 W2 F5 I3 W3 I4 W4 I5 W5
F0 F1 F2 I0 I1 W0 I2 W1 W2 F3 F4 F5 I3 I4 W3 I5 W4 W5
F0 F1 F2 I0 I1 I2 W0 W1 W2 F3 F4 I3 F5 I4 I5 W3 W4 W5
F0 I0 F1 F2 I1 I2 W0 W1 W2 F3 I3 F4 I4 F5 I5 W3 W4 W5
"""
)

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {
    "07.gpipe": (cell_by_cell, moment_by_moment, newest_goes_back_first, one_stage_less),
    "07.1f1b": (as_room_allows, sorted_by_moment, from_two_queues, letters_then_numbers),
    "07.halves": (by_einsum, sample_by_sample, by_an_object, by_numpy, by_broadcasting),
    "07.design": (_BY_LINES, _SOME_WHOLE, _IN_A_SCHEDULE, str(_IN_A_SCHEDULE.aligned())),
    "07.run": runs.ALL,
    "07.sync": syncs.ALL,
    "07.loss": (by_share, by_logarithms, by_logsumexp, by_one_hot, by_a_module),
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "07.search": {
        "2: `rows, free_s, end_s = ([[] for _ in times], [0.0] * p, {})` after `count = [{'F':"
        " 0, 'I': 0, 'W': 0} for _ in times]`": ("The two lines do not need each other."),
        "3: `count = [{'F': 0, 'I': 0, 'W': 0} for _ in times]` after `def ready_s(kind, s):`": (
            "The two lines do not need each other."
        ),
        "9: `if kind == 'F':` after `own = end_s.get(('F' if kind == 'I' else 'I', s, i))`": (
            "The two lines do not need each other."
        ),
        "20: `free_s[s] = end_s[tuple(rows[s][-1])] = start_s + times[s].time_s(kind)` after `count[s][kind] += 1`": (
            "The two lines do not need each other."
        ),
        "21: `count[s][kind] += 1` -> a new name for a new value": "A number has no two names that could differ.",
        "14: `range(3 * p * m)` -> `reversed(range(3 * p * m))`": "The number of a turn is not used.",
        "7: `kind == 'F' and i - count[s]['W'] == max_in_flight` -> `i - count[s]['W'] == max_in_flight`": (
            "An I that can run has its F in flight, so fewer I's than the limit wait for a W."
        ),
        "12: `kind == 'W' or s == p - 1 or own is None` -> `s == p - 1 or own is None`": (
            "The rank was busy with I until I had ended."
        ),
        "12: `kind == 'W' or s == p - 1 or own is None` -> `kind == 'W' or s == p - 1`": (
            "Without F on this stage there is no I on the next."
        ),
        "20: `tuple(rows[s][-1])` -> `rows[s][-1]`": "An Action is a tuple.",
        "2: `0.0` -> `1.0`": "All moments are later by one; the table is the same.",
        "10: `0.0` -> `1.0`": "All moments are later by one; the table is the same.",
        "15: `range(p)` -> `reversed(range(p))`": "The smallest offer does not depend on their order.",
        "16: `max(at, free_s[s])` -> `max(free_s[s], at)`": "Its arguments may stand in either order.",
    },
    "07.gpipe": {
        "3: `behind = num_stages - 1 - stage` after `forwards = [f'F{i}' for i in range(num_micro_batches)]`": (
            "The two lines do not need each other."
        ),
        "4: `forwards = [f'F{i}' for i in range(num_micro_batches)]` after `backwards = [f'B{i}' for i in "
        "range(num_micro_batches)]`": "The two lines do not need each other.",
        "4: `range(num_micro_batches)` -> `reversed(range(num_micro_batches))`": (
            "GPipe fixes no order among micro-batches, and the text does not ask for one: the table runs, in as many "
            "columns."
        ),
        "5: `range(num_micro_batches)` -> `reversed(range(num_micro_batches))`": (
            "GPipe's authors ran the backwards from the last micro-batch to the first; the text leaves it open."
        ),
    },
    "07.1f1b": {
        "1: `min(num_stages - 1 - stage, num_micro_batches)` -> `min(num_micro_batches, num_stages - 1 - stage)`": (
            "The smaller of two numbers is the same in either order."
        ),
        "4: `order += [f'F{warm_up + i}', f'B{i}']` -> a new name for a new value": (
            "The list is the function's own: nobody else sees whether it grows or is made anew."
        ),
    },
}
