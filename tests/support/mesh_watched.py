"""What a run of the mesh explorer's model would find if everything were as the cost model says."""

from __future__ import annotations

from course_lib.cost import pieces_of_rank
from course_lib.layouts.mesh import Mesh
from course_lib.parallel.mesh import WatchedRank
from course_lib.widgets import MeshChoice
from course_lib.widgets.mesh.choice import CONFIG

RUN = "course_lib.widgets.mesh.explorer.watched_mesh_step"  # what is replaced by it


def as_the_model_says(mesh: Mesh, times: float = 1.0) -> list[WatchedRank]:
    """All bytes of an axis are sent by a rank to itself, or to the last rank, which is on another node."""
    choice, found = MeshChoice(mesh), []
    for rank, state in enumerate(choice.states()):
        sent = {
            axis: ({0: links.within_bytes, mesh.num_ranks - 1: round(times * links.between_bytes)} if rank == 0 else {})
            for axis, links in choice.sent().items()
        }
        held = {kind: round(times * size) for kind, size in state.as_dict().items()}
        found.append(WatchedRank(held, pieces_of_rank(CONFIG, mesh, rank), sent))
    return found
