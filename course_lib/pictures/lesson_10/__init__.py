"""The pictures of lesson 10: a file for each part."""

from course_lib.pictures.lesson_10 import balance, busy, experts, ring
from course_lib.pictures.lesson_10.explorer import explorer
from course_lib.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "quarters": ring.quarters,
    "two_sides": ring.two_sides,
    "round": ring.round_and_round,
    "mask": balance.mask,
    "numbers": balance.numbers,
    "heads": balance.heads,
    "explorer": explorer,
    "mixture": experts.mixture,
    "shared_out": experts.shared_out,
    "journey": experts.journey,
    "queues": busy.queues,
    "levers": busy.levers,
    "room": busy.room,
}
