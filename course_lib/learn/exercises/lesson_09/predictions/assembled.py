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
        because="`split_transformer` needs a whole matrix, to keep a slice of it. But it finds only the rows that "
        "sharding has left to this rank. `FullySharded` marks such rows and refuses to let other code compute with "
        "them. Without the mark the layer would treat half of the table of tokens as the whole table. Splitting "
        "needs whole matrices, while sharding works with any module that has parameters. So sharding comes last. "
        "Stages fall between "
        "layers and slices within, so these two may change places, if the whole model has said where its stages end.",
        misreadings={
            _INSIDE[1]: "That is what you would get if rows had no mark. A layer would take them for its whole "
            "matrix, and a token would look for a row that is not there.",
            _INSIDE[2]: "The order of the two cuts matters here: the second one cuts what the first has left, and "
            "the layers need whole matrices.",
            _INSIDE[3]: "Your answer is near: you would get this if rows had no mark, and if the sizes of a layer "
            "happened to fit.",
        },
    )


def _kept(share: float, shares: Sequence[float]) -> Explanation:
    """From the largest share of the model's numbers that one of eight ranks keeps, and the shares of all."""
    return Explanation(
        measured=round(100 * share, 1),
        because="An eighth is 12.5 %. It is a little more on the ranks of the first stage, which has the positions and "
        f"the larger half. And norms and positions are copied along tp. All eight ranks together keep "
        f"{sum(shares):.2f} "
        "models. The gradients and AdamW's two states are as large as the rows, so this is the share of all that stays "
        "between two steps. Within a step it is more: a sharded stage of a pipeline holds the whole gradients of its "
        "slices until the last micro-batch is back.",
        misreadings={
            25: "That is stages times slices. But dp_shard shares out the rest of a stage once more, by rows.",
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
        "pp": "It sends the activations of a cut once, and their gradient. That is the least of all, so it may have "
        "the slowest link.",
        "tp": "That was so in part 1, where replicas averaged their gradients once a step. Here the shards of a "
        "stage are gathered for every micro-batch.",
        "dp_shard": "Without a pipeline the gathers are three a step; look at the sizes of batch and model here.",
    }
    return Explanation(
        measured=in_order[0],
        because=f"{in_order[0]} sends {times:.1f} times what {in_order[1]} does. In lesson 05 a step had two "
        f"all-gathers and a reduce-scatter, 3 messages the size of a shard. Here a stage computes {num_micro_batches} "
        f"times there and {num_micro_batches} times back, and gathers its weights each time: {2 * num_micro_batches} "
        "all-gathers, and one reduce-scatter at the end. The bytes along tp depend on the samples, and are the same "
        "in one batch or in many small ones. With longer sequences or more samples tp would send most again.",
        misreadings={axis: sentence for axis, sentence in misread.items() if axis != in_order[0]},
    )


def _micro(times: float, num_micro_batches: int) -> Explanation:
    """From the bytes along dp_shard with twice as many micro-batches, over those with ``num_micro_batches``."""
    m = num_micro_batches
    return Explanation(
        measured=round(times, 2),
        model=(4 * m + 1) / (2 * m + 1),
        because=f"{4 * m} all-gathers and a reduce-scatter, over {2 * m} and one. You took more micro-batches for a "
        f"smaller bubble, and now the data axis sends more. So large jobs shard less within a pipeline: Megatron-LM's "
        "distributed optimizer is ZeRO-1, and Llama 3 keeps weights whole from forward to backward.",
        misreadings={
            1: "The batch is the same, so bytes that depend on samples stay. But weights are gathered for every "
            "micro-batch.",
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
        "DTensor are read from the outermost axis inwards. So they read as if dp_shard had cut first, but tp did. "
        "This part has cut in the same order: slices first, rows last.",
        misreadings={
            _ROWS[0]: "That is rank 0: both its numbers are 0.",
            _ROWS[1]: "That would be so if dp_shard had cut first, as the order of the axes reads. Which function "
            "was called first?",
            _ROWS[3]: "That is rank 3, with 1 along both axes.",
        },
    )


def _a12(evidence: Evidence) -> Explanation:
    return Explanation(
        measured=evidence.verdict,
        label="the trial says",
        because="Each axis has a largest size: the heads limit slices, the pieces limit stages, the samples of a "
        "batch limit shares. Their product allows more ranks than any of them alone, and the training is the same. "
        "The claim describes this, and its *model parallelism* means two things, slices and stages.",
        misreadings={
            "misleading": "You may doubt the words, but the facts support the claim.",
            "false": "You have done it.",
            "holds with conditions": "Which condition? Look at the facts: on more ranks than any axis has places, "
            "there is no other way.",
        },
    )


ASSEMBLED: tuple[Asked, ...] = (
    Asked(
        name="09.inside",
        question="Sharded first, then split. What happens?",
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
