"""Train a ResNet by data parallelism: the same file on a laptop, on a GPU, and on many machines full of GPUs.

::

    python -m course_lib.examples.train_ddp                                     # one process
    torchrun --standalone --nproc-per-node 2 -m course_lib.examples.train_ddp   # two: on two GPUs, or on the CPU
    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1                                 # set_up.py says why
    torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:PORT --max-restarts 3 \\
        -m course_lib.examples.train_ddp --data /data/imagenet --layers 152 --width 64 --batch-size 1024 \\
        --lr 0.1 --lr-batch-size 256 --warmup 6000 --epochs 90 --bf16 --mirror --workers 8 --checkpoint run.pt

``--batch-size`` is the global batch, the images of one step on all ranks together, and an epoch leaves out a last
batch that is not full. So a step sees the same images on any number of ranks, and a run may be resumed on more or
fewer.

A run that finds its checkpoint goes on from it: after torchrun restarted it because a rank died, after a crash,
and after SIGTERM or Ctrl-C, when all ranks finish the step, save, and leave. Exit codes: 0 done, 128 + the
number of the signal that stopped it (143 for SIGTERM), 1 for an error.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset
from tqdm import tqdm

from course_lib.cluster import Rank
from course_lib.examples.set_up import StopSignal, largest_of_all, leave_signals_to_the_rank, say, set_up
from course_lib.examples.settings import Images, learning_rate, load_images, parse_arguments
from course_lib.models import ResNet
from course_lib.parallel.data.checkpoint import load_on_all, save_by_one

# -- data -------------------------------------------------------------------------------------------------------


class ResumableSampler(DistributedSampler[Any]):
    """PyTorch's sampler, which can also begin in the middle of an epoch, without loading what went before."""

    num_done = 0  # images that this rank has had in this epoch

    def begin(self, epoch: int, *, num_done: int) -> None:
        self.set_epoch(epoch)  # another order in each epoch, and the same one on all ranks
        self.num_done = num_done

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(super().__iter__(), self.num_done, None)


def make_loaders(
    me: Rank, args: argparse.Namespace, images: Images
) -> tuple[ResumableSampler, DataLoader[Any], DataLoader[Any]]:
    """This rank's share of the images: to train on, in micro-batches (and their sampler), and to be judged by."""
    num_parts = me.world_size * args.accumulate  # of a batch
    if args.batch_size % num_parts or args.batch_size < 2 * num_parts:
        raise ValueError(
            f"--batch-size {args.batch_size} does not give {me.world_size} ranks with --accumulate {args.accumulate} "
            "equal parts of at least two images, which BatchNorm needs to compare. "
            f"The nearest that does is {num_parts * max(2, round(args.batch_size / num_parts))}."
        )
    if args.batch_size > images.num_train:
        raise ValueError(f"--batch-size {args.batch_size}: there are {images.num_train} training images.")
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


# -- model ------------------------------------------------------------------------------------------------------


def make_model(me: Rank, args: argparse.Namespace, images: Images) -> DistributedDataParallel:
    """The network on this rank's device. DDP gives all ranks the weights of rank 0 and averages gradients."""
    torch.manual_seed(args.seed)
    model = ResNet.preset(
        args.layers,
        num_classes=images.num_classes,
        channels=images.channels,
        width=args.width,
        small_images=images.size < 64,
    ).to(me.device)
    return DistributedDataParallel(model, device_ids=[me.device.index] if me.device.type == "cuda" else None)


class Training(NamedTuple):
    """What the functions below work on."""

    args: argparse.Namespace
    loader: DataLoader[Any]
    sampler: ResumableSampler
    model: DistributedDataParallel
    optimizer: torch.optim.Optimizer
    num_steps: int  # of an epoch


# -- one epoch --------------------------------------------------------------------------------------------------


