"""Right answers to 11.cheapest in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

__all__ = ["ANSWERS", "SAME"]

Row = tuple[int, float, float]


def by_sorting(rows: list[Row], tokens: int, step_tokens: int, price: float, most_days: float, gpu_bytes: float) -> Any:
    """Hours, a stable sort, and dictionaries."""
    steps = math.ceil(tokens / step_tokens)
    kept = []
    for number, (gpus, step_s, needed) in enumerate(rows):
        hours = steps * step_s / 3600
        if needed > gpu_bytes or hours > 24 * most_days:
            continue
        kept.append({"row": number, "gpus": gpus, "hours": hours, "cost": hours * gpus * price})
    if len(kept) == 0:
        return None
    kept.sort(key=lambda one: one["hours"])
    kept.sort(key=lambda one: one["cost"])
    largest = max(one["gpus"] for one in kept)
    all_gpus = next(one for one in kept if one["gpus"] == largest)
    return [kept[0]["row"], kept[0]["cost"], (all_gpus["cost"] - kept[0]["cost"]) / kept[0]["cost"]]


def by_numpy(rows: list[Row], tokens: int, step_tokens: int, price: float, most_days: float, gpu_bytes: float) -> Any:
    if not rows:
        return None
    gpus, step_s, needed = np.array(rows, dtype=float).T
    steps = (tokens + step_tokens - 1) // step_tokens
    seconds = step_s * steps
    costs = np.where((needed <= gpu_bytes) & (seconds <= 86400 * most_days), gpus * seconds * price / 3600, np.inf)
    if np.isinf(costs).all():
        return None
    number = np.lexsort((seconds, costs))[0]
    possible = np.flatnonzero(np.isfinite(costs))
    habit = costs[possible[gpus[possible] == gpus[possible].max()]].min()
    return number, costs[number], habit / costs[number] - 1


def by_one_pass(
    rows: list[Row], tokens: int, step_tokens: int, price: float, most_days: float, gpu_bytes: float
) -> Any:
    """Bests so far, in GPU seconds; money comes at the end."""
    steps, rest = divmod(tokens, step_tokens)
    steps += rest != 0
    best: tuple[float, float, int] | None = None
    largest: tuple[int, float] | None = None
    for number, (gpus, step_s, needed) in enumerate(rows):
        if needed <= gpu_bytes and steps * step_s <= most_days * 24 * 3600:
            used = gpus * step_s
            if best is None or (used, step_s) < best[:2]:
                best = (used, step_s, number)
            if largest is None or gpus > largest[0] or (gpus == largest[0] and used < largest[1]):
                largest = (gpus, used)
    if best is None or largest is None:
        return None
    return best[2], best[0] * steps / 3600 * price, largest[1] / best[0] - 1


def by_keys(rows: list[Row], tokens: int, step_tokens: int, price: float, most_days: float, gpu_bytes: float) -> Any:
    """Numbers of rows, and functions of them."""
    steps = -(-tokens // step_tokens)

    def seconds(number: int) -> float:
        return steps * rows[number][1]

    def cost(number: int) -> float:
        return rows[number][0] * seconds(number) * price / 3600

    possible = [n for n in range(len(rows)) if rows[n][2] <= gpu_bytes and seconds(n) <= most_days * 86400]
    if possible:
        chosen = min(possible, key=lambda n: (cost(n), seconds(n)))
        habit = max(possible, key=lambda n: (rows[n][0], -seconds(n)))
        return chosen, cost(chosen), (cost(habit) - cost(chosen)) / cost(chosen)
    return None


def by_torch(rows: list[Row], tokens: int, step_tokens: int, price: float, most_days: float, gpu_bytes: float) -> Any:
    """Columns as tensors of float64; what does not do costs infinitely much."""
    table = torch.tensor(rows, dtype=torch.float64).reshape(-1, 3)
    gpus, seconds = table[:, 0], table[:, 1] * math.ceil(tokens / step_tokens)
    will_do = (table[:, 2] <= gpu_bytes) & (seconds <= most_days * 86400)
    if not will_do.any():
        return None
    costs = torch.where(will_do, gpus * seconds / 3600 * price, torch.inf)
    cheapest = costs == costs.min()
    number = torch.where(cheapest, seconds, torch.inf).argmin()
    most = gpus[will_do].max()
    habit = costs[will_do & (gpus == most)].min()
    return number.item(), costs[number].item(), (habit / costs[number] - 1).item()


ANSWERS = (by_sorting, by_numpy, by_one_pass, by_keys, by_torch)
SAME: dict[str, str] = {
    "8: `cost_of_it, _, chosen = min(possible)` after `most = max((rows[number][0] for *_, number in possible))`": (
        "Neither of the two lines needs the other."
    ),
    "5: `possible.append((gpus * total_s / 3600 * price, total_s, number))` -> "
    "`possible.insert(0, (gpus * total_s / 3600 * price, total_s, number))`": (
        "The least and the most of a list are the same in any order of it; equal rows are told apart by their number."
    ),
}
