"""``course bench mesh``: training steps on a mesh beside PyTorch's parts, and what the order of the axes costs.

First whole steps (forward, backward, optimizer, the mean loss) with real arithmetic, on 4 ranks and meshes of 2 x 2, in
turns with the same of PyTorch's parts. The promise: at most 1.00 times PyTorch's at the median. Then bytes: by how many
the meter's count is off the formulas, over all ranks and axes. The promise: none.

Last, all orders of three axes of 2 on 8 ranks, with links shaped fast within a node and slow between, beside what
``cost.mesh_step_time`` says. Nothing is paced there: links are so slow that messages dominate, and what the machine
takes for the same step without shaped links stands beside it. The promise: off by at most 15 % at the median.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from course_lib.authoring.bench.options import bench_parser, count, open_table
from course_lib.authoring.bench.strategies.in_turns import compare_on_ranks
from course_lib.authoring.bench.strategies.mesh_rivals import batch_of, course_step, torch_step
from course_lib.authoring.bench.table import Table
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cluster.links.links import Links
from course_lib.cost.collectives.network import Network
from course_lib.cost.mesh.link_bytes import MeshStep
from course_lib.cost.mesh.mesh_time import mesh_step_time
from course_lib.layouts.link import Link
from course_lib.layouts.mesh import Mesh
from course_lib.meter.clocks.stopwatch import Comparison

if TYPE_CHECKING:
    from course_lib.models import TransformerConfig

__all__ = ["PAIRED", "main", "metered_step", "paired_steps", "timed_steps"]

_PROMISED_RATIO = 1.00
_PROMISED_ERROR = 15.0  # percent, at the median over the orders
_STEPS = 2  # in a turn
PAIRED = ("dp_shard=2 tp=2", "pp=2 dp_replicate=2", "pp=2 tp=2", "pp=2 dp_shard=2")
_BATCH_SIZE, _LENGTH = 16, 64

_ORDERED = ("pp=2 dp_shard=2 tp=2, 4 ranks a node", "pp=2 dp_shard=2 tp=2, 2 ranks a node")
_WITHIN, _BETWEEN = Link(1e-3, 3e6), Link(2e-3, 0.3e6)
_SMALL_LENGTH = 32


def main(arguments: list[str]) -> int:
    parser = bench_parser("mesh", __doc__, rounds=30, of="pairs of turns for the step time")
    parser.add_argument("--order-rounds", type=count, default=5, help="steps of each order (default 5)")
    options = parser.parse_args(arguments)
    with open_table(options) as table:
        with Cluster(4, links=Links(), timeout_s=600) as cluster:
            for text in PAIRED:
                both = cluster.call(paired_steps, (text, options.rounds), show=False)[0]
                table.add_pair(f"step, {text}", both, target=_PROMISED_RATIO)
            for text in PAIRED:
                add_bytes(table, cluster, Mesh.parse(text))
        with Cluster(8, links=Links(), timeout_s=600) as cluster:
            by_rank = cluster.call(timed_steps, (_ORDERED[:1], options.order_rounds), show=False)
            table.add("8 ranks: a step without shaped links", _slowest(by_rank, 0), "s")
        for text in _ORDERED:
            add_orders(table, Mesh.parse(text), options.order_rounds)
    return 0


def _config() -> TransformerConfig:
    from course_lib.models import TransformerConfig

    return TransformerConfig()


def _small_config() -> TransformerConfig:
    from course_lib.models import TransformerConfig

    return TransformerConfig(vocab_size=64, context_length=_SMALL_LENGTH, num_layers=2, width=32, num_heads=4)


# -- whole steps, real arithmetic -----------------------------------------------------------------------------


def paired_steps(me: Rank, text: str, rounds: int) -> Comparison:
    """On each rank: training steps of PyTorch's parts and of the course's, in turns; a step's time."""
    mesh, batch = Mesh.parse(text), batch_of(_config(), _BATCH_SIZE, _LENGTH)
    theirs = torch_step(me, mesh, _config(), batch)
    ours, close = course_step(me, mesh, _config(), batch)
    both = compare_on_ranks(
        *((lambda step=step: [step() for _ in range(_STEPS)]) for step in (theirs, ours)),
        names=("torch", "the course"),
        rounds=rounds,
        warmup=3,
        steps=_STEPS,
        device=me.device,
    )
    close()
    return both


