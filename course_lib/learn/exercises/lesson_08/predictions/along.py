"""What part c of lesson 08 asks about positions that are shared out: bytes, memory, and a clinic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib import cost
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

if TYPE_CHECKING:
    from course_lib.models import TransformerConfig

__all__ = ["ALONG"]

_AMOUNTS = ("fewer", "the same", "more")


def _sequence(plain_bytes: float, along_bytes: float) -> Explanation:
    fewer, same, more = _AMOUNTS
    return Explanation(
        measured=same if plain_bytes == along_bytes else more if along_bytes > plain_bytes else fewer,
        because="These are the bytes of messages around a ring. The two halves of each all-reduce are now separate "
        "calls, with the norm between them. (The gradients of the norms need small messages besides: they cost "
        "latency, and hardly any bytes.)",
        misreadings={
            more: "There are twice as many calls, but each sends half of the bytes.",
            fewer: "As lesson 02 showed, an all-reduce *is* a reduce-scatter and an all-gather.",
        },
    )


_RANKS = 4


def _kept(kept_bytes: int, config: TransformerConfig) -> Explanation:
    def model(**way: bool) -> float:
        terms = cost.explained_activations(config, batch_size=4, num_ranks=_RANKS, **way)
        return sum(term.course_bytes for term in terms) / 1024

    plain_kib, along_kib = model(), model(sequence_parallel=True)
    anew_kib = model(sequence_parallel=True, regather=True)
    return Explanation(
        measured=round(kept_bytes / 1024),
        model=round(along_kib),
        because=f"The tensors that the norms keep become a quarter. But a region's input has just been gathered. And "
        f"the gradient of its weights needs all of it: {along_kib / plain_kib:.0%} of what was kept before is "
        "still there.",
        misreadings={
            lambda kib: (
                abs(kib - anew_kib) <= 0.03 * anew_kib
            ): "That is so if both kinds of tensors become a quarter. But the inputs of "
            "the regions have been gathered, and ranks keep them. Which rank needs all positions in the backward "
            "pass, and for which gradient?",
            lambda kib: kib <= plain_kib / _RANKS * 1.1: "That is a quarter of everything. But inside the regions each "
            "rank has only its own share already, and that does not shrink again.",
            round(plain_kib): "The norms now work on a quarter of the positions, and so they keep less.",
        },
        apart="Bytes do not depend on how busy a machine is. Compare the terms below with the ledger's.",
    )


_SHARES = (
    "the exit gives a rank the wrong positions",
    "each norm gets the gradient of its own positions alone",
    "the entrance forgets its reduce-scatter backward",
    "the residual is added by every rank",
)


def _shares() -> Explanation:
    return Explanation(
        measured=_SHARES[1],
        label="the evidence says",
        because="The two ranks' gradients of the norm differ, and add up to that of one device. Every rank holds the "
        "norm's weight whole and uses it on its own positions, so its gradient has a summand from each of them. Each "
        "rank treats its summand as the whole gradient, and the copies become different.",
        misreadings={
            _SHARES[0]: "Then the first loss would be wrong already.",
            _SHARES[2]: "Then the gradient of x, which comes back through the entrance, would be wrong.",
            _SHARES[3]: "Each rank adds the residual of its own positions, once. Otherwise the loss would be wrong.",
        },
    )


ALONG = (
    Asked(
        name="08.sequence", question="How many bytes do ranks send for a block now?", choices=_AMOUNTS, tell=_sequence
    ),
    Asked(
        name="08.kept",
        question="How many KiB does a rank keep, with positions shared out?",
        unit="KiB",
        tell=_kept,
    ),
    Asked(name="08.shares", question="What is wrong with the block?", choices=_SHARES, tell=_shares),
)