def train_step(me: Rank, training: Training, batches: Iterator[Any]) -> Tensor:
    """One step of the optimizer over ``accumulate`` micro-batches; returns this rank's mean loss, 0-d."""
    args, model = training.args, training.model
    mean_loss = torch.zeros((), device=me.device)
    training.optimizer.zero_grad()
    for i in range(args.accumulate):
        images, labels = (tensor.to(me.device, non_blocking=True) for tensor in next(batches))
        if args.mirror:
            mirrored = torch.rand(len(images), 1, 1, 1, device=me.device) < 0.5
            images = torch.where(mirrored, images.flip(-1), images)
        last = i + 1 == args.accumulate
        with contextlib.nullcontext() if last else model.no_sync():  # gradients travel once a step
            with torch.autocast(me.device.type, torch.bfloat16, enabled=args.bf16):
                loss = F.cross_entropy(model(images), labels) / args.accumulate
            loss.backward()  # bfloat16 has the range of float32, so no GradScaler is needed, as float16 does
        mean_loss += loss.detach()  # no .item(): it would wait for the GPU
    if args.clip_norm is not None:  # after the all-reduce: the norm is that of the mean, on every rank
        nn.utils.clip_grad_norm_(model.parameters(), args.clip_norm)
    training.optimizer.step()
    return mean_loss


