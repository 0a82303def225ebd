"""07.search: programs that make a schedule under a limit, in many styles, and what people write on the way."""

from __future__ import annotations

import heapq
import itertools
import random
from functools import cache, partial

from answer_table import Row

from course_lib.cost import simulate
from course_lib.schedules import Action, Schedule, StageTimes, gpipe, one_f_one_b, placement


def made_of(rows, m):
    return Schedule("mine", m, placement(len(rows)), tuple(map(tuple, rows)))


def by_rule(times, m, limit, *, order="IFW", until="W", extra=0, at_once=False, turn=None, duration=StageTimes.time_s):
    """Of all that may come next the one that starts first; every mistake is one word away from here."""
    p = len(times)
    rows, count, end, free = [[] for _ in times], {k: [0] * p for k in "FIW"}, {}, [0.0] * p

    def ready(k, s):
        i = count[k][s]
        if i == m or (at_once and k != "W" and count["W"][s] < count["I"][s]):
            return None
        if k == "F":
            full = i - count[until][s] >= limit + extra
            return None if full else 0.0 if s == 0 else end.get(("F", s - 1, i))
        if k == "W":
            return end.get(("I", s, i))
        own = end.get(("F", s, i))
        return own if s == p - 1 or own is None else end.get(("I", s + 1, i))

    for _ in range(3 * p * m):
        offers = [
            (max(at, free[s]), order.index(k) if turn is None else turn(k, s), s, k)
            for s in range(p)
            for k in "FIW"
            if (at := ready(k, s)) is not None
        ]
        start, _, s, k = min(offers)
        i = count[k][s]
        rows[s].append(Action(k, s, i))
        count[k][s] += 1
        free[s] = end[k, s, i] = start + duration(times[s], k)
    return made_of(rows, m)


def plain(times, num_micro_batches, max_in_flight):
    return by_rule(times, num_micro_batches, max_in_flight)


def by_a_clock(times, num_micro_batches, max_in_flight):
    """A clock goes from end to end; at each moment every free rank takes the first kind that it can run."""
    p, m = len(times), num_micro_batches
    rows, done, busy, clock = [[] for _ in times], set(), [None] * p, 0.0

    def could(rank, kind):
        i = sum(action.kind == kind for action in rows[rank])
        if i == m:
            return None
        if kind == "F":
            held = sum((a.kind == "F") - (a.kind == "W") for a in rows[rank])
            fine = held < max_in_flight and (rank == 0 or ("F", rank - 1, i) in done)
        elif kind == "I":
            fine = ("F", rank, i) in done and (rank == p - 1 or ("I", rank + 1, i) in done)
        else:
            fine = ("I", rank, i) in done
        return Action(kind, rank, i) if fine else None

    while len(done) < 3 * p * m:
        for rank in range(p):
            if busy[rank] is None:
                action = next((a for k in "IFW" if (a := could(rank, k))), None)
                if action is not None:
                    rows[rank].append(action)
                    busy[rank] = clock + times[rank].time_s(action.kind), action
        clock = min(one[0] for one in busy if one)
        for rank, one in enumerate(busy):
            if one and one[0] <= clock + 1e-12:
                done.add(tuple(one[1]))
                busy[rank] = None
    return made_of(rows, m)


def by_a_heap(times, num_micro_batches, max_in_flight):
    """Events in a heap: a rank that is free looks again, and so do its neighbours."""
    p, m = len(times), num_micro_batches
    rows, count, end, free = [[] for _ in times], [dict.fromkeys("FIW", 0) for _ in times], {}, [0.0] * p
    heap = [(0.0, 1, rank) for rank in range(p)]
    while heap:
        now, _, rank = heapq.heappop(heap)
        if free[rank] > now:
            continue
        c = count[rank]
        needs = {
            "I": c["I"] < c["F"] and (rank == p - 1 or end.get(("I", rank + 1, c["I"]), 1e9) <= now),
            "F": c["F"] < m
            and c["F"] - c["W"] < max_in_flight
            and (rank == 0 or end.get(("F", rank - 1, c["F"]), 1e9) <= now),
            "W": c["W"] < c["I"],
        }
        kind = next((k for k in "IFW" if needs[k]), None)
        if kind is None:
            continue
        action = Action(kind, rank, c[kind])
        rows[rank].append(action)
        c[kind] += 1
        free[rank] = end[tuple(action)] = now + times[rank].time_s(kind)
        for other in {rank, max(0, rank - 1), min(p - 1, rank + 1)}:
            heapq.heappush(heap, (free[rank], 1, other))
            heapq.heappush(heap, (max(free[other], free[rank]), 2, other))
    return made_of(rows, m)


