"""Lesson 02's clinics, and when a collective is over: what is asked before the evidence, and told after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["CLINICS"]

_LINES = ("all_reduce(..., async_op=True)", "work.wait()", "tensor[-1].item()")


def _returns(lines_s: Sequence[float], device_type: str) -> Explanation:
    """``lines_s``: what each of the three lines took on rank 0."""
    on_cpu = (
        "The call has given the work to a thread of gloo, and wait() stays until it is done. On a GPU, wait() "
        "would return as well, and the time would be in the last line."
    )
    on_gpu = "The call and wait() have put work into the GPU's queue. Reading a number waits for the queue."
    return Explanation(
        measured=_LINES[max(range(3), key=lambda line: lines_s[line])],
        because=on_cpu if device_type == "cpu" else on_gpu,
        misreadings={
            _LINES[0]: "That is what `async_op=True` is for: the call returns while the bytes still travel.",
            _LINES[2]: "On a GPU it would be so. On CPU ranks the result is there when wait() returns.",
        },
    )


_POLITE = (
    "a rank never came",
    "all send, nobody receives",
    "two ranks call different collectives",
    "the tensors differ in shape",
)


def _deadlock() -> Explanation:
    return Explanation(
        measured=_POLITE[1],
        label="the evidence says",
        because="All four stand at the same line, the sending one. Each waits until its message is taken, and the line "
        "that would take it comes next. Neither gloo nor NCCL promises to keep a message for a rank that is not there "
        "yet. NCCL does so with small messages, which makes such code work until the tensors grow.",
        misreadings={
            _POLITE[0]: "Then one rank would stand elsewhere, or have returned. All are at the same line.",
            _POLITE[2]: "There is no collective in this code.",
            _POLITE[3]: "All tensors have five numbers, and the evidence shows no message that was ever taken.",
        },
    )


_EPOCH = (
    "rank 0 never came",
    "rank 0 calls in another order",
    "the weights are too large to send",
    "only rank 0 returns something",
)


def _mismatch() -> Explanation:
    return Explanation(
        measured=_EPOCH[1],
        label="the evidence says",
        because="Every rank has come to the same number, 2407 in the log and 1 here; but on rank 0 that is a "
        "broadcast. Collectives have no names: the next call of one rank meets the next call of the others.",
        misreadings={
            _EPOCH[0]: "It did come: it waits in number 2407 as the others do. Look at the operation.",
            _EPOCH[2]: "4096 numbers are not too large, and size alone stops nobody.",
            _EPOCH[3]: "What a function returns is its own business; nobody waits for it.",
        },
    )


_BROKEN = (
    "rank 1 is slow",
    "rank 1 was killed",
    "rank 1 has made one call fewer",
    "all_reduce cannot add what is not a number",
)


def _skip() -> Explanation:
    return Explanation(
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


_RANKS = tuple(f"rank {rank}" for rank in range(4))


def _blame(dumps: Sequence[Mapping[str, Any]]) -> Explanation:
    """``dumps``: of every rank what its flight recorder holds."""
    enqueued = [dump["pg_status"]["0"]["last_enqueued_collective"] for dump in dumps]
    fewest = min(enqueued)
    behind = [f"rank {rank}" for rank, count in enumerate(enqueued) if count == fewest]
    others = [name for name in _RANKS if name not in behind]
    return Explanation(
        measured=" and ".join(behind),
        label="the recorders say",
        because=f"It has enqueued {fewest} collectives, and none of them is open. The others have enqueued "
        f"{max(enqueued)} and wait for it. They complain, and nothing is wrong with them.",
        misreadings=dict.fromkeys(
            others,
            "This rank has enqueued as many as two others, and waits. It is not the rank that the others wait for.",
        ),
    )


CLINICS = (
    Asked(name="02.deadlock", question="Why does nothing move?", choices=_POLITE, tell=_deadlock),
    Asked(name="02.mismatch", question="Why does the job hang?", choices=_EPOCH, tell=_mismatch),
    Asked(name="02.skip", question="Why does the job hang?", choices=_BROKEN, tell=_skip),
    Asked(name="02.returns", question="Which line takes the time?", choices=_LINES, tell=_returns),
    Asked(name="02.blame", question="Which rank is to blame?", choices=_RANKS, tell=_blame),
)
