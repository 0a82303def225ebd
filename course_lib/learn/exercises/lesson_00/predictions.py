"""What lesson 00 asks before a run, and tells after it."""

from __future__ import annotations

from course_lib.learn.asked import Asked, Told

__all__ = ["PREDICTIONS"]


def _shared(counter: int) -> Told:
    return Told(
        measured=str(counter),
        because="The function travelled to the ranks, and a copy of counter with it. Each rank changed its own copy.",
        misreadings={
            "4": "That would be so for threads, which share memory. Ranks are processes, which do not.",
            "1": "Each rank did reach 1, but in its own memory; nothing brought that back to the notebook.",
            "it varies": "Threads that race for one variable may vary. These four never touch the same variable.",
        },
    )


def _sum(together_us: float, model_us: float, latency_us: float) -> Told:
    steps = round(model_us / latency_us)
    return Told(
        measured=together_us,
        model=model_us,
        because=f"{steps} messages, one after the other, each of one latency. The additions themselves do not show.",
        misreadings={
            lambda us: us < 10: "That is the time of arithmetic; here the time goes into messages.",
            lambda us: us > 50_000: "That is the time to start processes. These ranks were up already.",
        },
        apart="The latency was measured between two ranks that did nothing else. Where several ranks share a core, "
        "each also waits until it is let in. Run the cells above again: a number that moves is such waiting.",
    )


_SUSPECTS = ("rank 0 is too slow", "the network is broken", "ranks 1, 2, 3 never came", "the loss is NaN")


def _cause() -> Told:
    return Told(
        measured=_SUSPECTS[2],
        label="the evidence says",
        because="Rank 0 waits in the collective. The table says of the others that they had returned without one.",
        misreadings={
            _SUSPECTS[0]: "Rank 0 is not slow: it waits. It is the one that did come to the meeting.",
            _SUSPECTS[1]: "A broken network breaks messages. The three others never sent one.",
            _SUSPECTS[3]: "A loss that is NaN (not a number) travels like any other; nothing waits for it.",
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
)
