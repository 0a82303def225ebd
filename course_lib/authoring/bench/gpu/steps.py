"""The steps of ``course bench gpu``, in the order in which they run: the quickest findings first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["STEPS", "BenchStep", "chosen"]


@dataclass(frozen=True)
class BenchStep:
    """One step: where its function ``run(task)`` lives, and its share of the time, in parts of all steps' sum."""

    name: str
    about: str
    share: float
    home: str = ""  # "module:function", and with a dot in front within this package; else ``run`` of its measurement

    @property
    def function(self) -> str:
        """Where it is, as ``step_process`` takes it."""
        return self.home or f".measurements.{self.name}:run"


STEPS = (
    BenchStep("peak", "the share of the data sheet's peak that lesson 01's transformer reaches", 1.5),
    BenchStep("memory", "the memory ledger against the device's allocator, and against the formulas", 1),
    BenchStep("timeline", "spans against device events and the profiler, also on two streams", 1),
    BenchStep("precision", "steps in float32, TF32, bfloat16 and float16: loss, time, memory", 1.5),
    BenchStep("meter", "what the meter counts against what NCCL was asked for, and what it costs", 1.5),
    BenchStep("strategies", "a step of every strategy beside PyTorch's, in turns", 5),
    BenchStep("overlap", "how much of DDP's all-reduces hides behind backward, beside PyTorch's", 2),
    BenchStep("tests", "pytest -m gpu", 4, ".tests:one_gpu"),
    BenchStep("tests_many", "pytest -m multigpu", 2, ".tests:many_gpus"),
    BenchStep("lessons", "every lesson's solution, as a script", 8, ".lessons:run"),
)


def chosen(words: Sequence[str], steps: Sequence[BenchStep] = STEPS) -> list[BenchStep]:
    """The steps of these names, in the order of the table; all of them for none.

    Raises:
        ValueError: A name that no step has; with the nearest.
    """
    import difflib

    names = [step.name for step in steps]
    for word in words:
        if word not in names:
            near = difflib.get_close_matches(word, names, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"no step is called {word!r}; there are {', '.join(names)}.{hint}")
    return [step for step in steps if step.name in words or not words]
