"""What ``train_ddp.py`` needs and what knows nothing of ranks: the command line, the images, the learning rate."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch.utils.data import Dataset

from course_lib.checks import at_least
from course_lib.data import digits, image_folder

__all__ = ["Images", "learning_rate", "load_images", "parse_arguments"]


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The settings of a run, from the command line; ``ValueError`` for what cannot work on any machine."""
    parser = argparse.ArgumentParser(
        description="Train a ResNet by data parallelism; start it with torchrun.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    option = parser.add_argument
    option(
        "--data",
        default="digits",
        help="'digits', or a folder with train/ and val/, in each a folder a class",
    )
    option("--image-size", type=int, default=224, help="pixels to a side, for images of a folder")
    option("--layers", type=int, default=18, help="18, 34, 50, 101 or 152")
    option("--width", type=int, default=8, help="channels of the first stage; 64 in the paper")
    option("--epochs", type=int, default=3, help="how often the training images are seen")
    option("--batch-size", type=int, default=64, help="images in one step, on all ranks together")
    option(
        "--accumulate", type=int, default=1, help="micro-batches into which a rank cuts its share of a batch"
    )
    option("--lr", type=float, default=0.1, help="highest learning rate; a cosine brings it down to 0")
    option(
        "--lr-batch-size", type=int, help="batch size that --lr was found for; others scale it in proportion"
    )
    option("--warmup", type=int, default=20, help="steps in which the learning rate rises from 0")
    option("--weight-decay", type=float, default=1e-4, help="pull of the weights towards 0")
    option("--clip-norm", type=float, help="largest norm of the gradient; without it nothing is clipped")
    option("--bf16", action="store_true", help="compute in bfloat16 where that is safe; weights stay float32")
    option("--mirror", action="store_true", help="mirror half of the training images, at random")
    option("--workers", type=int, default=0, help="processes of each rank that prepare images")
    option("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: GPUs where there are any")
    option(
        "--seed", type=int, default=0, help="decides first weights, order of images, and which are mirrored"
    )
    option("--checkpoint", type=Path, help="file to write to; where it exists, the run goes on from it")
    option("--every", type=int, default=100, help="steps between two checkpoints, and two lines of the log")
    args = parser.parse_args(words)
    _check(args)
    return args


def _check(args: argparse.Namespace) -> None:
    at_least(1, epochs=args.epochs, batch_size=args.batch_size, accumulate=args.accumulate, every=args.every)
    at_least(0, warmup=args.warmup, workers=args.workers, seed=args.seed)
    if args.lr_batch_size is not None:
        at_least(1, lr_batch_size=args.lr_batch_size)
    for name in ("lr", "clip_norm"):
        value = getattr(args, name)
        if value is not None and not 0.0 < value < math.inf:
            raise ValueError(f"{name}={value} does not work: it is a number above 0. A usual one is 0.1.")
    if args.checkpoint and not args.checkpoint.absolute().parent.is_dir():  # said now, not after an hour
        raise ValueError(
            f"There is no folder {args.checkpoint.parent} for --checkpoint {args.checkpoint}: make it."
        )


class Images(NamedTuple):
    """Images and labels to train on and to be judged by, and what a model must know of them."""

    train: Dataset[Any]
    val: Dataset[Any]
    num_train: int
    num_val: int
    num_classes: int
    channels: int
    size: int


def load_images(data: str, size: int) -> Images:
    """The digits, or a folder laid out as ImageNet is: ``train/cat/001.jpg``, ``val/cat/002.jpg``.

    A damaged training image is replaced by the next, with a warning. One among those that judge is an error.
    ``ValueError`` where folders are missing or empty, or the two parts have different classes.
    """
    if data == "digits":
        digits_train, digits_val = digits()
        return Images(
            digits_train, digits_val, len(digits_train), len(digits_val), num_classes=10, channels=1, size=8
        )
    train = image_folder(Path(data) / "train", size, on_damaged="skip")
    val = image_folder(Path(data) / "val", size)
    if train.classes != val.classes:
        lonely = sorted(set(train.classes) ^ set(val.classes))
        raise ValueError(
            f"{data}: train and val need the same class folders, or labels would mean different things. "
            f"Only one of the two has {', '.join(lonely[:3])}{', ...' if len(lonely) > 3 else ''}."
        )
    return Images(train, val, len(train), len(val), num_classes=len(train.classes), channels=3, size=size)


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
