"""11.step: more stages than four."""

from __future__ import annotations

from answer_table import Row


def ring_s(link, num_ranks, size_bytes):
    return 2 * (num_ranks - 1) * link.time_s(size_bytes / num_ranks)


def right_step(work, cut, nodes, layers=None):
    parts = cut.dp * cut.micro_batches
    layers = (layers or work.layers) / cut.pp
    sums_s = 2 * ring_s(nodes.link(cut.tp, 1), cut.tp, work.activation_bytes / parts)
    forward_s = layers * (work.forward_s / parts / cut.tp + sums_s)
    backward_s = layers * (2 * work.forward_s / parts / cut.tp + sums_s)
    hops_s = 2 * nodes.link(cut.pp, cut.tp * cut.dp).time_s(work.activation_bytes / parts) if cut.pp > 1 else 0.0
    one_s = ring_s(nodes.link(cut.dp, cut.tp), cut.dp, work.gradient_bytes / cut.pp / cut.tp / cut.buckets)
    late_s = max(one_s, cut.buckets * one_s - (1 - 1 / cut.buckets) * backward_s)
    return (cut.micro_batches + cut.pp - 1) * (forward_s + backward_s + hops_s) + late_s


def a_layer_more_above_four_stages(work, cut, nodes):
    return right_step(work, cut, nodes, work.layers + (cut.pp > 4))


ROWS = [
    Row(answer=right_step, verdict="passed", why="the definition"),
    Row(
        answer=a_layer_more_above_four_stages,
        verdict="not yet",
        why="eight stages share the same layers",
        words=("eight stages",),
    ),
]
