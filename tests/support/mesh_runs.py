"""Small runs of the program to take home for any mesh, on warm ranks: to be compared, stopped and resumed."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.examples.train_mesh.cutting import fill
from course_lib.examples.train_mesh.settings import SettingsError, learning_rate, parse_arguments
from course_lib.examples.train_mesh.text import load_text
from course_lib.examples.train_mesh.train import (
    Training,
    mean_over_shares,
    prepare,
    resume,
    train_step,
    train_steps,
)
from course_lib.examples.train_mesh.transformer import Transformer

# Six channels: with two ranks along tp, FSDP's parts of three rows are of different sizes. Three blocks: so are stages.
WORDS = "--layers 3 --width 6 --heads 2 --context 8 --batch-size 8 --accumulate 2 --steps 4 --warmup 2 --lr 0.01"
WORDS += " --clip-norm 0.05 --precision float64 --device cpu --peak-tflops 1"


def prepared(me, words: str) -> Training:
    return prepare(me, parse_arguments(f"{WORDS} {words}".split()))


def everything(training: Training) -> dict[str, Tensor]:
    """All tensors of a run that this rank's stage has, each in one piece; and the place in the text."""
    state = training.state.for_dcp()
    found = {name: t for name, t in {**state["model"], **state["optimizer"]}.items() if isinstance(t, Tensor)}
    pieces = {name: t.full_tensor() if hasattr(t, "full_tensor") else t for name, t in found.items()}
    return {name: t.detach().clone() for name, t in pieces.items()} | {"place": torch.tensor(training.batches.num_done)}


def of_all_stages(tensors_of_ranks: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """What the stages have together; ranks that have the same tensor agree on every bit of it."""
    together: dict[str, Tensor] = {}
    for tensors in tensors_of_ranks:
        for name, tensor in tensors.items():
            assert torch.equal(together.setdefault(name, tensor), tensor), f"copies of {name} are apart"
    return together


def steps(me, words: str, num_steps: int):
    """Losses and norms of some steps, the weights after them, and what the first step saw on this rank."""
    training = prepared(me, words)
    numbers, first = [], None
    for step in range(num_steps):
        for group in training.optimizer.param_groups:
            group["lr"] = learning_rate(training.args, step)
        share = next(training.batches)
        first = share.tokens if first is None else first
        loss, norm = train_step(training, share)
        numbers.append((mean_over_shares(training.place, loss.clone()), norm.item()))
    weights = {name: p.detach().full_tensor() for name, p in training.model.named_parameters()}  # type: ignore[attr-defined]
    return numbers, weights, first


def one_process(words: str, num_steps: int):
    """The same steps by a model in one piece, on whole batches, without a word of PyTorch's distributed parts."""
    args = parse_arguments(f"{WORDS} {words}".split())
    model = Transformer(args.layers, args.width, args.heads, args.context).double()
    fill(model, args.seed)
    decayed = [p for name, p in model.named_parameters() if "norm" not in name]
    norms = [p for name, p in model.named_parameters() if "norm" in name]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95))
    text = load_text("python")
    chance = torch.Generator().manual_seed(args.seed * 1_000_003)
    size, length = args.batch_size, args.context
    order = torch.randperm((len(text) - 1) // length, generator=chance)
    numbers, first = [], None
    for step in range(num_steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(args, step)
        batch = order[step * size : (step + 1) * size].tolist()
        windows = torch.stack([text.read(i * length, length + 1) for i in batch]).long()
        first = windows[:, :-1] if first is None else first
        loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = math.sqrt(sum(p.grad.square().sum() for p in model.parameters()))
        for p in model.parameters():
            p.grad *= min(1.0, args.clip_norm / (norm + 1e-6))
        optimizer.step()
        numbers.append((loss.item(), norm))
    return numbers, {name: p.detach() for name, p in model.named_parameters()}, first


class SignalAfter:
    """Stands for a ``StopSignal``: the last rank alone hears SIGTERM, in a step counted from 1; 0 is never."""

    def __init__(self, me, step: int) -> None:
        self.me, self.step, self.reads = me, step, 0

    @property
    def number(self) -> int:
        self.reads += 1
        return 15 if self.me.rank == self.me.world_size - 1 and self.reads == self.step else 0


def go_on(me, words: str, stop_after: int = 0):
    """Steps that were done, what was loaded, what there is at the end, and the signal."""
    training = prepared(me, words)
    first = resume(me, training)
    loaded = everything(training)
    number = train_steps(me, training, SignalAfter(me, stop_after), first)
    return first, loaded, everything(training), number


def sentence_of_start(me, words: str) -> str:
    try:
        resume(me, prepared(me, words))
    except (SettingsError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return "started"