def by_recursion(times, num_micro_batches, max_in_flight):
    """When an action ends is a function of what stands before it; rows are grown by the one that starts first."""
    p, m = len(times), num_micro_batches

    def grow(rows, ends, frees):
        if len(ends) == 3 * p * m:
            return rows
        found = []
        for s, row in enumerate(rows):
            kinds = [a.kind for a in row]
            n = {k: kinds.count(k) for k in "FIW"}
            if n["I"] < n["F"] and (s == p - 1 or ("I", s + 1, n["I"]) in ends):
                needs = ends["F", s, n["I"]] if s == p - 1 else ends["I", s + 1, n["I"]]
                found.append((max(frees[s], needs), 0, s, "I", n["I"]))
            if n["F"] < m and n["F"] - n["W"] < max_in_flight and (s == 0 or ("F", s - 1, n["F"]) in ends):
                needs = ends["F", s - 1, n["F"]] if s else 0.0
                found.append((max(frees[s], needs), 1, s, "F", n["F"]))
            if n["W"] < n["I"]:
                found.append((frees[s], 2, s, "W", n["W"]))
        at, _, s, k, i = min(found)
        end = at + times[s].time_s(k)
        rows = [[*row, Action(k, s, i)] if s == stage else row for stage, row in enumerate(rows)]
        return grow(rows, {**ends, (k, s, i): end}, [end if s == r else f for r, f in enumerate(frees)])

    return made_of(grow([[] for _ in times], {}, [0.0] * p), m)


def best_of_several(times, num_micro_batches, max_in_flight):
    tables = [
        by_rule(times, num_micro_batches, limit, order="".join(order))
        for order in itertools.permutations("FIW")
        for limit in {max_in_flight, max(1, max_in_flight - 1)}
    ]
    return min(tables, key=lambda table: simulate(table, times).makespan_s)


def restarts(times, num_micro_batches, max_in_flight):
    draw, best = random.Random(0), None
    for trial in range(8):
        turn = (lambda k, s: "IFW".index(k)) if not trial else lambda k, s: "IFW".index(k) + 1.5 * draw.random()
        table = by_rule(times, num_micro_batches, max_in_flight, turn=turn)
        step = simulate(table, times).makespan_s
        if best is None or step < best[0]:
            best = step, table
    return best[1]


def with_idle_cells(times, num_micro_batches, max_in_flight):
    table = by_rule(times, num_micro_batches, max_in_flight)
    return table.aligned()


KEPT = {}


def kept_by_all(times, num_micro_batches, max_in_flight):
    """A table is kept, and found again by all that it was made for."""
    key = tuple(times), num_micro_batches, max_in_flight
    if key not in KEPT:
        KEPT[key] = plain(*key)
    return KEPT[key]


# -- wrong ------------------------------------------------------------------------------------------------------


def rule(**settings):
    return partial(by_rule, **settings)


def ignores_limit(times, m, limit):
    return by_rule(times, m, m)


def all_ones(times, m, limit):
    return by_rule([StageTimes(1, 1, 1)] * len(times), m, limit)


def first_stage_alone(times, m, limit):
    return by_rule([times[0]] * len(times), m, limit)


SHAPES = {}


def kept_by_shape(times, m, limit):
    key = len(times), m, limit
    if key not in SHAPES:
        SHAPES[key] = by_rule(times, m, limit)
    return SHAPES[key]


