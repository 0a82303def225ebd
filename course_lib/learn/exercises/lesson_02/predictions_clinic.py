"""Lesson 02's three clinics: what is asked before the evidence, and told after it."""

from __future__ import annotations

from course_lib.learn.asked import Asked, Told

__all__ = ["CLINICS"]

_POLITE = (
    "a rank never came",
    "all send, nobody receives",
    "two ranks call different collectives",
    "the tensors differ in shape",
)


def _deadlock() -> Told:
    return Told(
        measured=_POLITE[1],
        label="the evidence says",
        because="All four stand at the same line, the sending one. Each waits until its message is taken, and the line "
        "that would take it comes next. Neither library buffers a message for a rank that is not there yet.",
        misreadings={
            _POLITE[0]: "Then one rank would stand elsewhere, or have returned. All are at the same line.",
            _POLITE[2]: "There is no collective in this code.",
            _POLITE[
                3
            ]: "All tensors have five numbers, and the evidence shows no message that was ever taken.",
        },
    )


_EPOCH = (
    "rank 0 never came",
    "rank 0 calls in another order",
    "the weights are too large to send",
    "only rank 0 returns something",
)


def _mismatch() -> Told:
    return Told(
        measured=_EPOCH[1],
        label="the evidence says",
        because="Every rank makes both calls, and all of them have come to a call number 1; but for rank 0 that is a "
        "broadcast. Collectives have no names: the first call of one rank meets the first call of the others.",
        misreadings={
            _EPOCH[0]: "It did come: it waits in its call #1, a broadcast. Look at the others' call #1.",
            _EPOCH[2]: "Four numbers are not too large, and size alone stops nobody.",
            _EPOCH[3]: "What a function returns is its own business; nobody waits for it.",
        },
    )


_BROKEN = (
    "rank 1 is slow",
    "rank 1 was killed",
    "rank 1 has made one call fewer",
    "all_reduce cannot add what is not a number",
)


def _skip() -> Told:
    return Told(
        measured=_BROKEN[2],
        label="the evidence says",
        because="Rank 1 had returned after all_reduce #2, the others wait in #3. Rank 1 skipped a batch, and with it a "
        "call. The `if` asks about a loss that only rank 1 has seen.",
        misreadings={
            _BROKEN[0]: "A slow rank still runs. The table says that it had returned.",
            _BROKEN[1]: "A rank that was killed is reported as such. This one returned in good order.",
            _BROKEN[3]: "It can: the sum is not a number either. And the broken loss was never given to it.",
        },
    )


CLINICS = (
    Asked(name="02.deadlock", question="Why does nothing move?", choices=_POLITE, tell=_deadlock),
    Asked(name="02.mismatch", question="Why does the job hang?", choices=_EPOCH, tell=_mismatch),
    Asked(name="02.skip", question="Why does the job hang?", choices=_BROKEN, tell=_skip),
)
