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
import warnings
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.elastic.multiprocessing.errors import record

from .axes import axes_of, num_micro_batches
from .clipping import clip
from .cutting import DTYPES, make_model, make_optimizer
from .keeping import RunFolder
from .mesh import Place, place_of
from .passes import Loop, Pipeline, make_passes
from .saving import Saver, TrainState, check_whole, read_about
from .settings import SettingsError, learning_rate, parse_arguments
from .speed import Peak, flops_per_token, peak_of
from .start import Rank, StopSignal, by_rank_0, largest_of_all, of_all, say, set_up
from .text import Batches, Share, Text, load_text
from .transformer import Transformer


class Training(NamedTuple):
    """What the functions below work on."""

    args: argparse.Namespace
    folder: RunFolder | None  # without --out nothing is kept
    saver: Saver | None
    text: Text
    batches: Batches
    model: Transformer  # this stage of it; and an FSDPModule: fully_shard() gives a model's class this base
    optimizer: torch.optim.AdamW
    place: Place
    passes: Loop | Pipeline
    peak: Peak

    @property
    def state(self) -> TrainState:
        return TrainState(self.model, self.optimizer, self.batches)


def prepare(me: Rank, args: argparse.Namespace) -> Training:
    """All that a run needs, before it is known whether it goes on or begins."""
    place = place_of(me, axes := axes_of(args, me.world_size))
    args = argparse.Namespace(**vars(args) | {"accumulate": num_micro_batches(args, axes)})
    folder = RunFolder(me, args.out) if args.out else None
    saver = Saver(me, folder, blocking=args.blocking_save) if folder else None
    text = load_same_text(me, args.data)
    batches = Batches(place, args, text)
    model = make_model(place, args)
    optimizer = make_optimizer(model, args)
    passes = make_passes(place, args, model)
    return Training(args, folder, saver, text, batches, model, optimizer, place, passes, peak_of(me, args))


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


def train_step(training: Training, share: Share) -> tuple[Tensor, Tensor]:
    """One step of the optimizer; returns the mean loss of this rank's share and the gradient's norm before clipping.

    Both 0-d. Only the last stage knows the loss; elsewhere it is 0.
    """
    loss = training.passes(share)
    norm = clip(training.place, training.model, training.args.clip_norm)
    training.optimizer.step()
    training.optimizer.zero_grad()
    return loss, norm


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
    loss = mean_over_shares(training.place, losses.mean())
    where = f"step {done}/{training.args.steps}"
    # Both are equal on all ranks, so all end here; and the last good checkpoint stays as it is.
    if not math.isfinite(loss + norm.item()):
        what = f"{where}: the loss is {loss:.4g}, the gradient's norm {norm.item():.4g}"
        raise FloatingPointError(f"{what}. Try a smaller --lr or --clip-norm.")
    tokens_per_s = len(losses) * training.args.batch_size * training.args.context / time_s
    noted = {"loss": loss, "norm": norm.item(), "lr": lr, "tokens_per_s": tokens_per_s}
    numbers = f"loss {loss:.4f}  norm {norm.item():.2f}  lr {lr:.2e}  {tokens_per_s:,.0f} tokens/s"
    noted["share_of_peak"] = tokens_per_s * flops_per_token(training.args) / training.peak.flops_per_s
    numbers += f"  {noted['share_of_peak']:.1%} of peak"
    if me.device.type == "cuda":
        numbers += f"  {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB at most"
    say(me, f"{where}  {numbers}")
    if me.rank == 0 and training.folder:
        training.folder.note(step=done, **noted)


def mean_over_shares(place: Place, value: Tensor) -> float:
    """The mean of what each rank of the last stage has; on all ranks. Elsewhere ``value`` is 0."""
    dist.all_reduce(value)
    return value.item() * place.axes.pp / place.me.world_size


# -- going on ---------------------------------------------------------------------------------------------------


def must_match(training: Training) -> dict[str, Any]:
    """What may not change when a run is resumed: the rest, the mesh included, may."""
    names = ("layers", "width", "heads", "context", "batch_size", "steps", "weight_decay", "seed")
    settings = {f"--{name.replace('_', '-')}": getattr(training.args, name) for name in names}
    settings["weights in"] = str(DTYPES[training.args.precision])
    return settings | {"bytes of text": len(training.text)}  # the cosine ends with the steps


def resume(me: Rank, training: Training) -> int:
    """Load the last checkpoint of ``--out``, else that of ``--resume``; returns the number of steps that are done."""
    folder = training.folder
    path = by_rank_0(me, lambda: next(reversed(folder.checkpoints()), None)) if folder else None
    path = path or training.args.resume
    if path is None:
        return 0
    about = by_rank_0(me, lambda: read_about(path))
    for name, now in must_match(training).items():
        if (then := about["must_match"].get(name)) != now:
            raise SettingsError(f"{path} has {name} {then}, this run {now}. Give another --out or --resume.")
    check_whole(me, path)
    training.state.load(path)
    say(me, f"Resumed from {path}: {about['step']} of {training.args.steps} steps are done")
    return int(about["step"])


# -- main -------------------------------------------------------------------------------------------------------


def num_parameters(args: argparse.Namespace) -> int:
    """Of the whole model, which no rank has: of its shapes."""
    with torch.device("meta"):
        model = Transformer(args.layers, args.width, args.heads, args.context)
    return sum(p.numel() for p in model.parameters())


def train(me: Rank, args: argparse.Namespace) -> int:
    """Train from where the run stands; returns the number of the signal that ended it early, or 0."""
    training = prepare(me, args)
    num_here = sum(p.to_local().numel() for p in training.model.parameters())  # type: ignore[attr-defined]
    say(
        me,
        f"{num_parameters(args):,} parameters on {len(training.text):,} bytes of text, mesh {training.place.axes}, "
        f"{me.device.type}; rank 0 holds {num_here:,}. Peak: {training.peak}",
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
    # Of the logits, which tensor parallelism makes of all ranks' parts. Nothing here changes them in place.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    try:
        args = parse_arguments()
        me = set_up(args.device)
        stopped_by = train(me, args)
    except SettingsError as error:
        rank = os.environ.get("RANK", "0")
        if rank == "0":
            sys.exit(f"train_mesh: {error}")
        time.sleep(2.0)  # if rank 0 has found the same, it says so, and torchrun ends this one meanwhile
        sys.exit(f"train_mesh, rank {rank}: {error}")
    dist.destroy_process_group()  # only after a good end: whoever failed leaves at once, and torchrun ends the others
    if stopped_by:
        sys.exit(128 + stopped_by)