@cache
def _row_numbers(m, limit):
    return by_rule([StageTimes(1, 1, 1)] * 4, m, limit)


def always_four_ranks(times, m, limit):
    return _row_numbers(m, limit)


def the_course_1f1b(times, m, limit):
    return one_f_one_b(len(times), m)


def one_micro_batch_more(times, m, limit):
    return by_rule(times, m + 1, limit)


def sorts_its_input(times, m, limit):
    made = by_rule(times, m, limit)
    times.sort(key=lambda one: one.forward_s)
    return made


def pops_its_input(times, m, limit):
    copy = []
    while times:
        copy.append(times.pop(0))
    return by_rule(copy, m, limit)


def stuck_at_one(times, m, limit):
    """It wants room for a second forward before it lets the first one go."""
    if limit < 2:
        raise RuntimeError("nothing can start")
    return by_rule(times, m, limit)


def needs_two_ranks(times, m, limit):
    assert len(times) > 1, "no pipeline"
    return by_rule(times, m, limit)


def fills_first(times, m, limit):
    """As many forwards as ranks before anything else, whether there are so many or not."""
    rows = []
    for s in range(len(times)):
        row = [Action("F", s, i) for i in range(len(times) - s)]
        for i in range(m):
            row += [Action("I", s, i), Action("W", s, i)]
            row += [Action("F", s, len(times) - s + i)] if len(times) - s + i < m else []
        rows.append(row)
    return made_of(rows, m)


def text_of_it(times, m, limit):
    return str(by_rule(times, m, limit))


def last_w_is_missing(times, m, limit):
    made = by_rule(times, m, limit)
    return made_of([list(row)[:-1] for row in made.rows], m)


def on_ranks_in_reverse(times, m, limit):
    made = by_rule(times, m, limit)
    p = len(times)
    return Schedule("reverse", m, tuple(range(p - 1, -1, -1)), tuple(reversed(made.rows)))


def one_after_the_other(times, m, limit):
    return by_rule(times, m, 1)


def gpipe_of_it(times, m, limit):
    return gpipe(len(times), m)


def by_the_course(times, m, limit):
    from course_lib.schedules import list_schedule

    return list_schedule(times, m, limit)


def by_the_published(times, m, limit):
    from course_lib.schedules import zero_bubble_auto

    return zero_bubble_auto(len(times), m, limit, times=times[0])


def mean_of_kinds(times, m, limit):
    """One time for all actions of a stage: their mean."""
    return by_rule(times, m, limit, duration=lambda own, k: (own.forward_s + own.input_s + own.weight_s) / 3)


def stage_by_stage(times, m, limit):
    """In rounds: F of all ranks, then I and W, a group of as many as may be in flight."""
    rows = [[] for _ in times]
    for begin in range(0, m, limit):
        group = range(begin, min(m, begin + limit))
        for s, row in enumerate(rows):
            row += [Action("F", s, i) for i in group]
            row += [Action(k, s, i) for k in "IW" for i in group]
    return made_of(rows, m)


def one_less(times, m, limit):
    return by_rule(times, m, max(1, limit - 1))


def backwards_of_forwards(times, m, limit):
    """I and W by the time of F alone."""
    return by_rule(times, m, limit, duration=lambda own, k: own.forward_s)


def times_in_reverse(times, m, limit):
    return by_rule(list(reversed(times)), m, limit)


def w_takes_no_time(times, m, limit):
    return by_rule(times, m, limit, duration=lambda own, k: 0.0 if k == "W" else own.time_s(k))


def prints_alone(times, m, limit):
    print(by_rule(times, m, limit))


RIGHT = {
    plain: "the action that starts first, I before F before W",
    by_a_clock: "a simulation by a clock",
    by_a_heap: "events in a heap",
    by_recursion: "tables that are never changed",
    best_of_several: "the best of twelve tables",
    restarts: "the best of eight, by a seed of its own",
    with_idle_cells: "idle cells change nothing",
    kept_by_all: "what is kept is kept by all that it depends on",
}

