"""Usual wrong answers to 11.cheapest, each with what it mixes up."""

from __future__ import annotations

from typing import Any

from course_lib.learn.catalogue.exercise import Mistake

__all__ = ["MISTAKES"]

Row = tuple[int, float, float]
Found = tuple[int, float, float] | None
_DAY_S = 86_400


def _answer(
    rows: list[Row],
    tokens: int,
    step_tokens: int,
    price: float,
    most_days: float,
    gpu_bytes: float,
    *,
    rounded: str = "up",
    asks_time: str = "in time",
    asks_memory: str = "fits",
    counts_gpus: bool = True,
    unit_s: float = 3600,
    chosen_by: str = "cost",
    ties: str = "sooner",
    habit: str = "possible",
    regret: str = "share",
    none: Any = None,
) -> Found:
    """The right answer, with one thing wrong."""
    exact = tokens / step_tokens
    steps = {"up": -(-tokens // step_tokens), "down": tokens // step_tokens, "not": exact}[rounded]
    every = []
    for number, (gpus, step_s, needed_bytes) in enumerate(rows):
        total_s = steps * step_s
        cost = (gpus if counts_gpus else 1) * total_s / unit_s * price
        late = {"in time": total_s > most_days * _DAY_S, "before": total_s >= most_days * _DAY_S}
        room_bytes = gpu_bytes * (gpus if asks_memory == "in all" else 1)
        large = {"fits": needed_bytes > room_bytes, "below": needed_bytes >= room_bytes}
        large["in all"] = large["fits"]
        possible = not late.get(asks_time, False) and not large.get(asks_memory, False)
        every.append((cost, total_s, number, gpus, possible))
    if not (kept := [one for one in every if one[4]]):
        return none
    orders: dict[str, Any] = {
        "cost": lambda one: (one[0], *((one[1], one[2]) if ties == "sooner" else (one[2],))),
        "last": lambda one: (one[0], one[1], -one[2]),
        "time": lambda one: (one[1], one[0], one[2]),
        "gpus": lambda one: (one[3], one[0], one[1], one[2]),
    }
    cost, total_s, number, *_ = min(kept, key=orders[chosen_by])
    most = max(one[3] for one in (every if habit == "all" else kept))
    fastest = [min(kept, key=lambda one: one[1])]
    by_habit = [one for one in (every if habit == "all" else kept) if one[3] == most]
    by_habit = fastest if habit == "fastest" else by_habit
    other = by_habit[0] if habit == "first" else min(by_habit)
    least, more = (total_s, other[1]) if regret == "time" else (cost, other[0])
    shares = {"of the habit": (more - least) / more, "times": more / least, "money": more - least}
    return number, cost, shares.get(regret, more / least - 1)


def _slip(**slips: Any) -> Any:
    def answer(
        rows: list[Row], tokens: int, step_tokens: int, price: float, most_days: float, gpu_bytes: float
    ) -> Found:
        return _answer(rows, tokens, step_tokens, price, most_days, gpu_bytes, **slips)

    return answer


MISTAKES = (
    Mistake(
        "quickest",
        "You take the quickest row. It is in time, and so are others that cost less: time that is left before the "
        "deadline has no value here.",
        _slip(chosen_by="time"),
    ),
    Mistake(
        "fewest-gpus",
        "You take the fewest GPUs that will do. They cost less by the hour, but need more hours: multiply both.",
        _slip(chosen_by="gpus"),
    ),
    Mistake(
        "any-time",
        "In your answer the deadline makes no difference: your row may end too late.",
        _slip(asks_time="never"),
    ),
    Mistake(
        "any-memory",
        "In your answer the memory makes no difference: your row may need more bytes than a GPU has.",
        _slip(asks_memory="never"),
    ),
    Mistake(
        "memory-of-all",
        "The bytes of a row are those of its fullest GPU, and you compare them with the memory of all its GPUs.",
        _slip(asks_memory="in all"),
    ),
    Mistake(
        "before-the-deadline",
        "A training that takes exactly `most_days` is in time.",
        _slip(asks_time="before"),
    ),
    Mistake(
        "below-the-memory",
        "A row that needs exactly `gpu_bytes` fits.",
        _slip(asks_memory="below"),
    ),
    Mistake(
        "steps-not-rounded",
        "The last step may not be full, and takes as long as any other: round the number of steps up.",
        _slip(rounded="not"),
    ),
    Mistake(
        "steps-rounded-down",
        "The number of steps is rounded down, so the last tokens are never seen. Round up.",
        _slip(rounded="down"),
    ),
    Mistake(
        "one-gpu-paid",
        "You pay for one GPU. The price is that of a GPU hour, and a row takes `gpus` of them for the whole time.",
        _slip(counts_gpus=False),
    ),
    Mistake(
        "price-a-second",
        "The price is that of an hour, and you multiply it by seconds. An hour has 3,600.",
        _slip(unit_s=1),
    ),
    Mistake(
        "price-a-day",
        "The price is that of an hour, and you multiply it by days.",
        _slip(unit_s=_DAY_S),
    ),
    Mistake(
        "equal-cost-first",
        "Where rows cost the same, you take the first. Take the one that is done sooner.",
        _slip(ties="first"),
    ),
    Mistake(
        "equal-rows-last",
        "Where cost and time are equal, you take the last row. Take the first.",
        _slip(chosen_by="last"),
    ),
    Mistake(
        "habit-with-all-rows",
        "Your row is right. For the habit you look at all rows, also at those that do not fit or are late: no job "
        "could use them.",
        _slip(habit="all"),
    ),
    Mistake(
        "habit-takes-the-first",
        "Your row is right. Where several rows have the most GPUs, the habit takes the quickest of them; you take "
        "another.",
        _slip(habit="first"),
    ),
    Mistake(
        "habit-takes-the-quickest",
        "Your row is right. The habit takes the most GPUs; you compare with the quickest row, which may have fewer.",
        _slip(habit="fastest"),
    ),
    Mistake(
        "share-of-the-habit",
        "Your row is right. The regret is a share of the least cost; you divide by what the habit costs.",
        _slip(regret="of the habit"),
    ),
    Mistake(
        "times-the-least",
        "Your row is right. You give the habit's cost in multiples of the least cost. The regret is only what is paid "
        "too much: 1 less.",
        _slip(regret="times"),
    ),
    Mistake(
        "regret-in-money",
        "Your row is right. You give the regret in money; give it as a share of the least cost.",
        _slip(regret="money"),
    ),
    Mistake(
        "regret-of-time",
        "Your row is right. The regret compares seconds; it should compare costs.",
        _slip(regret="time"),
    ),
    Mistake(
        "zeros-for-none",
        "Where no row fits and ends in time, you return zeros: that reads as row 0, for nothing. Return None.",
        _slip(none=(0, 0.0, 0.0)),
    ),
)
