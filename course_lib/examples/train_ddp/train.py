"""The training: a step, an epoch, a judgement of the model, and what is saved in between."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
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
from torch.utils.data import DataLoader

from .beginning import begin_with
from .images import Images, load_images
from .keeping import RunFolder
from .loading import ResumableSampler, make_loaders
from .resnet import ResNet
from .settings import SettingsError, learning_rate, parse_arguments
from .start import Rank, StopSignal, by_rank_0, largest_of_all, say, set_up

# Backward of a 1x1 convolution of stride 2 in channels_last, on fewer channels than a vector holds: oneDNN's buffer is
# too small, and a rank dies or gets wrong numbers (uxlfoundation/oneDNN issue 6035; seen with torch 2.13 and AVX2).
_LEAST_WIDTH_CHANNELS_LAST = 16


class Training(NamedTuple):
    """What the functions below work on."""

    args: argparse.Namespace
    folder: RunFolder
    sampler: ResumableSampler
    loader: DataLoader[Any]
    model: DistributedDataParallel
    optimizer: torch.optim.Optimizer
    num_steps: int  # of an epoch


def make_model(me: Rank, args: argparse.Namespace, images: Images) -> DistributedDataParallel:
    """The network on this rank's device. DDP gives all ranks the weights of rank 0 and averages gradients."""
    torch.manual_seed(args.seed)
    model: nn.Module = ResNet(
        args.layers, num_classes=images.num_classes, width=args.width, small_images=images.size < 64
    )
    if args.weights:
        say(me, by_rank_0(me, lambda: begin_with(model, args.weights, args.layers)))
    if args.sync_bn and me.device.type == "cpu":
        raise SettingsError("--sync-bn needs GPUs: PyTorch has no SyncBatchNorm for the CPU. Leave it out here.")
    if args.channels_last and me.device.type == "cpu" and args.width < _LEAST_WIDTH_CHANNELS_LAST:
        raise SettingsError(
            f"--channels-last on a CPU needs --width {_LEAST_WIDTH_CHANNELS_LAST} or more, and it is {args.width}: "
            "with fewer channels oneDNN's 1x1 convolutions write past their memory."
        )
    if args.sync_bn:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = model.to(me.device).to(memory_format=layout(args))  # type: ignore[call-overload]
    device_ids = [me.device.index] if me.device.type == "cuda" else None
    # As a view of its bucket a gradient needs no copy of its own: one time the gradients' memory less.
    return DistributedDataParallel(model, device_ids=device_ids, gradient_as_bucket_view=True)


def layout(args: argparse.Namespace) -> torch.memory_format:
    return torch.channels_last if args.channels_last else torch.contiguous_format


# -- one epoch --------------------------------------------------------------------------------------------------


def train_step(me: Rank, training: Training, batches: Iterator[Any]) -> Tensor:
    """One step of the optimizer over ``accumulate`` micro-batches; returns this rank's mean loss, 0-d."""
    args, model = training.args, training.model
    mean_loss = torch.zeros((), device=me.device)
    training.optimizer.zero_grad()
    for i in range(args.accumulate):
        images, labels = (tensor.to(me.device, non_blocking=True) for tensor in next(batches))
        images = images.to(memory_format=layout(args))
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
    losses, since_s = [], time.perf_counter()
    for step in range(first_step, num_steps):
        lr = learning_rate(args, epoch * num_steps + step, args.epochs * num_steps)
        for group in training.optimizer.param_groups:
            group["lr"] = lr
        losses.append(train_step(me, training, batches))

        stopped_by = largest_of_all(stop.number)  # a signal reaches the ranks in different steps; they agree
        done = step + 1
        saves = stopped_by or (done % args.save_every == 0 and done < num_steps)
        if saves or done % args.log_every == 0 or done == num_steps:
            loss = mean_over_ranks(me, torch.stack(losses).mean())
            images_per_s = len(losses) * args.batch_size / (time.perf_counter() - since_s)
            where = f"epoch {epoch + 1}/{args.epochs}  step {done}/{num_steps}"
            norm = nn.utils.get_total_norm([p.grad for p in training.model.parameters() if p.grad is not None])
            if not math.isfinite(loss + norm.item()):  # and the last good checkpoint stays as it is
                what = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient's norm is {norm}"
                raise FloatingPointError(f"{where}: {what}. Try a smaller --lr or --clip-norm.")
            if saves:
                save(training, epoch, done)
            say(
                me,
                f"{where}  loss {loss:.4f}  lr {lr:.4f}  {images_per_s:,.0f} images/s{'  saved' if saves else ''}",
            )
            training.folder.note(epoch=epoch, step=done, loss=loss, lr=lr, images_per_s=images_per_s)
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
        images = images.to(me.device, non_blocking=True, memory_format=layout(training.args))
        with torch.autocast(me.device.type, torch.bfloat16, enabled=training.args.bf16):
            guesses = model(images).argmax(dim=1)
        counts[0] += (guesses == labels.to(me.device)).sum()
        counts[1] += len(labels)
    dist.all_reduce(counts)  # sums, not shares: ranks may hold different numbers of images
    num_right, num_images = counts.tolist()
    return num_right / num_images