ROWS = [
    *(Row(answer=answer, verdict="passed", why=why) for answer, why in RIGHT.items()),
    Row(
        answer=rule(until="I"),
        verdict="not yet",
        why="I lets nothing go that W needs",
        mistake="counts-until-i",
        words=("may be",),
    ),
    Row(answer=rule(extra=1), verdict="not yet", why="one more than the limit", mistake="one-too-many"),
    Row(answer=ignores_limit, verdict="not yet", why="the limit changes nothing", mistake="same-at-each-limit"),
    Row(answer=rule(extra=2), verdict="not yet", why="two more than the limit", mistake="over-the-limit"),
    Row(answer=all_ones, verdict="not yet", why="times are not looked at", mistake="same-for-all-times"),
    Row(answer=kept_by_shape, verdict="not yet", why="kept by numbers alone", mistake="same-for-all-times"),
    Row(answer=first_stage_alone, verdict="not yet", why="all as the first", mistake="as-the-first-stage"),
    Row(answer=rule(at_once=True), verdict="not yet", why="W follows I", mistake="w-at-once", words=("could begin",)),
    Row(answer=rule(order="WIF"), verdict="not yet", why="W first is W at once", mistake="w-at-once"),
    Row(answer=rule(order="FIW"), verdict="not yet", why="F goes before I", mistake="f-before-i"),
    Row(answer=rule(order="IWF"), verdict="not yet", why="W goes before F", mistake="w-before-others"),
    Row(answer=rule(order="FWI"), verdict="not yet", why="I comes last", mistake="f-before-i"),
    Row(answer=the_course_1f1b, verdict="not yet", why="backwards are whole", mistake="whole-backwards"),
    Row(answer=gpipe_of_it, verdict="not yet", why="backwards are whole", mistake="whole-backwards"),
    Row(answer=one_micro_batch_more, verdict="not yet", why="another table", mistake="another-size"),
    Row(answer=always_four_ranks, verdict="not yet", why="ranks are counted by times", mistake="another-size"),
    Row(answer=on_ranks_in_reverse, verdict="not yet", why="stage s is on rank s", mistake="another-size"),
    Row(answer=sorts_its_input, verdict="not yet", why="the list is another", words=("changed what it was given",)),
    Row(answer=pops_its_input, verdict="not yet", why="the list is empty", words=("changed what it was given",)),
    Row(answer=stuck_at_one, verdict="raised", why="a limit of one lets nothing begin", words=("limit 1",)),
    Row(answer=needs_two_ranks, verdict="raised", why="one rank is a pipeline as well", words=("1 rank",)),
    Row(answer=fills_first, verdict="not yet", why="memory and few micro-batches are forgotten", unsaid=("too long",)),
    Row(answer=text_of_it, verdict="not yet", why="a text is no Schedule", words=("expected a Schedule",)),
    Row(answer=prints_alone, verdict="not yet", why="nothing is returned"),
    Row(answer=last_w_is_missing, verdict="not yet", why="an action is missing", unsaid=("too long",)),
    Row(answer=one_after_the_other, verdict="not yet", why="room is left empty", mistake=None),
    Row(answer=stage_by_stage, verdict="not yet", why="in groups", mistake=None),
    Row(answer=by_the_course, verdict="forbidden", why="the course's own"),
    Row(answer=by_the_published, verdict="forbidden", why="a ready one"),
    Row(
        answer=one_less,
        verdict="not yet",
        why="room for one is left empty",
        mistake="w-before-others",
        words=("F3 could begin",),
    ),
    Row(answer=backwards_of_forwards, verdict="not yet", why="I and W have times of their own", mistake=None),
    Row(answer=times_in_reverse, verdict="not yet", why="the first time is the first stage's", mistake=None),
    Row(answer=w_takes_no_time, verdict="not yet", why="W takes time", mistake=None),
    Row(answer=mean_of_kinds, verdict="not yet", why="I and W differ", unsaid=("first",)),
    Row(
        answer=rule(extra=-1), verdict="not yet", why="room for one is left empty, and one alone starves", mistake=None
    ),
]
