"""An independent judge of pipeline schedules, and a way to break them: what ``validate`` is held against."""

from __future__ import annotations

import random
from collections import deque

from course_lib.schedules import Action, Overlap, Schedule
from course_lib.schedules.action import actions_in

A = Action


def runs(schedule: Schedule) -> bool:
    """An independent judge: ranks with mailboxes, in which messages lie in order and carry a note for the judge.

    Every rank runs its row; a rank that needs a message takes the next one from the mailbox of its sender and kind.
    """
    s_last, m, rank_of = schedule.num_stages - 1, schedule.num_micro_batches, schedule.rank_of_stage
    boxes: dict[tuple, deque] = {}
    kept = [set() for _ in schedule.rows]  # what a rank has of its own
    places = [0] * schedule.num_ranks
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(schedule.in_cells):
            while places[rank] < len(row):
                cell = row[places[rank]]
                if len(cell) == 2 and [action.kind for action in cell] != ["F", "B"]:
                    return False
                needed = []  # the mailbox of each message of the cell, and what must lie there
                for kind, s, i in cell:
                    if not (kind in "FBIW" and 0 <= s <= s_last and 0 <= i < m and rank_of[s] == rank):
                        return False
                    source = {"F": s - 1, "B": s + 1, "I": s + 1}.get(kind)
                    what = "act" if kind == "F" else "grad"
                    if source is not None and 0 <= source <= s_last:
                        if rank_of[source] != rank:
                            box = boxes.setdefault((rank_of[source], rank, what), deque())
                            needed.append((box, (s, i)))
                        elif (what, s, i) not in kept[rank]:
                            return False
                if not all(box for box, _ in needed):
                    break  # waits
                if any(box.popleft() != expected for box, expected in needed):
                    return False
                made, sent = set(), []  # they are there when the cell has ended
                for kind, s, i in cell:
                    if (kind, s, i) in kept[rank]:
                        return False
                    if kind in "BI" and (("F", s, i) not in kept[rank] or {("B", s, i), ("I", s, i)} & kept[rank]):
                        return False
                    if kind == "W" and ("I", s, i) not in kept[rank]:
                        return False
                    made.add((kind, s, i))
                    goal = {"F": s + 1, "B": s - 1, "I": s - 1}.get(kind)
                    what = "act" if kind == "F" else "grad"
                    if goal is not None and 0 <= goal <= s_last:
                        if rank_of[goal] == rank:
                            made.add((what, goal, i))
                        else:
                            sent.append(((rank, rank_of[goal], what), (goal, i)))
                kept[rank] |= made
                for key, message in sent:
                    boxes.setdefault(key, deque()).append(message)
                places[rank] += 1
                moved = True
    if any(place < len(row) for place, row in zip(places, schedule.in_cells, strict=True)):
        return False
    for s in range(s_last + 1):
        mine = kept[rank_of[s]]
        for i in range(m):
            halves = {("I", s, i), ("W", s, i)} <= mine
            if ("F", s, i) not in mine or not (("B", s, i) in mine or halves):
                return False
    return True


def broken(schedule: Schedule, rng: random.Random) -> Schedule:
    """The schedule with one cell moved, dropped, doubled, given to another rank or changed, or two put together."""
    rows = [[cell for cell in row if cell] for row in schedule.actions]
    rank = rng.randrange(len(rows))
    row = rows[rank]
    at, other = rng.randrange(len(row)), rng.randrange(len(row))
    how = rng.choice(["swap", "neighbours", "move", "drop", "double", "give away", "change", "overlap"])
    if how == "swap":
        row[at], row[other] = row[other], row[at]
    elif how == "neighbours":
        at = min(at, len(row) - 2)
        row[at : at + 2] = reversed(row[at : at + 2])
    elif how == "move":
        row.insert(other, row.pop(at))
    elif how == "drop":
        del row[at]
    elif how == "double":
        row.insert(other, row[at])
    elif how == "give away":
        rng.choice(rows).append(row.pop(at))
    elif isinstance(row[at], Overlap):
        row[at : at + 1] = rng.choice([row[at], reversed(row[at])])
    elif how == "overlap":
        at = min(at, len(row) - 2)
        both = [action for cell in row[at : at + 2] for action in actions_in(cell)]
        row[at : at + 2] = [Overlap(*rng.choice([both[:2], both[1::-1]])), *both[2:]]
    else:
        kind, stage, i = row[at]
        row[at] = rng.choice(
            [A(rng.choice("FBIWX"), stage, i), A(kind, stage + rng.choice([-1, 1]), i), A(kind, stage, i + 1)]
        )
    return schedule.with_actions(rows)
