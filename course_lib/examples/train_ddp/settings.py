# In the course: written by ./course build --programs from course_lib/authoring/programs/sources/settings_ddp.py.jinja,
# so edit that one, with what it includes. In a copy of this folder there is no other: edit this file.
"""The command line: what a run can be told, which of it cannot work, and the learning rate that follows from it."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["SettingsError", "learning_rate", "parse_arguments"]

LAYERS = (18, 34, 50, 101, 152)


class SettingsError(ValueError):
    """A setting that does not fit the images, the ranks or the folder; every rank finds the same one."""


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The settings of a run. What cannot work on any machine ends the program with a sentence, and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="train_ddp",
        description="Train a ResNet by data parallelism; start it with torchrun.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    _say_what_to_train(parser.add_argument_group("model and images").add_argument)
    _say_how_to_train(parser.add_argument_group("training").add_argument)
    _say_where_it_runs(parser.add_argument_group("devices and files").add_argument)
    return parser.parse_args(words)


def _say_what_to_train(option: Callable[..., object]) -> None:
    option("--data", default="made", help="'made', or a folder with train/ and val/, in each a folder a class")
    option("--image-size", type=_whole(8), help="pixels to a side; 16 for made images, 224 for a folder's")
    option("--augment", choices=("none", "mirror", "crops", "trivial"), default="none",
           help="what chance does to training images: mirror half of them; cut out parts of any size and "
           "mirror; and torchvision's TrivialAugmentWide on top")  # fmt: skip
    option("--layers", type=_one_of(LAYERS), default=18, help="18, 34, 50, 101 or 152")
    option("--width", type=_whole(1), default=8, help="channels of the first stage; 64 in the paper")
    option("--weights", help="begin with these: a file with torchvision's names or of an earlier run, or the name "
           "of torchvision's own, such as IMAGENET1K_V2")  # fmt: skip


def _say_how_to_train(option: Callable[..., object]) -> None:
    option("--epochs", type=_whole(1), default=5, help="how often the training images are seen")
    option("--batch-size", type=_whole(1), default=32, help="images in one step, on all ranks together")
    option("--accumulate", type=_whole(1), default=1, help="micro-batches into which a rank cuts its share")
    option("--lr", type=_above_0, default=0.05, help="highest learning rate; a cosine brings it down to 0")
    option("--lr-batch-size", type=_whole(1), help="batch that --lr was found for; others scale it in proportion")
    option("--warmup", type=_whole(0), default=20, help="steps in which the learning rate rises from 0")
    option("--weight-decay", type=_at_least_0, default=1e-4, help="pull of the weights towards 0")
    option("--clip-norm", type=_above_0, help="largest norm of the gradient; without it nothing is clipped")
    option("--bf16", action="store_true", help="compute in bfloat16 where that is safe; weights stay float32")
    option("--channels-last", action="store_true", help="lay images out as tensor cores like them")
    option("--sync-bn", action="store_true", help="BatchNorm over the whole batch, not each rank's share (GPUs)")
    option(
        "--seed",
        type=_whole(0),
        default=0,
        help="decides first weights, order of images, and how they are cut",
    )


def _say_where_it_runs(option: Callable[..., object]) -> None:
    option("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: GPUs where there are any")
    option("--workers", type=_workers, default=0, help="processes of each rank that prepare images")
    option("--out", type=Path, help="folder for checkpoints and log; a run that finds last.pt there goes on")
    option("--log-every", type=_whole(1), default=20, help="steps between two lines of the log")
    option("--save-every", type=_whole(1), default=500, help="steps between two checkpoints within an epoch")


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


def _one_of(known: tuple[int, ...]) -> Callable[[str], int]:
    def read(word: str) -> int:
        number = _whole(1)(word)
        if number not in known:
            nearest = min(known, key=lambda one: abs(one - number))
            raise argparse.ArgumentTypeError(
                f"{number} is none of {', '.join(map(str, known))}; the nearest is {nearest}"
            )
        return number

    return read


def _workers(word: str) -> int:
    """Workers of one rank: more than twice the cores that a rank has would only wait for each other."""
    number = _whole(0)(word)
    cores, ranks = os.cpu_count() or 1, int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    most = max(2, 2 * cores // ranks)
    if number > most:
        raise argparse.ArgumentTypeError(
            f"{number} processes for each of {ranks} ranks are too many for {cores} cores; the nearest that works "
            f"is {most}"
        )
    return number


# -- the learning rate --------------------------------------------------------------------------------------------


def learning_rate(args: argparse.Namespace, step: int, num_steps: int) -> float:
    """The rate for ``step`` of the ``num_steps`` of all epochs: up in a line, then down in a cosine.

    In proportion to the batch size, and with a warm-up, after Goyal et al., "Accurate, Large Minibatch SGD"
    (2017); the cosine after Loshchilov and Hutter, "SGDR" (2017). It has no state, so none has to be saved.
    """
    highest = args.lr * (args.batch_size / args.lr_batch_size if args.lr_batch_size else 1.0)
    if step < args.warmup:
        return highest * (step + 1) / args.warmup
    done = (step - args.warmup) / max(1, num_steps - args.warmup)  # from 0 to 1
    return highest * 0.5 * (1.0 + math.cos(math.pi * done))
