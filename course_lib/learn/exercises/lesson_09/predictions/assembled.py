"""Part d of lesson 09: three cuts at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.claims import VERDICTS, Evidence
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["ASSEMBLED"]

_INSIDE = (
    "an error that says what is wrong",
    "an error about something else",
    "no error, and the losses of one device",
    "no error, and other losses",
)


def _inside(error: str) -> Explanation:
    """From the first line of the error; empty where there was none."""
    says = any(word in error for word in ("slice", "shard", "at rest"))
    return Explanation(
        measured=(_INSIDE[0] if says else _INSIDE[1]) if error else _INSIDE[2],
        because="`split_transformer` wants a whole matrix, to keep a slice of it. It finds the rows that sharding has "
        "left to this rank. `FullySharded` marks such rows and refuses whoever computes with them. Without the mark "
        "the layer would believe that half of the table of tokens is all of it. Splitting needs whole matrices, while "
        "sharding takes what there is: any module with parameters. So sharding comes last. Stages fall between "
        "layers and slices within, so these two may change places, if the whole model has said where its stages end.",
        misreadings={
            _INSIDE[1]: "That is what you would get if rows had no mark. A layer would take them for its whole "
            "matrix, and a token would look for a row that is not there.",
            _INSIDE[2]: "Cuts along two axes do not commute here: the second is taken of what the first has left, "
            "and the layers count on whole matrices.",
            _INSIDE[3]: "Near: if rows had no mark, and the sizes of a layer happened to fit, this is what you would "
            "get.",
        },
    )


def _kept(share: float, shares: Sequence[float]) -> Explanation:
    """From the largest share of the model's numbers that one of eight ranks keeps, and the shares of all."""
    return Explanation(
        measured=round(100 * share, 1),
        because="An eighth is 12.5 %. It is a little more on the ranks of the first stage, which has the positions and "
        f"the larger half. And norms and positions are copies along tp. All eight together keep {sum(shares):.2f} "
        "models. The gradients and AdamW's two states are as large as the rows, so this is the share of all that stays "
        "between two steps. Within a step it is more: a sharded stage of a pipeline holds the whole gradients of its "
        "slices until the last micro-batch is back.",
        misreadings={
            25: "That is stages times slices. What is left of a stage is shared out once more, by rows.",
            50: "That is one axis of the three. They multiply: each cuts what the one before has left.",
            lambda percent: percent >= 100: "That is a replica. No axis of this mesh makes replicas.",
        },
    )


_AXIS = ("pp", "dp_shard", "tp")


def _axis(sent_bytes: Mapping[str, float], num_micro_batches: int) -> Explanation:
    """From the bytes that a rank sent in a step, by axis."""
    in_order = sorted(_AXIS, key=lambda axis: -sent_bytes[axis])
    times = sent_bytes[in_order[0]] / sent_bytes[in_order[1]]
    misread = {
        "pp": "It sends the activations of a cut once, and their gradient: the least of all, which is why it may "
        "have the slowest link.",
        "tp": "So it was in part 1, where replicas averaged their gradients once a step. Shards of a stage have to "
        "come together for every micro-batch.",
        "dp_shard": "Without a pipeline the gathers are three a step; look at the sizes of batch and model here.",
    }
    return Explanation(
        measured=in_order[0],
        because=f"{in_order[0]} sends {times:.1f} times what {in_order[1]} does. In lesson 05 a step had two "
        f"all-gathers and a reduce-scatter, 3 messages the size of a shard. Here a stage computes {num_micro_batches} "
        f"times there and {num_micro_batches} times back, and gathers its weights each time: {2 * num_micro_batches} "
        "all-gathers, and one reduce-scatter at the end. What tp sends goes by the samples, and is the same in one "
        "batch or in many small ones. With longer sequences or more samples tp would come first again.",
        misreadings={axis: sentence for axis, sentence in misread.items() if axis != in_order[0]},
    )


def _micro(times: float, num_micro_batches: int) -> Explanation:
    """From the bytes along dp_shard with twice as many micro-batches, over those with ``num_micro_batches``."""
    m = num_micro_batches
    return Explanation(
        measured=round(times, 2),
        model=(4 * m + 1) / (2 * m + 1),
        because=f"{4 * m} all-gathers and a reduce-scatter, over {2 * m} and one. You took more micro-batches for a "
        "smaller bubble, and pay with the data axis. So large jobs shard less within a pipeline: Megatron-LM's "
        "distributed optimizer is ZeRO-1, and Llama 3 keeps weights whole from forward to backward.",
        misreadings={
            1: "The batch is the same, and what goes by samples stays. Weights are gathered for every micro-batch.",
            0.5: "Half the samples come in each, and the weights that they need are as large as before.",
        },
        apart="The model counts all-gathers and one reduce-scatter. Print a rank's calls along dp_shard, and count.",
    )


_ROWS = ("0 to 63", "64 to 127", "128 to 191", "192 to 255")


def _rows(first_row: int) -> Explanation:
    """From the number of the first row that rank 1 holds."""
    return Explanation(
        measured=_ROWS[first_row // 64],
        because="Rank 1 has dp_shard 0 and tp 1. The matrix was first cut in slices: tp 1 has rows 128 to 255. Here "
        "dp_shard 0 keeps the first half. PyTorch has to write this down as `_StridedShard`: the placements of a "
        "DTensor are read from the outermost axis inwards. So they read as if dp_shard had cut first, and it was tp. "
        "That is the order in which this part has cut: slices first, rows last.",
        misreadings={
            _ROWS[0]: "That is rank 0: both its numbers are 0.",
            _ROWS[1]: "So it would be if dp_shard had cut first, as the order of the axes reads. Who was called first?",
            _ROWS[3]: "That is rank 3, with 1 along both axes.",
        },
    )


def _a12(evidence: Evidence) -> Explanation:
    return Explanation(
        measured=evidence.verdict,
        label="the trial says",
        because="Each axis ends somewhere: slices at the heads, stages at the pieces, shares at the samples of a "
        "batch. Their product goes further than any of them, and it is the same training. The sentence says what is "
        "done, and *model parallelism* in it means two things, slices and stages.",
        misreadings={
            "misleading": "A fair doubt about the words, and the facts are on the sentence's side.",
            "false": "You have done it.",
            "holds with conditions": "Which? Look at the facts: on more ranks than any axis has places, there is no "
            "other way.",
        },
    )


ASSEMBLED: tuple[Asked, ...] = (
    Asked(
        name="09.inside",
        question="Sharded first, then split. What comes of it?",
        choices=_INSIDE,
        tell=_inside,
    ),
    Asked(
        name="09.kept",
        question="pp=2 dp_shard=2 tp=2: what share of the model does a rank keep at most?",
        unit="%",
        high=1000,
        tell=_kept,
    ),
    Asked(name="09.most", question="Along which axis does a rank send most?", choices=_AXIS, tell=_axis),
    Asked(
        name="09.micro",
        question="Twice as many micro-batches: how many times the bytes along dp_shard?",
        unit="times",
        high=1000,
        tell=_micro,
    ),
    Asked(name="09.strip", question="Which rows of `w_up` has rank 1?", choices=_ROWS, tell=_rows),
    Asked(
        name="09.a12",
        question="For very large models, data and model parallelism are combined. Your bet?",
        choices=VERDICTS,
        tell=_a12,
    ),
)