def train_epoch(me: Rank, training: Training, stop: StopSignal, epoch: int, first_step: int) -> int:
    """Train to the end of the epoch, or to a signal; returns the signal's number, or 0."""
    args, num_steps = training.args, training.num_steps
    training.model.train()
    training.sampler.begin(epoch, num_done=first_step * args.batch_size // me.world_size)
    batches = iter(training.loader)  # asks the sampler, so the sampler comes first
    steps = range(first_step, num_steps)
    hidden = True if me.rank > 0 else None  # None: a bar on a terminal, none in a log file
    losses, since_s = [], time.perf_counter()
    for step in tqdm(steps, f"epoch {epoch + 1}", num_steps, leave=False, disable=hidden, initial=first_step):
        at = epoch * num_steps + step
        # Chance depends on seed, rank and step alone: a resumed run draws what it would have drawn.
        torch.manual_seed(hash((args.seed, me.rank, at)))
        lr = learning_rate(args, at, args.epochs * num_steps)
        for group in training.optimizer.param_groups:
            group["lr"] = lr
        losses.append(train_step(me, training, batches))

        stopped_by = largest_of_all(stop.number)  # a signal reaches the ranks in different steps; they agree
        if stopped_by or (step + 1) % args.every == 0 or step + 1 == num_steps:
            loss = mean_over_ranks(me, torch.stack(losses).mean())
            images_per_s = len(losses) * args.batch_size / (time.perf_counter() - since_s)
            where = f"epoch {epoch + 1}/{args.epochs}  step {step + 1}/{num_steps}"
            if not math.isfinite(loss):  # and the last good checkpoint stays as it is
                raise FloatingPointError(f"{where}: the loss is {loss}. Try a smaller --lr or --clip-norm.")
            saved = save(me, training, epoch, step + 1)
            say(me, f"{where}  loss {loss:.4f}  lr {lr:.4f}  {images_per_s:,.0f} images/s{saved}")
            losses, since_s = [], time.perf_counter()
        if stopped_by:
            return stopped_by
    return 0


def mean_over_ranks(me: Rank, value: Tensor) -> float:
    dist.all_reduce(value)
    return value.item() / me.world_size


@torch.no_grad()
def evaluate(me: Rank, training: Training, loader: DataLoader[Any]) -> float:
    """The share of all validation images, 0 to 1, whose class is found; each is counted once, on one rank."""
    model = training.model.module  # without DDP, which would wait for ranks that have fewer batches
    model.eval()
    for buffer in model.buffers():  # BatchNorm's averages differ among ranks since the last step
        dist.broadcast(buffer, src=0)
    counts = torch.zeros(2, dtype=torch.int64, device=me.device)
    for images, labels in loader:
        with torch.autocast(me.device.type, torch.bfloat16, enabled=training.args.bf16):
            guesses = model(images.to(me.device, non_blocking=True)).argmax(dim=1)
        counts[0] += (guesses == labels.to(me.device)).sum()
        counts[1] += len(labels)
    dist.all_reduce(counts)  # sums, not shares: ranks may hold different numbers of images
    num_right, num_images = counts.tolist()
    return num_right / num_images


# -- checkpoint -------------------------------------------------------------------------------------------------


def save(me: Rank, training: Training, epoch: int, step: int) -> str:
    """Rank 0 writes what a run needs to go on; all return when it is on the disk. Returns a word for the log."""
    if training.args.checkpoint is None:
        return ""
    state = {
        "must_match": must_match(training),
        "epoch": epoch,
        "step": step,  # the sampler's position, in steps
        "model": training.model.module.state_dict(),  # without the "module." that DDP puts before names
        "optimizer": training.optimizer.state_dict(),
    }
    save_by_one(me, training.args.checkpoint, state)
    return "  saved"


def must_match(training: Training) -> dict[str, Any]:
    """What may not change when a run is resumed: the rest, the number of ranks included, may."""
    args = training.args
    return {
        "--layers": args.layers,
        "--width": args.width,
        "--batch-size": args.batch_size,
        "--seed": args.seed,
        "number of images": len(training.loader.dataset),  # type: ignore[arg-type]
        "number of classes": training.model.module.head[-1].out_features,
    }


def resume(me: Rank, training: Training) -> tuple[int, int]:
    """Load the checkpoint if there is one; returns the epoch and the step to go on with."""
    args, path = training.args, training.args.checkpoint
    if path is None or not largest_of_all(int(me.rank == 0 and path.exists())):  # only rank 0 must see it
        return 0, 0
    state = load_on_all(me, path)
    if not isinstance(state, dict) or "must_match" not in state:
        raise ValueError(f"{path} is a checkpoint of something else. Give another --checkpoint.")
    for name, now in must_match(training).items():
        if (then := state["must_match"].get(name)) != now:
            raise ValueError(f"{path} has {name} {then}, this run {now}. Give another --checkpoint.")
    if state["epoch"] >= args.epochs:
        raise ValueError(f"{path} is in epoch {state['epoch'] + 1}, beyond the last: give more --epochs.")
    training.model.module.load_state_dict(state["model"])
    training.optimizer.load_state_dict(state["optimizer"])
    say(me, f"Resumed from {path}: epoch {state['epoch'] + 1}, step {state['step']}/{training.num_steps}")
    return state["epoch"], state["step"]


# -- main -------------------------------------------------------------------------------------------------------


def train(me: Rank, args: argparse.Namespace) -> int:
    """Train and judge, epoch by epoch; returns the number of the signal that ended it early, or 0."""
    images = load_images(args.data, args.image_size)
    sampler, loader, val_loader = make_loaders(me, args, images)
    model = make_model(me, args, images)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=args.weight_decay)
    training = Training(args, loader, sampler, model, optimizer, images.num_train // args.batch_size)
    say(me, f"ResNet-{args.layers} on {images.num_train} images, world size {me.world_size}, {me.backend}")
    stop = StopSignal()
    first_epoch, first_step = resume(me, training)
    for epoch in range(first_epoch, args.epochs):
        stopped_by = train_epoch(me, training, stop, epoch, first_step if epoch == first_epoch else 0)
        if stopped_by:
            say(me, f"Stopped by {signal.Signals(stopped_by).name}.")
            return stopped_by
        say(me, f"epoch {epoch + 1}/{args.epochs}  accuracy {evaluate(me, training, val_loader):.4f}")
    return 0


@record  # writes an exception down where torchrun finds it, and can name the rank that failed first
def main() -> None:
    args = parse_arguments()
    me = set_up(args.device)
    stopped_by = train(me, args)
    # Only after a good end: whoever failed leaves at once, and torchrun ends the others. And only when train()
    # has dropped its model: to destroy a group under a living DDP object may hang.
    dist.destroy_process_group()
    if stopped_by:
        sys.exit(128 + stopped_by)


if __name__ == "__main__":
    main()
