# In the course: written by ./course build --programs from course_lib/authoring/programs/sources/train.py.jinja,
# so edit that one, with what it includes. In a copy of this folder there is no other: edit this file.
"""The training: a step, the steps from first to last, and where a run goes on."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import time
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.tensor import DTensor

from .keeping import RunFolder
from .saving import Saver, TrainState, check_whole, read_about
from .settings import SettingsError, learning_rate, parse_arguments
from .shards import make_model, make_optimizer
from .start import Rank, StopSignal, by_rank_0, largest_of_all, of_all, say, set_up
from .text import Batches, MicroBatch, Text, load_text
from .transformer import Transformer


class Training(NamedTuple):
    """What the functions below work on."""

    args: argparse.Namespace
    folder: RunFolder | None  # without --out nothing is kept
    saver: Saver | None
    text: Text
    batches: Batches
    model: Transformer  # and an FSDPModule: fully_shard() gives a model's class this base
    optimizer: torch.optim.AdamW

    @property
    def state(self) -> TrainState:
        return TrainState(self.model, self.optimizer, self.batches)


def prepare(me: Rank, args: argparse.Namespace) -> Training:
    """All that a run needs, before it is known whether it goes on or begins."""
    folder = RunFolder(me, args.out) if args.out else None
    saver = Saver(me, folder, blocking=args.blocking_save) if folder else None
    text = load_same_text(me, args.data)
    batches = Batches(me, args, text)
    model = make_model(me, args)
    optimizer = make_optimizer(model, args)
    return Training(args, folder, saver, text, batches, model, optimizer)


def load_same_text(me: Rank, data: str) -> Text:
    """The text; ``SettingsError`` on all ranks where a machine has another, as far as its length tells."""
    text = load_text(data)
    for rank, num_bytes in enumerate(lengths := of_all(me, len(text))):
        if num_bytes != lengths[0]:
            raise SettingsError(
                f"--data {data} has {lengths[0]} bytes for rank 0 and {num_bytes} for rank {rank}. Every machine needs "
                "the same text."
            )
    return text


# -- steps ------------------------------------------------------------------------------------------------------


def train_step(training: Training, micro_batches: list[MicroBatch]) -> tuple[Tensor, Tensor]:
    """One step of the optimizer; returns this rank's mean loss and the gradient's norm before clipping, both 0-d."""
    model: Any = training.model
    mean_loss = torch.zeros((), device=micro_batches[0].tokens.device)
    for i, (tokens, targets) in enumerate(micro_batches):
        # Gradients travel once a step. Until then each rank holds whole ones: accumulation costs the memory of a
        # whole model's gradients, which sharding had saved.
        model.set_requires_gradient_sync(i + 1 == len(micro_batches))
        logits = model(tokens)  # (B, T, V), float32 also with --bf16: see shards.py
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten()) / len(micro_batches)
        loss.backward()
        mean_loss += loss.detach()  # no .item(): it would wait for the GPU
    norm = clip(model, training.args.clip_norm)
    training.optimizer.step()
    training.optimizer.zero_grad()
    return mean_loss, norm


def clip(model: nn.Module, most: float) -> Tensor:
    """Shorten the whole model's gradient to a norm of ``most``; returns its norm before, 0-d.

    Each rank has a part of every gradient. Of DTensors, PyTorch's own function adds the parts of all ranks up; with
    plain tensors each rank would clip by the norm of its part, and weights would no longer fit together.
    """
    norm = nn.utils.clip_grad_norm_(model.parameters(), most)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def train_steps(me: Rank, training: Training, stop: StopSignal, first_step: int) -> int:
    """Train to the last step, or to a signal; returns the signal's number, or 0."""
    args, saver = training.args, training.saver
    losses, norm, since_s = [], torch.zeros(()), time.perf_counter()
    for step in range(first_step, args.steps):
        lr = learning_rate(args, step)
        for group in training.optimizer.param_groups:
            group["lr"] = lr
        loss, norm = train_step(training, next(training.batches))
        losses.append(loss)
        if saver:
            saver.poll()

        stopped_by = largest_of_all(stop.number)  # a signal reaches the ranks in different steps; they agree
        done = step + 1
        saves = stopped_by or done % args.save_every == 0 or done == args.steps
        if saves or done % args.log_every == 0:
            report(me, training, done, torch.stack(losses), norm, lr, time.perf_counter() - since_s)
            losses, since_s = [], time.perf_counter()
        if saves and saver:
            saver.save(training.state, done, {"must_match": must_match(training)})
        if stopped_by:
            break
    else:
        stopped_by = 0
    if saver:
        saver.close()
    return stopped_by


