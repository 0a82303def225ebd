"""Part a of lesson 09: places on a mesh, groups, and which axis gets the fast link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.layouts.mesh import Mesh
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["PLACES"]

Pair = tuple[str, ...]
_RANK = 5
_PARTNERS = ("rank 1", "rank 3", "rank 4", "rank 6", "rank 7")


def _partner(groups: Mapping[str, Sequence[int]]) -> Explanation:
    """From the groups of rank 5, by axis, in a mesh of 2 x 2 x 2."""
    others = {axis: next(rank for rank in group if rank != _RANK) for axis, group in groups.items()}
    pp, dp, tp = (f"rank {others[axis]}" for axis in ("pp", "dp_shard", "tp"))
    return Explanation(
        measured=pp,
        label="computed",
        because="`pp` is the outermost axis, and one step along it passes over all places of the two axes after it: "
        f"four ranks. Along `dp_shard` the step is two ranks, to {dp}; along `tp` it is one rank, to {tp}. So on "
        "nodes of four ranks a stage sends to another node.",
        misreadings={
            tp: "Ranks 4 and 5 have neighbouring numbers, and such ranks differ along the *last* axis.",
            dp: "That is two ranks further: a step along the middle axis.",
            "rank 6": "Ranks 5 and 6 differ along two axes at once, so no group of one axis has them both.",
            "rank 3": "Ranks 3 and 5 differ along two axes at once, so no group of one axis has them both.",
        },
    )


_AXES = ("pp", "dp_replicate", "tp")


def _axis(sent: Mapping[Pair, Mapping[str, int]]) -> Explanation:
    """From the bytes that a rank sends along each axis, on three meshes of two axes."""
    most = {axis: max(sizes.get(axis, 0) for sizes in sent.values()) for axis in _AXES}
    pp, dp, tp = (most[axis] for axis in _AXES)
    winner = max(most, key=lambda axis: most[axis])
    misreadings = {
        "dp_replicate": "A rank has half of the gradients, and sends them once a step. Activations travel at every "
        "region of every layer, forward and backward, and here all these sums together have more numbers than the "
        "rank has weights.",
        "pp": "A pipeline sends activations as well, but at a single cut: activations once forward, and their "
        "gradients once backward.",
        "tp": "Here another axis sent more: compare the activations of a rank with its weights.",
    }
    return Explanation(
        measured=winner,
        because=f"Along `tp` a rank sends {tp / max(dp, 1):.1f} times the bytes of `dp_replicate`, and "
        f"{tp / max(pp, 1):.0f} times those of `pp`. The activations of all tokens are summed there twice in every "
        "layer, and as often in backward. Gradients are as many as weights, whatever the batch. A pipeline sends "
        "the activations of one cut.",
        misreadings={axis: said for axis, said in misreadings.items() if axis != winner},
    )


_ORDERS = ("pp, tp", "tp, pp", "in both", "in neither")


def _cut(orders: Sequence[Mesh]) -> Explanation:
    """From the mesh that is asked about, in both orders."""
    staying = [order for order in orders if order.stays_within_a_node("tp")]
    both, neither = _ORDERS[2:]
    measured = neither if not staying else both if len(staying) > 1 else ", ".join(staying[0].axes)
    return Explanation(
        measured=measured,
        label="computed",
        because="Four ranks do not fit on a node of two. The order decides only how they are placed: two on each "
        "node, or each on a node of its own. No order makes a group smaller. So choose the size of `tp` by the size "
        "of a node first, and the order afterwards.",
        misreadings={
            "pp, tp": "A group along `tp` has ranks 0 to 3, and the first node ends with rank 1.",
            "tp, pp": "Then the ranks of a group along `tp` are 0, 2, 4 and 6: each on another node.",
            both: "A node has two ranks, so a group of four has ranks on at least two nodes.",
        },
    )


def _factor(measured: float, wrong_s: float, right_s: float, seconds: Mapping[str, Sequence[float]]) -> Explanation:
    """From the measured ratio, what the model says of both orders, and each axis' (within_s, between_s)."""
    tp_s, dp_s = seconds["tp"], seconds["dp_replicate"]
    slower = round(tp_s[1] / tp_s[0])
    return Explanation(
        measured=round(measured, 1),
        model=round(wrong_s / right_s, 1),
        because=f"By the model, in the right order `tp` takes {tp_s[0] * 1e3:.0f} ms within the node and the gradients "
        f"{dp_s[1] * 1e3:.0f} ms between nodes. In the wrong one `tp` takes {tp_s[1] * 1e3:.0f} ms and the gradients "
        f"{dp_s[0] * 1e3:.0f} ms. In any order one of the two goes between nodes. And the job's results are right, "
        f"so only a clock shows the difference.",
        misreadings={
            slower: "The link is that much slower. But in the right order the gradients go from node to node, and "
            "in the wrong order they get the fast link.",
            round(tp_s[0] / dp_s[0]): "That is the ratio of the bytes of the two axes. For both orders, divide the "
            "bytes of each axis by the speed of its link, and add up.",
            1: "The bytes are the same in both orders. The links that they take are not.",
        },
        apart="Each message has a latency that the model leaves out, and a busy machine delays some messages. Look "
        "at the times above: are both orders late by about as much?",
    )


