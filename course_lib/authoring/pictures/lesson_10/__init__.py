"""The pictures of lesson 10: a file for each part.

In the order to read:

- ``balance.py``: pictures of a causal sequence among ranks
- ``building.py``: the pictures of a ring, and of a layer of experts, that are to be built
- ``busy.py``: pictures of experts that are equally busy or not, of two levers on a router, and of an expert that is
  full
- ``experts.py``: pictures of a layer of experts
- ``explorer.py``: the picture above the context explorer
- ``packed.py``: a picture of a packed sequence
- ``ring.py``: pictures of a sequence that is cut among ranks, and of keys and values that go round
- ``small.py``: the picture of a token that goes to a node once
"""

from course_lib.authoring.pictures.lesson_10 import balance, building, busy, experts, packed, ring, small
from course_lib.authoring.pictures.lesson_10.explorer import explorer
from course_lib.authoring.pictures.sketch import Drawings

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
    "once_a_node": small.once_a_node,
    "packed": packed.mask,
    "ring_to_build": building.ring_to_build,
    "experts_to_build": building.experts_to_build,
}
