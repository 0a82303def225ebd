"""Part b of lesson 14: which axis stays at home, what a planner does not see, and what is no cheat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from course_lib.cost.mesh.mesh_parts import pieces_of_stages
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

if TYPE_CHECKING:
    from course_lib.capstone import CapstoneJob, MeshPlan, Result
    from course_lib.layouts.mesh import Mesh

__all__ = ["DEFEND"]

_MS = 1e3


_HOME = {
    "pp": "A stage sends the activations of one cut, and gets their gradients back. That is little, and the slow link "
    "can carry it.",
    "dp_replicate": "Gradients of all that a rank holds go round, once a step: more than a cut's activations here.",
    "dp_shard": "Weights are gathered twice and gradients scattered. That is much for a slow link.",
    "tp": "Four sums in each layer; by habit they get the fast link. Here a mesh without tp sends less in all.",
}


def _home(home: Result, away: Result) -> Explanation:
    """From runs of the planner's best mesh of two axes, and of that mesh turned round."""
    if home.counted_s is None or (away.counted_s is not None and away.counted_s < home.counted_s):
        quick, slow = away, home
    else:
        quick, slow = home, away
    within = quick.words.split()[-1].partition("=")[0]
    model = home.words.split()[-1].partition("=")[0]
    first = quick.words.split()[0].partition("=")[0]
    cost = (
        "does not come to its end"
        if slow.counted_s is None
        else f"takes {slow.counted_s * _MS:.0f} ms in place of {(quick.counted_s or 0) * _MS:.0f} ms"
    )
    return Explanation(
        measured=within,
        model=model,
        because=f"{first} can use the slow link, because it sends less. In the other "
        f"order the same mesh {cost}. The bytes of an axis, and not its name, decide whether it belongs within a node.",
        misreadings={name: said for name, said in _HOME.items() if name not in (within, model)},
        apart="The two orders were near each other in these runs: look at both times.",
    )


def _fullest(job: CapstoneJob, stages: int) -> int:
    """Blocks of the fullest stage, where stages have about as many parameters each."""
    config = job.job.config
    pieces = pieces_of_stages(config, stages)
    return max(sum(0 < piece <= config.num_layers for piece in stage) for stage in pieces)


def _uneven(job: CapstoneJob, mesh: Mesh) -> Explanation:
    """From the job and a mesh with stages: whole blocks on them."""
    layers, stages = job.job.config.num_layers, mesh.size("pp")
    most, share = _fullest(job, stages), layers / stages
    fewest = max(1, layers // stages)
    return Explanation(
        measured=round(100 * (most / share - 1)),
        label="computed",
        because=f"{layers} blocks on {stages} stages are {share:g} each, and a stage has whole blocks: the fullest has "
        f"{most}. All others wait for it in every slot.",
        misreadings={
            round(100 * (most / fewest - 1)): "That is compared with the emptiest stage. Compared with an even share "
            "it is less.",
            round(
                100 * (1 - share / most)
            ): "That is the share of the time for which an even share would be idle. Take the even share as 100 %.",
            0: f"That needs as many blocks on every stage, and {stages} stages do not share {layers} evenly.",
        },
    )


def _blind(job: CapstoneJob, table: Sequence[MeshPlan], planned: Result, other: Result) -> Explanation:
    """From the planner's table, and the runs of its best mesh and of another one, which names the best if it passes."""
    from course_lib.capstone.attempts.references import reference_mesh
    from course_lib.capstone.jobs.expected import expected

    best, first = reference_mesh(job), table[0]
    stages, named = first.mesh.size("pp"), best if other.passed else "the best mesh"
    slots = _fullest(job, stages) * stages / job.job.config.num_layers
    known_s = [expected(job.job, mesh).real_s for mesh in (first.mesh, best)]  # by whole blocks
    model = 100 * (known_s[0] / known_s[1] - 1)
    ran = planned.counted_s is not None and other.counted_s is not None
    measured = 100 * ((planned.counted_s or 0) / (other.counted_s or 1) - 1) if ran else model
    return Explanation(
        measured=round(measured),
        model=round(model),
        label="measured" if ran else "computed",
        because=f"{first.mesh} was planned with {first.played_s * _MS:.0f} ms, as if its stages were equal. The "
        f"fullest one computes {slots:.2f} times an even share, in every slot, and the other stages wait for it. "
        f"Played with whole blocks it takes {known_s[0] * _MS:.0f} ms, and {named} {known_s[1] * _MS:.0f} ms.",
        misreadings={
            0: "That would be so if the planner's assumptions about this job were right.",
            round(100 * (slots - 1)): "That is how much longer the fullest stage computes. A step also waits for links "
            "and the bubble, and the other mesh has those as well.",
        },
        apart="Real ranks wait for more than a model knows. Also, your run may be of another mesh than the model's "
        "best.",
    )


_IDEAS = {
    "Ada: states as NumPy arrays": "Memory that is not counted is still held. A real device would not have it. "
    "(Keeping states in the host's memory is a technique, *offload*. Then the time of the copies counts.)",
    "Bob: recomputation": "It saves memory and costs time, and both are measured.",
    "Cyd: rank 0 alone": "The job is for all ranks, and rank 0 has no room for it: it holds what the limit forbids.",
    "Dan: bfloat16 gradients": "Often a good idea in production. But this job says float32. A result in bfloat16 "
    "cannot be compared with results in float32.",
    "Eve: half of the batch": "A step is quicker because it trains on less.",
}


def _legal() -> Explanation:
    """The rules are known without a run."""
    right = "Bob: recomputation"
    return Explanation(
        measured=right,
        label="by the rules",
        because="The weights are the same, and the whole batch goes through all layers. Memory becomes free, and the "
        "time of the additional forward is measured. So the result shows the gain and the cost. The others are "
        "cheats because a number no longer means what it says.",
        misreadings={name: said for name, said in _IDEAS.items() if name != right},
    )


DEFEND: tuple[Asked, ...] = (
    Asked(
        name="14.home",
        question="Level 2, the quickest mesh: which axis lies within a node?",
        choices=tuple(_HOME),
        tell=_home,
    ),
    Asked(
        name="14.uneven",
        question="The planner's best: how much longer than an even share does its fullest stage compute?",
        unit="%",
        high=1000,
        tell=_uneven,
    ),
    Asked(
        name="14.blind",
        question="Level 3: how much longer than the best mesh does the planner's best take?",
        unit="%",
        high=1000,
        tell=_blind,
    ),
    Asked(
        name="14.legal",
        question="Whose idea is not a cheat?",
        choices=tuple(_IDEAS),
        tell=_legal,
    ),
)