_INSIDE = ("tp", "dp_replicate", "it makes no difference")
_EQUAL = 1.05  # times within 5 % are called equal


def _habit(times_s: Mapping[str, float], seconds: Mapping[str, Sequence[float]]) -> Explanation:
    """From the time with each axis within the node, and each axis' (within_s, between_s)."""
    tp_s, dp_s = seconds["tp"], seconds["dp_replicate"]
    model_s = {"tp": tp_s[0] + dp_s[1], "dp_replicate": dp_s[0] + tp_s[1]}
    measured, model = _better(times_s), _better(model_s)
    misreadings = {
        "tp": "That was right at 32 rows. What `tp` sends shrinks with the batch; the gradients do not.",
        "dp_replicate": "With these sizes `tp` sends more: look at the bytes above.",
        _INSIDE[2]: "It would make none if both axes sent equally much. Look at the bytes.",
    }
    return Explanation(
        measured=measured,
        model=model,
        because=f"By the model {model_s['dp_replicate'] * 1e3:.0f} ms with the gradients inside, and "
        f"{model_s['tp'] * 1e3:.0f} ms with `tp` inside. What `tp` sends grows with the tokens; every weight has its "
        "gradient, however few they are. This happens with large models and few tokens on a rank.",
        misreadings={axis: said for axis, said in misreadings.items() if axis not in (measured, model)},
        apart="A busy machine delays many small messages, and `tp` has more of them. Run the cell again.",
    )


def _better(times_s: Mapping[str, float]) -> str:
    """Which axis belongs within the node, by the time of the messages with it there."""
    best, other = sorted(times_s, key=lambda axis: times_s[axis])
    return _INSIDE[2] if times_s[other] < _EQUAL * times_s[best] else best


def _six(times_s: Mapping[Pair, float]) -> Explanation:
    """From the time of a step in each order of three axes, on nodes that hold two of them."""
    different = {float(f"{time_s:.6g}") for time_s in times_s.values()}
    num_axes = len(next(iter(times_s)))
    return Explanation(
        measured=len(different),
        label="computed",
        because="A node of four holds any two of these axes, in either order; only the outermost axis leaves it. So "
        f"it matters only which of {num_axes} axes stands first, and that should be the one with the least to send. "
        "The order within the node is free, as long as all links within a node are equal.",
        misreadings={
            6: "Exchange the two inner axes: their groups change, but are on the same nodes as before.",
            2: "Then two of the axes would have to send equally much.",
            1: "Some axis has to leave the node, and the three send different amounts.",
        },
    )


PLACES: tuple[Asked, ...] = (
    Asked(
        name="09.partner",
        question="pp=2 dp_shard=2 tp=2: with which rank does rank 5 form its group along pp?",
        choices=_PARTNERS,
        tell=_partner,
    ),
    Asked(
        name="09.axis",
        question="Along which axis does a rank send the most bytes?",
        choices=_AXES,
        tell=_axis,
    ),
    Asked(
        name="09.cut",
        question="pp=2, tp=4, two ranks on a node: in which order does tp stay within its node?",
        choices=_ORDERS,
        tell=_cut,
    ),
    Asked(
        name="09.factor",
        question="tp between nodes: how many times as long do the messages of a step take?",
        unit="times",
        high=1000,
        tell=_factor,
    ),
    Asked(
        name="09.habit",
        question="4 rows: which axis should have the link within the node?",
        choices=_INSIDE,
        tell=_habit,
    ),
    Asked(
        name="09.six",
        question="Six orders of three axes on nodes of four: how many different times?",
        high=100,
        tell=_six,
    ),
)
