"""Part b of lesson 05: units that are whole while they compute, and memory over a step."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib import cost
from course_lib.cost.data_parallel.sharded_step import ShardedMoment, UnitSizes
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["UNITS"]

_RANKS = 4
_BYTES = 4  # of a float32 number
_STATES = 4  # a weight, its gradient, and two states of AdamW


def _stack(width: int, layers: int, *, of: int = 1, num_ranks: int = _RANKS) -> list[ShardedMoment]:
    """The moments of a step of square layers, ``of`` of them in a unit."""
    numel = of * width * width
    units = [UnitSizes(numel, numel // num_ranks)] * (layers // of)
    return cost.sharded_moments(units, num_ranks=num_ranks, prefetch=0)


def _fullest(moments: list[ShardedMoment]) -> ShardedMoment:
    return max(moments, key=lambda moment: moment.total)


def _peak(peak_bytes: float, layers: int, width: int) -> Explanation:
    layer_kib = width * width * _BYTES / 1024
    alone_kib = _STATES * layers * layer_kib
    fullest = _fullest(_stack(width, layers))
    rows_kib, messages_kib = (fullest.kept + fullest.gradients) / 1024, fullest.messages / 1024
    beside_kib = (fullest.whole + fullest.whole_gradients) / 1024
    return Explanation(
        measured=round(peak_bytes / 1024),
        model=round(fullest.total / 1024),
        because=f"At the fullest moment, by the model: {rows_kib:.0f} KiB are this rank's quarters. "
        f"{beside_kib:.0f} KiB are a layer that is whole, since nobody can multiply by a quarter of a matrix and have "
        f"the whole result. And {messages_kib:.0f} KiB are buffers of messages. One holds the weights of this layer as "
        "they arrived. Others hold gradients of the layer whose backward is just over: those that leave and those that "
        "come. (This rank does not have the rows of all gradients yet.)",
        misreadings={
            alone_kib / _RANKS: "That is what it holds after backward, when no layer computes. To compute with a "
            "layer it has to have it.",
            alone_kib: "That is one device, or each of four under DDP.",
            lambda kib: alone_kib / _RANKS < kib <= alone_kib / _RANKS + 1.2 * layer_kib: "Near: the quarters, and a "
            "layer that is whole. Messages need memory too: a buffer in which the four "
            "parts arrive, and those from which gradients leave and in which they come.",
            lambda kib: (
                kib >= 0.9 * layers * layer_kib + alone_kib / _RANKS
            ): "Then all layers would be whole at the same time. They are needed one after the other.",
        },
        apart="Bytes do not depend on how busy a machine is. Run the cell again: a buffer that gloo's thread still "
        "held would be gone. What stays is something that the model leaves out.",
    )


_GRADIENTS = ("that of the weight", "that of the input", "both", "neither")


def _again(spoilt: Mapping[str, bool]) -> Explanation:
    """From which of the two gradients came out as NaN: of the ``input``, and of the ``weight``."""
    of_weight, of_input, both, neither = _GRADIENTS
    measured = {
        (False, True): of_input,
        (True, False): of_weight,
        (True, True): both,
        (False, False): neither,
    }
    return Explanation(
        measured=measured[spoilt["weight"], spoilt["input"]],
        because="Y = X Wᵀ. The gradient of X is dY W: each number of X has gone through a column of W, and goes back "
        "through it. The gradient of W is dYᵀ X: it needs the input, and not W itself. So every layer but the "
        "first, whose input nobody trains, needs its weights twice in a step.",
        misreadings={
            of_weight: "That is dYᵀ X, in which there is no W. So a weight that has gone can still be trained.",
            both: "One of the two has only X and dY in it.",
            neither: "Backward does not need the *outputs* of a linear layer. But the chain rule goes back through the "
            "same matrix.",
        },
    )


def _gathers(collectives: int, num_blocks: int, num_tensors: int) -> Explanation:
    units = num_blocks + 1
    return Explanation(
        measured=collectives,
        model=3 * units,
        because=f"{units} units: each block, and one for what belongs to no block, the stem and the head. Each "
        "unit needs an all-gather before its forward, an all-gather before its backward, and a reduce-scatter of its "
        "gradients.",
        misreadings={
            3 * num_blocks: "That is the blocks alone. The embedding and the head are cut too, so they have to come "
            "from somewhere: what belongs to no block is one more unit.",
            2 * units: "One all-gather and one reduce-scatter. But the weights are let go after forward, and backward "
            "needs them.",
            2 * num_blocks: "For each block one all-gather and one reduce-scatter. But backward needs the weights "
            "again; and what belongs to no block is a unit too.",
            3 * num_tensors: "Three for each *parameter*. The parameters of a unit travel together, in one message.",
            num_tensors: "One for each parameter, as without buckets in DDP. The parameters of a unit travel together, "
            "and more than once.",
        },
        apart="Messages do not depend on how busy a machine is. Look through the order of calls below.",
    )


def _batch(bytes_by_rows: Mapping[int, float]) -> Explanation:
    """From the bytes that a rank sends in a step, by the sequences that it has."""
    few, many = sorted(bytes_by_rows)
    return Explanation(
        measured=bytes_by_rows[many] / bytes_by_rows[few],
        model=1,
        because="Weights travel, and gradients of weights; activations stay where they are. So with a larger batch a "
        "rank computes more for the same messages. In tensor parallelism (lesson 08) it is the other way round: "
        "weights stay, and the bytes grow with the batch.",
        misreadings={
            2: "That would be so if activations travelled. They do not: the weights come to where the activations are.",
            lambda times: 1 < times < 2: "Do you count some messages that grow and some that do not? Look what is in "
            "them: weights, and gradients of weights.",
        },
        apart="Bytes do not depend on how busy a machine is. Look which calls the meter has counted.",
    )


_SHARES = ("about a quarter of it", "about half of it", "nearly all of it")


def _share(ratio: float) -> str:
    quarter, half, nearly = _SHARES
    return quarter if ratio < 0.35 else half if ratio < 0.7 else nearly


def _units(one_unit_bytes: float, ddp_bytes: float, layers: int, width: int) -> Explanation:
    quarter, half, _ = _SHARES
    whole = _STATES * layers * width * width * _BYTES
    fullest = _fullest(_stack(width, layers, of=layers))
    return Explanation(
        measured=_share(one_unit_bytes / ddp_bytes),
        model=_share(fullest.total / whole),
        because="When the unit's backward is over, the gradients of all layers are whole. Beside them are two "
        "messages, one with the gradients that leave and one with those of other ranks. Each is as large as all "
        "weights together. (A moment before, all weights were whole instead.) Between steps the rank holds a quarter; "
        "a device that runs out of memory runs out at the peak.",
        misreadings={
            quarter: "That is so between two steps. Look at the moment when the unit's backward is over: what is whole "
            "then, and what is about to leave?",
            half: "Half would be weights and gradients, whole. But what is whole has to travel, and a message needs "
            "memory too.",
        },
        apart="Bytes do not depend on how busy a machine is. Hold the two peaks above against each other.",
    )


def _ranks(peak_bytes: Mapping[int, float]) -> Explanation:
    """From the peaks of a step by the number of ranks."""
    few, many = sorted(peak_bytes)
    share = 100 * peak_bytes[many] / peak_bytes[few]
    return Explanation(
        measured=round(share),
        label="computed",
        because="What a rank keeps is a sixteenth. The layer that computes is as large as ever, and so are the buffers "
        "that bring it. Below that only smaller units help, or layers that are cut inside (lesson 08).",
        misreadings={
            lambda per_cent: per_cent <= 120 * few / many: "A sixteenth is what it *keeps*.",
            100: "The rows that a rank keeps do shrink, and were most of the peak on four ranks.",
        },
    )


_SUSPECTS = (
    "a name still refers to the whole weights",
    "autograd keeps the whole weights",
    "outputs of layers, kept for backward",
    "whole gradients that nobody has cut yet",
)


def _freed() -> Explanation:
    name, autograd, outputs, gradients = _SUSPECTS
    return Explanation(
        measured=autograd,
        label="the evidence says",
        because="Whole weights are there after a forward with gradients, and not after one under `no_grad`. They go "
        "when backward has used them. `F.linear` has saved its weight, for the gradient of its input. In lesson 01 a "
        "saved weight cost nothing, because it was there anyway. Here it is a copy that only the graph still refers "
        "to. (These are seven weights of eight: the input of the first layer needs no gradient.)",
        misreadings={
            name: "Then they would be there under `no_grad` too, which changes no names. (And `del` has deleted the "
            "only name.)",
            outputs: "Outputs are there, and grow with the batch: in the third line they are 64 times as large. "
            "Subtract them: what remains does not depend on the batch.",
            gradients: "After forward there are none, and after backward they are cut.",
        },
    )


_ANEW = ("nothing", "an all-gather for each layer", "a product for each layer", "both of them")


def _anew(gathers: Mapping[str, int], operations: Mapping[str, int]) -> Explanation:
    """From the all-gathers and the arithmetic in a step, before the change and after it."""
    nothing, gather, product, both = _ANEW
    more_gathers, more_work = (after["after"] > after["before"] for after in (gathers, operations))
    return Explanation(
        measured={(False, False): nothing, (True, False): gather, (False, True): product, (True, True): both}[
            more_gathers, more_work
        ],
        because="With `checkpoint` around the layer, or with the backward pass that you built in part 2, it is the "
        "all-gather. Backward does not need the product's *output*. `checkpoint` computes again only until all that "
        "was saved is there, and so it stops before the product. The second all-gather of stage 3 is "
        "recomputation too: it brings back a weight, and not an activation.",
        misreadings={
            nothing: "The weights have to come from somewhere: what is not kept has to be fetched again. If your table "
            "says so, the memory has not come back either.",
            product: "What backward misses is the weight, and that is no product's result.",
            both: "What does backward need of this layer? Its input, which is kept, and its weight. Not its output.",
        },
    )


UNITS: tuple[Asked, ...] = (
    Asked(
        name="05.peak",
        question="Everything in quarters: how much does a rank hold at the fullest moment of a step?",
        unit="KiB",
        tell=_peak,
    ),
    Asked(
        name="05.again",
        question="Which gradients of a layer need its weight?",
        choices=_GRADIENTS,
        tell=_again,
    ),
    Asked(
        name="05.gathers",
        question="In how many collectives does each rank take part, in a step?",
        unit="collectives",
        tell=_gathers,
    ),
    Asked(
        name="05.batch",
        question="Twice the batch: how many times as many bytes does a step send?",
        unit="times",
        tell=_batch,
    ),
    Asked(
        name="05.units",
        question="All layers in one unit: how much does a rank hold at its peak, compared with DDP?",
        choices=_SHARES,
        tell=_units,
    ),
    Asked(
        name="05.ranks",
        question="64 ranks in place of four: to how many per cent does the peak fall?",
        unit="%",
        high=100,
        tell=_ranks,
    ),
    Asked(name="05.freed", question="What holds the memory?", choices=_SUSPECTS, tell=_freed),
    Asked(
        name="05.anew",
        question="What does a step do now that it did not do before?",
        choices=_ANEW,
        tell=_anew,
    ),
)
