"""Part a of lesson 14: what a job needs before it is run, and what becomes of a choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.meter import bytes_text

if TYPE_CHECKING:
    from course_lib.capstone import CapstoneJob, MeshPlan, Result

__all__ = ["CAPSTONE"]

_MS, _KB = 1e3, 1e-3


def _room(job: CapstoneJob) -> Explanation:
    """From the job alone: states of a rank with replicas, in per cent of its room."""
    whole = 100 * job.state_bytes / job.memory_bytes
    return Explanation(
        measured=round(whole),
        label="computed",
        because=f"A replica is a whole model: {bytes_text(job.state_bytes)} of weights, gradients, first and second "
        f"moments, on every rank. A rank has room for {bytes_text(job.memory_bytes)}, and needs room for activations, "
        "too. Data "
        "parallelism shares out the batch, and no states.",
        misreadings={
            round(whole / 4): "That is a quarter. Did you divide the states among the ranks? Replicas divide only the "
            "batch. Or did you count weights alone? Gradients are as large, and AdamW keeps two more.",
            round(whole / 2): "That is half: two of the four are missing, such as the optimizer's.",
            round(3 * whole / 4): "One of four is missing: weights, gradients, and two numbers of AdamW's.",
        },
    )


def _floor(job: CapstoneJob) -> Explanation:
    """From the job alone: computing shared evenly, nobody waiting, in ms."""
    forward_ms = job.job.forward_s * _MS
    return Explanation(
        measured=round(3 * forward_ms / job.ranks),
        label="computed",
        because=f"There are {forward_ms:.0f} ms forward, and twice as many backward, for one rank. Shared by "
        f"{job.ranks}, that is the least. What a real step takes beyond it is waiting: for links, for a bubble, for "
        "the slowest rank.",
        misreadings={
            round(forward_ms / job.ranks): "That is forward alone. Backward computes twice as long.",
            round(2 * forward_ms / job.ranks): "Backward is twice a forward, so there are three parts, not two.",
            round(3 * forward_ms): "One rank alone would take that long.",
            round(job.budget_s * _MS): "That is the budget, the time that you may take, and not the shortest "
            "possible step.",
        },
    )


def _between(run: Result | None, planned_bytes: int, weight_bytes: int) -> Explanation:
    """From the run with shards (None where it does not fit), what the planner expects, and the bytes of all weights; in
    kB.
    """
    sent = None if run is None else run.sent
    whole = weight_bytes * _KB
    return Explanation(
        measured=round((planned_bytes if sent is None else sent.between_bytes) * _KB),
        model=round(planned_bytes * _KB),
        label="played" if sent is None else "measured",
        because="Weights are gathered for forward and again for backward. In a ring of four ranks, three quarters of "
        "their bytes cross each link. Two of the four links join the nodes, one in each direction: twice 2 × 3/4. "
        "Gradients are scattered: each of four ranks has two quarters for ranks of the other node, 4 × 2 × 1/4. That "
        f"makes 5 times the weights, {5 * whole:,.0f} kB.",
        misreadings={
            round(1.5 * whole): "That is an all-reduce, over one link. Here weights travel twice and gradients once.",
            round(2.5 * whole): "That is one direction. As many bytes go in the other.",
            round(3 * whole): "Those are the two gathers of weights. Gradients are scattered as well.",
            round(3.5 * whole): "The weights are freed after forward, and gathered once more for backward.",
            round(9 * whole): "That is all that is sent. A part of it stays within the nodes.",
        },
        apart="Rows that do not divide by four are padded, and a few small messages come on top.",
    )


_AXES = {
    "dp_shard=4": "It gathers all weights twice and scatters the gradients. It sends most, and what it gathers early "
    "may hide behind computing.",
    "tp=4": "Four ranks do not fit into a node of two, so every layer's sums pass between nodes, and nothing hides "
    "them.",
    "pp=4": "It sends least: activations at three cuts, one of them between nodes. But it has a bubble.",
}


def _without_a_run(name: str, times_s: Mapping[str, float | None]) -> str:
    """Of a mesh that fits by the table, and has no run to show."""
    if name not in times_s or times_s[name] is not None:
        return ""
    return (
        " There is no run of it here. The table's memory is an estimate: where it comes near to the room, a run may be "
        "ended. For a moment a rank holds more than the table counts."
    )


def _bet(times_s: Mapping[str, float | None], table: Sequence[MeshPlan]) -> Explanation:
    """From measured steps by mesh, None where there is none, and the planner's table of one axis."""
    fits = {str(plan.mesh): plan.played_s for plan in table if plan.fits}
    model = min(fits, key=lambda name: fits[name])
    took_s = {name: time_s for name, time_s in times_s.items() if time_s is not None and name in _AXES}
    compared = len(took_s) > 1  # one run alone is not the quickest of anything
    measured = min(took_s, key=lambda name: took_s[name]) if compared else model
    steps = ", ".join(f"{name} {time_s * _MS:.0f} ms" for name, time_s in took_s.items())
    ran = f" Measured: {steps}." if steps else ""
    alone = "" if compared else " Only the planner says that it is the quickest: run two of these meshes to see it."
    told = {name: _AXES[name] + _without_a_run(name, times_s) for name in _AXES}
    return Explanation(
        measured=measured,
        model=model,
        label="measured" if compared else "played",
        because=f"{_AXES[measured]}{ran}{alone}",
        misreadings={
            name: said if name in fits else "By the table it may not fit: memory first, then time."
            for name, said in told.items()
            if name not in (measured, model)
        },
        apart="The two are near each other, or the machine was busy: look at both times.",
    )