# -- checkpoints ------------------------------------------------------------------------------------------------


def save(training: Training, epoch: int, step: int, name: str = "last.pt") -> None:
    """Keep what the run needs to go on with ``step`` of ``epoch``."""
    state = {
        "must_match": must_match(training),
        "epoch": epoch,
        "step": step,  # the sampler's position, in steps
        "best_accuracy": training.folder.best_accuracy,
        "model": training.model.module.state_dict(),  # without the "module." that DDP puts before names
        "optimizer": training.optimizer.state_dict(),
    }
    training.folder.save(name, state)


def must_match(training: Training) -> dict[str, Any]:
    """What may not change when a run is resumed: the rest, the number of ranks included, may."""
    args = training.args
    return {
        "--layers": args.layers,
        "--width": args.width,
        "--batch-size": args.batch_size,
        "--epochs": args.epochs,  # the cosine of the learning rate ends there
        "--weight-decay": args.weight_decay,
        "--seed": args.seed,
        "number of images": len(training.loader.dataset),  # type: ignore[arg-type]
        "number of classes": training.model.module.fc.out_features,
    }


def resume(me: Rank, training: Training) -> tuple[int, int]:
    """Load the last checkpoint if there is one; returns the epoch and the step to go on with."""
    state = training.folder.load("last.pt")
    if state is None:
        return 0, 0
    path = training.args.out / "last.pt"
    if "must_match" not in state:
        raise SettingsError(f"{path} is a checkpoint of something else. Give another --out.")
    for name, now in must_match(training).items():
        if (then := state["must_match"].get(name)) != now:
            raise SettingsError(
                f"{path} has {name} {then}, this run {now}. Give another --out; "
                f"--weights {path} begins with its weights."
            )
    training.model.module.load_state_dict(state["model"])
    training.optimizer.load_state_dict(state["optimizer"])
    say(me, f"Resumed from {path}: epoch {state['epoch'] + 1}, step {state['step']}/{training.num_steps}")
    training.folder.best_accuracy = state["best_accuracy"]
    return state["epoch"], state["step"]


# -- main -------------------------------------------------------------------------------------------------------


def train(me: Rank, args: argparse.Namespace) -> int:
    """Train and judge, epoch by epoch; returns the number of the signal that ended it early, or 0."""
    folder = RunFolder(me, args.out)
    images = load_images(args.data, args.image_size, args.augment, args.seed)
    sampler, loader, val_loader = make_loaders(me, args, images)
    num_steps = images.num_train // args.batch_size
    if args.warmup >= args.epochs * num_steps:
        raise SettingsError(
            f"--warmup {args.warmup} takes all of the run's {args.epochs * num_steps} steps, and --lr is never "
            f"reached. The most that works is {args.epochs * num_steps - 1}."
        )
    model = make_model(me, args, images)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=args.weight_decay)
    training = Training(args, folder, sampler, loader, model, optimizer, num_steps)
    where = f"world size {me.world_size}, {me.device.type}"
    say(me, f"ResNet-{args.layers} on {images.num_train} images of {images.num_classes} classes, {where}")
    stop = StopSignal()
    first_epoch, first_step = resume(me, training)
    for epoch in range(first_epoch, args.epochs):
        stopped_by = train_epoch(me, training, stop, epoch, first_step if epoch == first_epoch else 0)
        if stopped_by:
            say(me, f"Stopped by {signal.Signals(stopped_by).name}.")
            return stopped_by
        accuracy = evaluate(me, training, val_loader)
        if accuracy > folder.best_accuracy:
            folder.best_accuracy = accuracy
            save(training, epoch + 1, 0, "best.pt")
        save(training, epoch + 1, 0)
        folder.note(epoch=epoch, accuracy=accuracy)
        say(me, f"epoch {epoch + 1}/{args.epochs}  accuracy {accuracy:.4f}  best {folder.best_accuracy:.4f}")
    return 0


@record  # writes an exception down where torchrun finds it, and can name the rank that failed first
def main() -> None:
    try:
        args = parse_arguments()
        me = set_up(args.device)
        stopped_by = train(me, args)
    except SettingsError as error:
        rank = os.environ.get("RANK", "0")
        if rank == "0":
            sys.exit(f"train_ddp: {error}")
        time.sleep(2.0)  # if rank 0 has found the same, it says so, and torchrun ends this one meanwhile
        sys.exit(f"train_ddp, rank {rank}: {error}")
    # Only after a good end: whoever failed leaves at once, and torchrun ends the others. And only when train()
    # has dropped its model: to destroy a group under a living DDP object may hang.
    dist.destroy_process_group()
    if stopped_by:
        sys.exit(128 + stopped_by)
