"""What lesson 00 asks before a run, and tells after it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["PREDICTIONS"]


def _shared(counter: int) -> Explanation:
    return Explanation(
        measured=str(counter),
        because="The function travelled to the ranks, and a copy of counter with it. Each rank changed its own copy.",
        misreadings={
            "4": "That would be so for threads, which share memory. Ranks are processes, which do not.",
            "1": "Each rank did reach 1, but in its own memory; nothing brought that back to the notebook.",
            "it varies": "Threads that race for one variable may vary. These four never touch the same variable.",
        },
    )


def _sum(together_us: float, model_us: float, latency_us: float) -> Explanation:
    steps = round(model_us / latency_us)
    return Explanation(
        measured=together_us,
        model=model_us,
        because=f"{steps} messages follow one another, and each takes one latency. The additions themselves do not "
        "show.",
        misreadings={
            lambda us: us < 10: "That is the time of arithmetic; here the time goes into messages.",
            lambda us: us > 50_000: "That is the time to start processes. These ranks were up already.",
        },
        apart="The latency was measured between two ranks that did nothing else. Where several ranks share a core, "
        "each also waits until the core is free. Run the cells above again: if the number changes, the ranks have "
        "waited for cores.",
    )


_SUSPECTS = ("rank 0 is too slow", "the network is broken", "ranks 1, 2, 3 never came", "the loss is NaN")


def _cause() -> Explanation:
    return Explanation(
        measured=_SUSPECTS[2],
        label="the code says",
        because="Rank 0 alone calls the collective, and waits in it. The others return without it. The table says so, "
        "if the job ran as it is written.",
        misreadings={
            _SUSPECTS[0]: "Rank 0 is not slow: it waits. It is the one that did come to the meeting.",
            _SUSPECTS[1]: "A broken network breaks messages. The three others never sent one.",
            _SUSPECTS[3]: "A loss that is NaN (not a number) travels like any other; nothing waits for it.",
        },
    )


_FIRST = (
    "rank 0, by the RuntimeError",
    "rank 0, ended by torchrun",
    "rank 1, by an exception of its own",
    "rank 1, killed by a signal",
)


def _first(log: Sequence[str]) -> Explanation:
    """From the lines of torchrun's log: what stands under its root cause."""
    end = "\n".join(log).partition("Root Cause")[2]
    rank, code = re.search(r"rank +: (\d+)", end), re.search(r"exitcode +: (-?\d+)[^\n]*\((SIG\w+)\)", end)
    if rank is None or code is None:
        raise ValueError("these lines hold no table of torchrun; give all lines of the recorded log")
    return Explanation(
        measured=next(choice for choice in _FIRST if choice.startswith(f"rank {rank[1]}, killed")),
        label="the log says",
        because=f"The end of the table says it: rank {rank[1]}, exit code {code[1]} ({code[2]}). An exception would "
        "have left a traceback of that rank, and there is none. The other rank lost its connection to this one.",
        misreadings={
            _FIRST[0]: "That came second: rank 0 waited for a partner that was gone. The rank that writes most is "
            "seldom the first to fail.",
            _FIRST[1]: "torchrun ended rank 0 because another rank had died already. Look for that other one.",
            _FIRST[2]: "Then a traceback of rank 1 would stand in the log, as one of rank 0 does.",
        },
    )


PREDICTIONS = (
    Asked(
        name="00.shared",
        question="What is counter in the notebook afterwards?",
        choices=("0", "1", "4", "it varies"),
        tell=_shared,
    ),
    Asked(
        name="00.sum",
        question="How long do four ranks take to add up one number each?",
        unit="µs",
        tell=_sum,
    ),
    Asked(name="00.cause", question="Why does the job hang?", choices=_SUSPECTS, tell=_cause),
    Asked(name="00.first", question="Who failed first, and how?", choices=_FIRST, tell=_first),
)
