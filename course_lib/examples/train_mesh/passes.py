"""Forward and backward of a step, micro-batch after micro-batch: by a loop, or by PyTorch's pipeline."""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from .mesh import Place
from .text import Share
from .transformer import NUM_BYTE_VALUES, Transformer

__all__ = ["Loop", "Pipeline", "make_passes"]


def make_passes(place: Place, args: argparse.Namespace, model: Transformer) -> Loop | Pipeline:
    """What computes a step's gradients on this mesh."""
    return Pipeline(place, args, model) if place.axes.pp > 1 else Loop(args, model)


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy, in nats a byte; of (B, T, V) and (B, T)."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def no_loss(share: Share) -> Tensor:
    """Where losses are added up. Of one type on all ranks: those that know none take part in the sum that is told."""
    return torch.zeros((), dtype=torch.float64, device=share.tokens.device)


class Loop:
    """The whole model is here, if cut: forward and backward, one micro-batch after another."""

    def __init__(self, args: argparse.Namespace, model: Any) -> None:
        self.num_micro_batches, self.model = args.accumulate, model

    def __call__(self, share: Share) -> Tensor:
        """Add the mean gradient of a share to ``.grad``; returns the mean loss, 0-d."""
        total = no_loss(share)
        parts = [tensor.chunk(self.num_micro_batches) for tensor in share]
        for i, (tokens, targets) in enumerate(zip(*parts, strict=True)):
            # Gradients travel once a step. Until then each rank holds whole ones: accumulation costs the memory of
            # gradients that nobody has cut, which sharding had saved.
            self.model.set_requires_gradient_sync(i + 1 == self.num_micro_batches)
            loss = mean_loss(self.model(tokens), targets) / self.num_micro_batches
            loss.backward()
            total += loss.detach()  # no .item(): it would wait for the GPU
        return total


class Pipeline:
    """A stage of the model is here: one forward, one backward in turn (1F1B), as PyTorch's schedule has it.

    It takes care of FSDP, too: gradients travel after the step's last backward.
    """

    def __init__(self, place: Place, args: argparse.Namespace, model: Transformer) -> None:
        self.place = place
        num_sequences = args.batch_size // (place.axes.num_data_shares * args.accumulate)  # of a micro-batch
        kept = next(model.parameters()).dtype
        stream = torch.empty(
            num_sequences, args.context // place.axes.tp, args.width, device="meta",
            dtype=torch.bfloat16 if args.precision == "bf16" else kept,
        )  # fmt: skip
        tokens = torch.empty(num_sequences, args.context, dtype=torch.int64, device="meta")
        logits = torch.empty(num_sequences, args.context, NUM_BYTE_VALUES, dtype=kept, device="meta")
        # With the shapes of what comes in and goes out nothing has to be tried first.
        stage = PipelineStage(
            model, place.stage, place.axes.pp, place.me.device,
            input_args=tokens if model.is_first else stream.requires_grad_(),
            output_args=logits.requires_grad_() if model.is_last else stream.requires_grad_(),
            group=place.mesh.get_group("pp"),
        )  # fmt: skip
        # The loss is a mean over its micro-batch; scale_grads makes of the sum of gradients the mean over all.
        self.schedule = Schedule1F1B(stage, args.accumulate, loss_fn=mean_loss, scale_grads=True)

    def __call__(self, share: Share) -> Tensor:
        """Add the mean gradient of a share to ``.grad``; returns the mean loss, 0-d: 0 but from the last stage."""
        losses: list[Tensor] = []
        tokens = [share.tokens] if self.place.stage == 0 else []
        if self.place.is_last_stage:
            self.schedule.step(*tokens, target=share.targets, losses=losses, return_outputs=False)
            return no_loss(share) + torch.stack(losses).detach().mean()
        self.schedule.step(*tokens, return_outputs=False)
        return no_loss(share)
