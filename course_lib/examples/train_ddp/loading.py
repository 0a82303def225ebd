"""Who gets which image: each rank its share of every step, in micro-batches, from any step of any epoch on."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, DistributedSampler, Subset

from .images import Images, Item
from .settings import SettingsError
from .start import Rank, leave_signals_to_the_rank

__all__ = ["ResumableSampler", "make_loaders"]


class ResumableSampler(DistributedSampler[Any]):
    """PyTorch's sampler, which can also begin in the middle of an epoch, and tells each image's epoch too.

    A worker that lives on from epoch to epoch has no other way to know it.
    """

    num_done = 0  # images that this rank has had in this epoch

    def begin(self, epoch: int, *, num_done: int) -> None:
        self.set_epoch(epoch)  # another order in each epoch, and the same one on all ranks
        self.num_done = num_done

    def __iter__(self) -> Iterator[Item]:
        for number in itertools.islice(super().__iter__(), self.num_done, None):
            yield self.epoch, number


def make_loaders(
    me: Rank, args: argparse.Namespace, images: Images
) -> tuple[ResumableSampler, DataLoader[Any], DataLoader[Any]]:
    """This rank's share of the images: to train on, in micro-batches (and their sampler), and to be judged by."""
    num_parts = me.world_size * args.accumulate  # of a batch
    if args.batch_size % num_parts or args.batch_size < 2 * num_parts:
        raise SettingsError(
            f"--batch-size {args.batch_size} does not give {me.world_size} ranks with --accumulate {args.accumulate} "
            "equal parts of at least two images, which BatchNorm needs to compare. "
            f"The nearest that does is {num_parts * max(2, round(args.batch_size / num_parts))}."
        )
    if args.batch_size > images.num_train:
        raise SettingsError(f"--batch-size {args.batch_size}: there are {images.num_train} training images.")
    ranks = {"num_replicas": me.world_size, "rank": me.rank}
    sampler = ResumableSampler(images.train, **ranks, shuffle=True, seed=args.seed, drop_last=True)
    # To judge by, no DistributedSampler: so that all ranks have equally many, it gives some images to two.
    own_val = Subset(images.val, range(me.rank, images.num_val, me.world_size))
    options: dict[str, Any] = {
        "batch_size": args.batch_size // num_parts,
        "num_workers": args.workers,
        "persistent_workers": args.workers > 0,
        "worker_init_fn": leave_signals_to_the_rank,
        "pin_memory": me.device.type == "cuda",  # so that a copy to the GPU goes on beside the computing
    }
    loader = DataLoader(images.train, sampler=sampler, drop_last=True, **options)
    return sampler, loader, DataLoader(own_val, **options)
