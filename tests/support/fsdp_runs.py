"""Small runs of the sharded program to take home, on warm ranks: to be stopped, resumed and compared."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from course_lib.examples.train_fsdp.settings import SettingsError, parse_arguments
from course_lib.examples.train_fsdp.train import Training, prepare, resume, train_steps

WORDS = "--layers 1 --width 6 --heads 2 --context 8 --batch-size 8 --steps 6 --warmup 2 --lr 0.01 --device cpu"


class SignalAfter:
    """Stands for a ``StopSignal``: the last rank alone hears SIGTERM, in a step counted from 1; 0 is never."""

    def __init__(self, me, step: int) -> None:
        self.me, self.step, self.reads = me, step, 0

    @property
    def number(self) -> int:
        self.reads += 1
        return 15 if self.me.rank == self.me.world_size - 1 and self.reads == self.step else 0


def prepared(me, words: str) -> Training:
    return prepare(me, parse_arguments(f"{WORDS} {words}".split()))


def everything(training: Training) -> dict[str, Tensor]:
    """All tensors of a run in one piece: weights and moments by name, and the place in the text."""
    state = training.state.for_dcp()
    found = dict(state["model"])
    for name, moments in state["optimizer"]["state"].items():
        found |= {f"{name} {key}": value for key, value in moments.items()}
    pieces = {name: t.full_tensor() if hasattr(t, "full_tensor") else t for name, t in found.items()}
    return {name: t.detach().clone() for name, t in pieces.items()} | {"place": torch.tensor(training.batches.num_done)}


def go_on(me, words: str, stop_after: int = 0):
    """Steps that were done, what was loaded, what there is at the end, and the signal."""
    training = prepared(me, words)
    first = resume(me, training)
    loaded = everything(training)
    number = train_steps(me, training, SignalAfter(me, stop_after), first)
    return first, loaded, everything(training), number


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def differing(tensors: dict[str, Tensor], others: dict[str, Tensor], atol: float = 0.0) -> list[str]:
    assert tensors.keys() == others.keys()
    return [name for name, t in tensors.items() if (t.double() - others[name].double()).abs().max() > atol]


def sentence_of_resume(me, words: str) -> str:
    try:
        resume(me, prepared(me, words))
    except (SettingsError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return "resumed"


def whole(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().full_tensor() for name, p in model.named_parameters()}  # type: ignore[attr-defined]
