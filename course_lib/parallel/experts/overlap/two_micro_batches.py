"""Two micro-batches behind each other's exchanges: an expert layer in steps, and two orders of them.

The experts wait for their rows, so within one micro-batch nothing hides an exchange. Another micro-batch has work that
does not depend on it::

    one after the other:   dense A | exchange | experts A | exchange | dense B | exchange | experts B | exchange

    two, by turns:         dense A | dense B | experts A | experts B | dense A of the next layer ...
                                   | A to    | B to      | A back    | B back

An exchange of one hides under what the other computes meanwhile. The price is memory: both have their
activations at once.

Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 3.2.1. Its DualPipe goes further: forward of one
beside backward of another. So does Megatron-Core's ``--overlap-moe-expert-parallel-comm``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.experts.dispatch import Dispatch, with_way_back
from course_lib.parallel.experts.expert_parallel import ExpertParallel
from course_lib.parallel.experts.in_flight import PendingExchange
from course_lib.parallel.experts.layer import MixtureOfExperts

if TYPE_CHECKING:
    from course_lib.meter.clocks.timeline import Timeline

__all__ = ["Arrived", "SteppedLayer", "interleaved", "one_after_the_other"]


@dataclass(frozen=True)
class Arrived:
    """Rows of one micro-batch on the rank of their experts, and what is needed to send them back."""

    rows: Tensor  # (R, D), expert after expert
    tokens: Tensor  # (N, D): those of this rank, for the residual
    journey: Dispatch


class SteppedLayer(nn.Module):
    """A layer in four steps, so that its caller chooses their order: tokens of this rank (N, D) -> (N, D).

    ::

        x = layer.dense(x)                     # what stands before the experts: attention, say
        arrived = layer.dispatch(x).wait()     # rows go to the ranks of their experts
        x = layer.combine(layer.experts(arrived)).wait()       # and their outputs come back, added to x

    ``dispatch`` and ``combine`` start an exchange and return at once. Between start and ``wait()`` anything else may be
    computed. ``dispatch`` first tells the other ranks how many rows will come, and waits for that. ``pause`` stands
    behind the experts: a ``PacedStep``, say. ``timeline`` gets the spans of the two exchanges. Made of the unsplit
    layer, as ``ExpertParallel``; raises what that raises.
    """

    def __init__(
        self,
        me: Rank,
        dense: nn.Module,
        moe: MixtureOfExperts,
        *,
        pause: nn.Module | None = None,
        timeline: Timeline | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        self.before = dense.to(me.device)
        self.moe = ExpertParallel(me, moe, group=group)
        self.pause, self.timeline = pause or nn.Identity(), timeline

    def dense(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, D)."""
        return self.before(x)

    def dispatch(self, x: Tensor) -> PendingExchange[Arrived]:
        """Routes (N, D), and starts the exchange of rows."""
        tokens = with_way_back(x)
        journey = Dispatch.plan(self.moe.members, self.moe.router(tokens))
        going = journey.start_dispatch(tokens, self.timeline)
        return PendingExchange(lambda: Arrived(going.wait(), x, journey))

    def experts(self, arrived: Arrived) -> Arrived:
        """What this rank's experts make of the rows that have come."""
        rows = self.pause(self.moe.experts(_checked(arrived).rows, arrived.journey.counts))
        return Arrived(rows, arrived.tokens, arrived.journey)

    def combine(self, made: Arrived) -> PendingExchange[Tensor]:
        """Starts the exchange of outputs; with what they are added to they are the layer's output, (N, D)."""
        back = _checked(made).journey.start_combine(made.rows, self.timeline)
        return PendingExchange(lambda: made.tokens + back.wait())

    def forward(self, x: Tensor) -> Tensor:
        """All steps of one micro-batch, each waited for: (N, D) -> (N, D)."""
        return self.combine(self.experts(self.dispatch(self.dense(x)).wait())).wait()


def one_after_the_other(layers: Sequence[SteppedLayer], a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Micro-batches a and b (N, D) through all layers, first the one, then the other."""
    outputs = []
    for x in (a, b):
        for layer in layers:
            x = layer(x)
        outputs.append(x)
    return outputs[0], outputs[1]


def interleaved(layers: Sequence[SteppedLayer], a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The same outputs; the exchanges of each lie beside what the other computes, but for the very last."""
    back_a, back_b = PendingExchange(lambda: a), PendingExchange(lambda: b)
    for layer in layers:
        to_a = layer.dispatch(layer.dense(back_a.wait()))
        to_b = layer.dispatch(layer.dense(back_b.wait()))
        back_a = layer.combine(layer.experts(to_a.wait()))
        back_b = layer.combine(layer.experts(to_b.wait()))
    return back_a.wait(), back_b.wait()


def _checked(arrived: Arrived) -> Arrived:
    if isinstance(arrived, PendingExchange):
        raise TypeError(f"this is {arrived!r}: call its wait() first, and give what that returns")
    if not isinstance(arrived, Arrived):
        raise TypeError(
            "experts and combine take the result of dispatch(...).wait() or experts(...); this is of type "
            f"{type(arrived).__name__}"
        )
    return arrived
