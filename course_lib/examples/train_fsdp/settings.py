# In the course: written by ./course build --programs from course_lib/authoring/programs/sources/settings.py.jinja,
# so edit that one, with what it includes. In a copy of this folder there is no other: edit this file.
"""The command line: what a run can be told, which of it cannot work, and the learning rate that follows from it."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["SettingsError", "learning_rate", "parse_arguments"]


class SettingsError(ValueError):
    """A setting that does not fit the text, the ranks or the folder; every rank finds the same one."""


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The settings of a run. What cannot work on any machine ends the program with a sentence, and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="train_fsdp",
        description="Train a transformer by sharded data parallelism; start it with torchrun.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    _say_what_to_train(parser.add_argument_group("model and text").add_argument)
    _say_how_to_train(parser.add_argument_group("training").add_argument)
    _say_where_it_runs(parser.add_argument_group("devices and files").add_argument)
    args = parser.parse_args(words)
    if args.width % args.heads:
        nearest = args.heads * max(1, round(args.width / args.heads))
        parser.error(
            f"argument --width: {args.width} channels do not give {args.heads} heads equal parts; "
            f"the nearest that do is {nearest}"
        )
    if args.warmup >= args.steps:
        parser.error(
            f"argument --warmup: {args.warmup} takes all of the run's {args.steps} steps, and --lr is never reached; "
            f"the most that works is {args.steps - 1}"
        )
    return args


def _say_what_to_train(option: Callable[..., object]) -> None:
    option("--data", default="python", help="a text file, or a folder of .txt, .md, .rst and .py; 'python': the "
           "language's own documentation")  # fmt: skip
    option("--context", type=_whole(1), default=64, help="bytes that the model sees at once")
    option("--layers", type=_whole(1), default=4, help="blocks, and so units that FSDP gathers one after another")
    option("--width", type=_whole(1), default=64, help="channels")
    option("--heads", type=_whole(1), default=4, help="heads of attention")


def _say_how_to_train(option: Callable[..., object]) -> None:
    option("--steps", type=_whole(1), default=300, help="steps of the optimizer in the whole run")
    option("--batch-size", type=_whole(1), default=16, help="sequences in one step, on all ranks together")
    option("--accumulate", type=_whole(1), default=1, help="micro-batches into which a rank cuts its share")
    option("--lr", type=_above_0, default=1e-3, help="highest learning rate; a cosine brings it down to a tenth")
    option("--warmup", type=_whole(0), default=20, help="steps in which the learning rate rises from 0")
    option("--weight-decay", type=_at_least_0, default=0.1, help="pull of the matrices towards 0")
    option("--clip-norm", type=_above_0, default=1.0, help="largest norm of the gradient")
    option("--bf16", action="store_true", help="gather and compute in bfloat16; what is kept stays float32")
    option("--recompute", action="store_true", help="keep no activations within a block; compute them twice")
    option("--seed", type=_whole(0), default=0, help="decides first weights and order of windows")


def _say_where_it_runs(option: Callable[..., object]) -> None:
    option("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: GPUs where there are any")
    option("--out", type=Path, help="folder, seen by all machines, for checkpoints and log; a run that finds a "
           "checkpoint there goes on")  # fmt: skip
    option("--log-every", type=_whole(1), default=20, help="steps between two lines of the log")
    option("--save-every", type=_whole(1), default=100, help="steps between two checkpoints")
    option("--blocking-save", action="store_true", help="let training wait while a checkpoint is written; needs no "
           "copy of this rank's parts in the host's memory")  # fmt: skip


# -- what a word must be ------------------------------------------------------------------------------------------


def _whole(least: int) -> Callable[[str], int]:
    """A reader of whole numbers from ``least`` on."""

    def read(word: str) -> int:
        try:
            number = int(word)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{word!r} is no whole number; the least is {least}") from error
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} does not work; the nearest that does is {least}")
        return number

    return read


def _number(word: str, rule: str, is_good: Callable[[float], bool]) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and is_good(number)):
        raise argparse.ArgumentTypeError(f"{word!r} does not work: it is a number {rule}")
    return number


def _above_0(word: str) -> float:
    return _number(word, "above 0, such as 0.1", lambda number: number > 0.0)


def _at_least_0(word: str) -> float:
    return _number(word, "from 0 on, such as 0.0001", lambda number: number >= 0.0)


# -- the learning rate --------------------------------------------------------------------------------------------


def learning_rate(args: argparse.Namespace, step: int) -> float:
    """The rate for a step, from 0 on: up in a line, then down in a cosine to a tenth.

    The cosine after Loshchilov and Hutter, "SGDR" (2017); to a tenth as Hoffmann et al., "Training Compute-Optimal
    Large Language Models" (2022), bring it. It has no state, so none has to be saved.
    """
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    done = (step - args.warmup) / (args.steps - args.warmup)  # from 0 to 1
    return args.lr * (0.1 + 0.9 * 0.5 * (1.0 + math.cos(math.pi * done)))