_WHEN = (
    "while the model is built",
    "in a forward pass",
    "in a backward pass",
    "in the optimizer's update",
    "never: it fits",
)


def _is_full_of_buckets(parts: Mapping[str, int]) -> bool:
    """Whether DDP's buckets are there, as large as the weights."""
    return parts.get("other", 0) >= 0.9 * parts.get("parameter", 0)


def _not_while_built(place: int, parts: Mapping[str, int]) -> str:
    """Why the run did not end before its first step; ``place``: where it did."""
    if place == 1 and "activation" not in parts and _is_full_of_buckets(parts):
        return (
            "You are right about the memory: weights and DDP's buckets are there before any input, and the excess "
            "contained no activation. Memory is checked only during steps, so the run came to its first forward pass."
        )
    return "Weights are a quarter of the states, and the run came to its first step. It can begin."


def _not_at_gradients(place: int, parts: Mapping[str, int]) -> str:
    """Why the run did not end in a backward pass; ``place``: where it did."""
    if place != 1:
        return "Weights, gradients and what is left of the activations are less than the room here."
    if _is_full_of_buckets(parts):
        return (
            "By sizes alone that is a good argument: gradients take as much as weights. But DDP reserves that memory "
            "before it begins, so it is too much in forward already."
        )
    return "It does not come so far: forward is too much already."


def _when(first: Result) -> Explanation:
    """From the first attempt: what the fullest rank held when it was ended says how far it had come."""
    fullest = max(first.memory, key=lambda rank: rank.peak_bytes, default=None)
    parts = {} if fullest is None else fullest.parts
    place = 4
    if first.ended:  # memory is weighed in steps, so a model that was built has come to a forward pass at least
        place = 3 if "optimizer state" in parts else 2 if "gradient" in parts else 1
    held = ", ".join(f"{name} {bytes_text(size)}" for name, size in parts.items()) or "nothing that was seen"
    return Explanation(
        measured=_WHEN[place],
        because=f"The rank held {held}. Weights are there from the beginning, and so are DDP's buckets (called other), "
        "room for all gradients before there is one. Activations come in forward, gradients in backward, and AdamW "
        "makes its two numbers for each weight in its first update. So many jobs run for most of a step before memory "
        "is too small.",
        misreadings={
            answer: sentence
            for answer, sentence in {
                _WHEN[0]: _not_while_built(place, parts),
                _WHEN[1]: "Weights and activations alone are less than the room here.",
                _WHEN[2]: _not_at_gradients(place, parts),
                _WHEN[3]: "The run does not get so far: something before is too much already.",
                _WHEN[4]: "Look at the first number that you worked out.",
            }.items()
            if answer != _WHEN[place]
        },
    )


CAPSTONE: tuple[Asked, ...] = (
    Asked(
        name="14.room",
        question="dp_replicate=4: how much of its room would the states of a rank take?",
        unit="%",
        high=1e4,
        tell=_room,
    ),
    Asked(
        name="14.floor",
        question="The step that no cut can beat?",
        unit="ms",
        high=1e5,
        tell=_floor,
    ),
    Asked(
        name="14.between",
        question="dp_shard=4: how much goes from node to node in a step, both ways together?",
        unit="kB",
        high=1e7,
        tell=_between,
    ),
    Asked(
        name="14.when",
        question="When will the run with dp_replicate=4 be ended?",
        choices=_WHEN,
        tell=_when,
    ),
    Asked(
        name="14.bet",
        question="One axis: which mesh fits, and has the shortest step?",
        choices=tuple(_AXES),
        tell=_bet,
    ),
)
