"""04.trace_overlap: the time in which a device communicates and computes at once."""

from __future__ import annotations

from itertools import pairwise

from answer_table import Row


def merged(spans):
    apart = []
    for start, end in sorted((start, start + duration) for start, duration in spans):
        if apart and start <= apart[-1][1]:
            apart[-1][1] = max(apart[-1][1], end)
        else:
            apart.append([start, end])
    return apart


def merge_and_share(communication, computing):
    return sum(
        max(0.0, min(end, b) - max(start, a)) for start, end in merged(communication) for a, b in merged(computing)
    )


def two_fingers(communication, computing):
    ones, others, total = merged(communication), merged(computing), 0.0
    i = j = 0
    while i < len(ones) and j < len(others):
        start, end = max(ones[i][0], others[j][0]), min(ones[i][1], others[j][1])
        total += max(0.0, end - start)
        if ones[i][1] < others[j][1]:
            i += 1
        else:
            j += 1
    return total


def by_a_sweep(communication, computing):
    events = [(moment, which, change) for which, spans in enumerate((communication, computing))
              for start, duration in spans for moment, change in ((start, 1), (start + duration, -1))]  # fmt: skip
    open_now, total, before = [0, 0], 0, 0
    for moment, which, change in sorted(events):
        if min(open_now) > 0:
            total += moment - before
        open_now[which] += change
        before = moment
    return total


def by_the_three_unions(communication, computing):
    def length(spans):
        return sum(end - start for start, end in merged(spans))

    return length(communication) + length(computing) - length([*communication, *computing])


def in_torch(communication, computing):
    import torch

    edges = sorted({edge for start, duration in [*communication, *computing] for edge in (start, start + duration)})
    middles = torch.tensor([(left + right) / 2 for left, right in pairwise(edges)], dtype=torch.float64)
    widths = torch.tensor([right - left for left, right in pairwise(edges)], dtype=torch.float64)
    if not len(middles):
        return 0

    def covered(spans):
        is_open = torch.zeros(len(middles), dtype=torch.bool)
        for start, duration in spans:
            is_open |= (start < middles) & (middles < start + duration)
        return is_open

    return float((widths * (covered(communication) & covered(computing))).sum())


def sorts_in_place(communication, computing):
    communication.sort()
    computing.sort()
    return merge_and_share(communication, computing)


seen: list = []


def keeps_the_kernels(communication, computing):
    seen.extend(computing)
    return merge_and_share(communication, seen)


def in_milliseconds(communication, computing):
    return merge_and_share(communication, computing) / 1000


def as_a_share(communication, computing):
    whole = sum(end - start for start, end in merged(communication))
    return merge_and_share(communication, computing) / whole if whole else 0.0


def the_stretches(communication, computing):
    return [
        (max(start, a), min(end, b))
        for start, end in merged(communication)
        for a, b in merged(computing)
        if max(start, a) < min(end, b)
    ]


def first_kernel_of_each_moment(communication, computing):
    total = 0.0
    for start, duration in sorted(communication):
        at = start
        for a, length in sorted(computing):
            at = max(at, a)
            if at < min(a + length, start + duration):
                total += min(a + length, start + duration) - at
                at = min(a + length, start + duration)
    return total


def a_loop_that_takes_the_first_apart(communication, computing):
    (start, duration), *rest = communication
    return merge_and_share([(start, duration), *rest], computing)


def clipped_at_zero(communication, computing):
    return merge_and_share([(max(0.0, s), d) for s, d in communication], [(max(0.0, s), d) for s, d in computing])


ROWS = [
    Row(answer=merge_and_share, verdict="passed", why="both lists merged, then pair by pair"),
    Row(answer=two_fingers, verdict="passed", why="both merged, and walked through once"),
    Row(answer=by_a_sweep, verdict="passed", why="a sweep that counts what is open; whole numbers where nothing is"),
    Row(answer=by_the_three_unions, verdict="passed", why="what both have is what their union lacks"),
    Row(answer=in_torch, verdict="passed", why="pieces between edges, in tensors"),
    Row(
        answer=sorts_in_place,
        verdict="not yet",
        words=("changed what it was given",),
        why="the lists are the caller's",
    ),
    Row(answer=keeps_the_kernels, verdict="not yet", why="a second trace meets the first one's kernels"),
    Row(answer=in_milliseconds, verdict="not yet", why="microseconds were asked for"),
    Row(answer=as_a_share, verdict="not yet", why="a time was asked for"),
    Row(answer=the_stretches, verdict="not yet", words=("number",), why="a time was asked for"),
    Row(
        answer=first_kernel_of_each_moment,
        verdict="not yet",
        mistake="communication-twice",
        why="two all-reduces at once",
    ),
    Row(
        answer=a_loop_that_takes_the_first_apart,
        verdict="raised",
        words=("no communication",),
        why="a list without spans",
    ),
    Row(answer=clipped_at_zero, verdict="not yet", why="a clock may begin below zero"),
]
