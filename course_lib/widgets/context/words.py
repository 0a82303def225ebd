"""What the context explorer shows, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from course_lib.cost.model_parallel.context import PassBytes
from course_lib.parallel.context import WatchedAttention
from course_lib.widgets.context.choice import NUM_HEADS, ContextChoice, kib_text

__all__ = ["found_in_words", "sent_in_words", "who_computes"]


def who_computes(choice: ContextChoice) -> str:
    """Each rank's part of the mask, and its pairs of query and key, step by step."""
    if choice.way == "all_to_all":
        heads, of_a_rank = NUM_HEADS // choice.num_ranks, choice.pairs()[0][0]
        what = "one head" if heads == 1 else f"{heads} heads"
        return (
            f"a rank computes the whole causal mask of {what} at once: {of_a_rank:,} pairs of query and key. With "
            "all-to-all the order of positions makes no difference."
        )
    said = []
    for rank in range(choice.num_ranks):
        runs = " and ".join(f"{run.start}-{run.stop - 1}" for run in choice.cut.runs(rank))
        steps = [(count, len(list(alike))) for count, alike in groupby(step[rank] for step in choice.pairs())]
        pairs = ", ".join(f"{count:,}" if times == 1 else f"{times} times {count:,}" for count, times in steps)
        said.append(f"rank {rank} has positions {runs} and {pairs}")
    return f"pairs of query and key in all heads, by steps of the ring: {'; '.join(said)}."


def sent_in_words(sent: Sequence[PassBytes]) -> str:
    """What each rank sends; neighbours that send the same are named together."""
    if len(sent) == 1:
        return "one rank sends nothing."
    said, first = [], 0
    for each, alike in groupby(sent):
        last = first + len(list(alike)) - 1
        who = f"rank {first} sends" if first == last else f"ranks {first} to {last} send"
        each_of_them = "" if first == last else " each"
        said.append(f"{who} {kib_text(each.forward)} forward and {kib_text(each.backward)} backward{each_of_them}")
        first = last + 1
    return f"in the layer {'; '.join(said)}."


def found_in_words(choice: ContextChoice, found: Sequence[WatchedAttention]) -> str:
    """What a run found, beside the model and beside one process."""
    measured = [PassBytes(rank.forward_bytes, rank.backward_bytes) for rank in found]
    off = max(
        (abs(one - model) / max(model, 1)
         for rank, of_model in zip(measured, choice.sent(), strict=True)
         for one, model in ((rank.forward, of_model.forward), (rank.backward, of_model.backward))),
    )  # fmt: skip
    bytes_said = f"up to {off:.1%} away from the model" if off else "as the model says"
    output, gradients = (max(getattr(rank, name) for rank in found) for name in ("output_off", "gradients_off"))
    return (
        f"Measured: {sent_in_words(measured)[:-1]}, {bytes_said}. Compared with one process that has the whole "
        f"sequence: outputs are {_apart(output)}, gradients of q, k and v are {_apart(gradients)}."
    )


def _apart(difference: float) -> str:
    return f"at most {difference:.0e} apart" if difference else "the same to the last digit"