def report(me: Rank, training: Training, done: int, losses: Tensor, norm: Tensor, lr: float, time_s: float) -> None:
    """A line of the log, over the steps since the last.

    ``FloatingPointError`` where a loss is no number, or the last gradient's norm: the weights then are none either,
    which the loss tells a step later, and must not be saved.
    """
    loss = mean_over_ranks(me, losses.mean())
    where = f"step {done}/{training.args.steps}"
    # Both are equal on all ranks, so all end here; and the last good checkpoint stays as it is.
    if not math.isfinite(loss + norm.item()):
        what = f"{where}: the loss is {loss:.4g}, the gradient's norm {norm.item():.4g}"
        raise FloatingPointError(f"{what}. Try a smaller --lr or --clip-norm.")
    tokens_per_s = len(losses) * training.args.batch_size * training.args.context / time_s
    noted = {"loss": loss, "norm": norm.item(), "lr": lr, "tokens_per_s": tokens_per_s}
    numbers = f"loss {loss:.4f}  norm {norm.item():.2f}  lr {lr:.2e}  {tokens_per_s:,.0f} tokens/s"
    if me.device.type == "cuda":
        numbers += f"  {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB at most"
    say(me, f"{where}  {numbers}")
    if me.rank == 0 and training.folder:
        training.folder.note(step=done, **noted)


def mean_over_ranks(me: Rank, value: Tensor) -> float:
    dist.all_reduce(value)
    return value.item() / me.world_size


# -- going on ---------------------------------------------------------------------------------------------------


def must_match(training: Training) -> dict[str, Any]:
    """What may not change when a run is resumed: the rest, the number of ranks included, may."""
    names = ("layers", "width", "heads", "context", "batch_size", "steps", "weight_decay", "seed")
    settings = {f"--{name.replace('_', '-')}": getattr(training.args, name) for name in names}
    return settings | {"bytes of text": len(training.text)}  # the cosine ends with the steps


def resume(me: Rank, training: Training) -> int:
    """Load the last checkpoint if there is one; returns the number of steps that are done."""
    folder = training.folder
    path = by_rank_0(me, lambda: next(reversed(folder.checkpoints()), None)) if folder else None
    if path is None:
        return 0
    about = by_rank_0(me, lambda: read_about(path))
    for name, now in must_match(training).items():
        if (then := about["must_match"].get(name)) != now:
            raise SettingsError(f"{path} has {name} {then}, this run {now}. Give another --out.")
    check_whole(me, path)
    training.state.load(path)
    say(me, f"Resumed from {path}: {about['step']} of {training.args.steps} steps are done")
    return int(about["step"])


# -- main -------------------------------------------------------------------------------------------------------


def train(me: Rank, args: argparse.Namespace) -> int:
    """Train from where the run stands; returns the number of the signal that ended it early, or 0."""
    training = prepare(me, args)
    num_whole = sum(p.numel() for p in training.model.parameters())
    num_here = sum(p.to_local().numel() for p in training.model.parameters())  # type: ignore[attr-defined]
    say(
        me,
        f"{num_whole:,} parameters on {len(training.text):,} bytes of text, world size {me.world_size}, "
        f"{me.device.type}; rank 0 holds {num_here:,}",
    )
    first_step = resume(me, training)
    try:
        stopped_by = train_steps(me, training, StopSignal(), first_step)
    finally:  # whatever happened: a save that is under way is one that the next run can go on from
        if training.saver:
            training.saver.wait()
    if stopped_by:
        say(me, f"Stopped by {signal.Signals(stopped_by).name}.")
    return stopped_by


@record  # writes an exception down where torchrun finds it, and can name the rank that failed first
def main() -> None:
    try:
        args = parse_arguments()
        me = set_up(args.device)
        stopped_by = train(me, args)
    except SettingsError as error:
        rank = os.environ.get("RANK", "0")
        if rank == "0":
            sys.exit(f"train_fsdp: {error}")
        time.sleep(2.0)  # if rank 0 has found the same, it says so, and torchrun ends this one meanwhile
        sys.exit(f"train_fsdp, rank {rank}: {error}")
    dist.destroy_process_group()  # only after a good end: whoever failed leaves at once, and torchrun ends the others
    if stopped_by:
        sys.exit(128 + stopped_by)