# -- bytes ----------------------------------------------------------------------------------------------------


def add_bytes(table: Table, cluster: Cluster, mesh: Mesh) -> None:
    """What rank 0 sends along each axis by the formulas, and by how much the meter's count is off on any rank."""
    step = MeshStep(config=_config(), mesh=mesh, batch_size=_BATCH_SIZE, length=_LENGTH)
    seen = cluster.call(metered_step, (str(mesh),), show=False)
    off = [
        abs(seen[rank][axis] - size_bytes)
        for rank in range(mesh.num_ranks)
        for axis, size_bytes in step.sent_bytes(rank).items()
    ]
    for axis in mesh.axes:
        table.add(f"{mesh}: sent by rank 0 along {axis}", [step.sent_bytes(0)[axis] / 1e6], "MB")
    table.add(f"{mesh}: off, any rank and axis", [float(max(off))], "B", target=0.0)


def metered_step(me: Rank, text: str) -> dict[str, int]:
    """On each rank: what it sends along each axis in the second step, by the meter; "loss": among all."""
    from course_lib.meter.communication.recorder import Recorder

    mesh = Mesh.parse(text)
    step, close = course_step(me, mesh, _config(), batch_of(_config(), _BATCH_SIZE, _LENGTH))
    step()
    with Recorder(me.rank) as recorder:
        step()
    close()
    sent = dict.fromkeys([*mesh.axes, "loss"], 0)
    for call in recorder.calls:
        ends = {me.rank, me.rank if call.peer is None else call.peer}
        ranks = call.group if call.peer is None else ends
        axis = next((one for one in mesh.axes if set(ranks) <= set(mesh.group(me.rank, one))), "loss")
        sent[axis] += sum(call.sent_bytes.values())
    return sent


# -- the order of the axes, shaped links ----------------------------------------------------------------------


def add_orders(table: Table, mesh: Mesh, rounds: int) -> None:
    """A line for each order, measured and predicted, and by how much the two differ."""
    per_node, num_nodes = mesh.ranks_per_node, mesh.num_ranks // mesh.ranks_per_node
    links = Links.nodes(per_node, inside=_WITHIN, across=_BETWEEN)
    network = Network.nodes(num_nodes, per_node, intra=_WITHIN, inter=_BETWEEN)
    orders = list(mesh.orders())
    with Cluster(mesh.num_ranks, links=links, timeout_s=600) as cluster:
        by_rank = cluster.call(timed_steps, (tuple(map(str, orders)), rounds), show=False)
    errors = []
    for place, order in enumerate(orders):
        step = MeshStep(config=_small_config(), mesh=order, batch_size=_BATCH_SIZE, length=_SMALL_LENGTH)
        predicted_s, times_s = mesh_step_time(step, network).step_s, _slowest(by_rank, place)
        bytes_between = step.by_link().between_bytes
        table.add(f"{order}: between nodes", [bytes_between / 1e6], "MB")
        table.add(f"{order}: a step, predicted", [predicted_s], "s")
        table.add(f"{order}: a step", times_s, "s")
        errors.append(100 * abs(predicted_s / median(times_s) - 1))
    name = f"prediction off, all orders, {per_node} ranks a node"
    table.add(name, errors, "%", target=_PROMISED_ERROR)


def timed_steps(me: Rank, texts: tuple[str, ...], rounds: int) -> list[list[float]]:
    """On each rank: for each mesh the seconds of some steps, forward and backward, begun together."""
    import torch
    import torch.distributed as dist

    from course_lib.models import Transformer
    from course_lib.parallel.mesh import OnMesh

    batch, found = batch_of(_small_config(), _BATCH_SIZE, _SMALL_LENGTH), []
    for text in texts:
        torch.manual_seed(0)
        model = OnMesh(me, Mesh.parse(text), Transformer(_small_config()))
        mine, times_s = model.data.deal(*batch), []
        for number in range(-2, rounds):  # the first ones find shapes, and the order of units
            model.zero_grad()
            dist.barrier()
            began_s = time.perf_counter()
            model.step(*mine)
            if number >= 0:
                times_s.append(time.perf_counter() - began_s)
        model.close()
        found.append(times_s)
    return found


def _slowest(by_rank: Sequence[list[list[float]]], place: int) -> list[float]:
    return [max(times_s) for times_s in zip(*(found[place] for found in by_rank), strict=True)]
