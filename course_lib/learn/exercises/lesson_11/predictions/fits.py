"""Part a of lesson 11: what a job needs, and the fewest devices that hold it."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.plan import Decoder, StepParts

__all__ = ["FITS"]

_GB = 1e9
_UNIT = "GB"


def _kept(kept_bytes: float, seq: int, model: Decoder) -> Explanation:
    """From what a sequence leaves behind in all layers."""
    tokens = seq * model.layers
    old_gb = 34 * tokens * model.hidden / _GB
    a_channel = kept_bytes / (tokens * model.hidden)
    mlp = 8 * model.ffn / model.hidden
    return Explanation(
        measured=round(kept_bytes / _GB, 1),
        label="computed",
        because=f"A layer keeps {a_channel:.1f} bytes for each token and channel. The gated MLP keeps {mlp:.0f} of "
        "them: "
        "four tensors of its inner width, where GPT's has two. Rotation keeps queries and keys as they came, and once "
        "more in float32. Fewer heads of keys and values save a little, and masks of dropout are gone. The list in "
        "the cell is from programs whose memory was measured; you will meet their runs below.",
        misreadings={
            round(
                old_gb, 1
            ): "That is the 34 of GPT. Look at this model's MLP: how many tensors of its inner width are "
            "there, and how wide are they?",
            round(
                2 * tokens * model.hidden / _GB, 1
            ): "Those are the inputs of the layers, what recomputation would keep.",
            round(kept_bytes / model.layers / _GB, 1): "That is one layer.",
        },
    )


def _logits(logits_bytes: float, seq: int, model: Decoder) -> Explanation:
    """From the bytes of a sequence's logits and all that comes of them."""
    number = seq * model.vocab
    return Explanation(
        measured=round(logits_bytes / _GB, 1),
        label="computed",
        because=f"There are {number / _GB:.2f} billion scores, and the device holds three tensors of this size. One is "
        "from the output layer, in 2 bytes a number, and one in float32 for the loss. The third has "
        "the probabilities in float32, which become the gradient. The scores "
        "of one token "
        f"are {model.vocab / model.hidden:.0f} times as many as its channels. And they are there when the device is "
        "fullest: it holds all activations, and none has been freed. (Programs differ by a copy or two: PyTorch's "
        "own loss makes new tensors for gradients.)",
        misreadings={
            round(2 * number / _GB, 1): "Those are the numbers of the output layer, in 16 bits. The loss computes in "
            "float32, and makes more of them.",
            round(4 * number / _GB, 1): "That is one tensor in float32. But there are two more: the one in 16 bits, "
            "and the probabilities.",
            lambda size_gb: size_gb < 0.5: "Each token of the sequence has its scores, not the last one alone: every "
            "position is trained.",
        },
    )


def _stages(undivided: int, of_stages: Sequence[int]) -> Explanation:
    """From what one device keeps of a sequence, and the most that each stage of a pipeline keeps."""
    shares = [kept / undivided for kept in of_stages]
    stages = len(shares)
    return Explanation(
        measured=round(100 * shares[0]),
        model=100,
        because=f"The first stage has 1/{stages} of the layers, and {stages} micro-batches in flight: it lets new ones "
        "in until the first comes back. So the cut saves nothing there. Each later stage has one micro-batch less "
        f"in flight, and the last stage keeps {shares[-1]:.0%}. Twice the stages halve the layers, and double the "
        "micro-batches "
        "in flight.",
        misreadings={
            round(100 / stages): "That would be one micro-batch in flight. When its backward comes, how many forwards "
            "has the first stage run?",
            400: "That is GPipe, with all sixteen in flight. 1F1B keeps fewer.",
            1600: "That would be sixteen micro-batches with all the layers. The first stage has a part of the layers, "
            "and 1F1B keeps fewer micro-batches.",
        },
        apart="The ledger counts a message's buffers until gloo lets them go. Run it again: the least of several runs "
        "is what the schedule needs.",
    )


_COUNTS = ("2, and 2", "4, and 2", "4, and 4", "8, and 2", "8, and 4")


def _fewest(plain: int, recomputed: int) -> Explanation:
    """From the fewest devices without and with recomputation."""
    right = f"{plain}, and {recomputed}"
    said = {
        "2, and 2": "Two devices hold the states. But they must also share the activations of the sequence, and the "
        "logits.",
        "4, and 2": "Compare the fullest stage with the room that a device has.",
        "4, and 4": "With all layers computed again, activations are a small number. States and logits are left.",
        "8, and 2": "The sum of the three numbers is less than three devices, and one cut makes all of them smaller.",
        "8, and 4": "The sum of the three numbers is less than three devices, and one cut makes all of them smaller.",
    }
    return Explanation(
        measured=right,
        label="computed",
        because="A tensor axis of 2 cuts states, logits and activations in two. It is the only cut that makes all "
        "three smaller. Without recomputation half of their sum is still too much. Sharding alone never gets "
        "below a sequence's activations and logits, on however many devices.",
        misreadings={text: sentence for text, sentence in said.items() if text != right},
    )


_SUSPECTS = (
    "states: a large vocabulary has large tables",
    "activations of the layers",
    "the scores of all tokens, and what comes of them",
    "gradients, while all activations are still there",
)


def _died() -> Explanation:
    tables, layers, scores, gradients = _SUSPECTS
    return Explanation(
        measured=scores,
        because="With half the layers almost nothing changes, so the cause is not what layers keep. With half the "
        "tokens the memory is nearly halved, so the cause is neither states nor gradients, which belong to the "
        "model. One thing grows with tokens and not with layers: a row of 16,384 scores for each token. When "
        "backward begins there are three "
        "tensors of this size at once. One has the logarithms of probabilities, which the forward pass has kept. The "
        "others are the gradient of these logarithms and the gradient of the scores.",
        misreadings={
            tables: "They are large, and he has counted them. They do not depend on the number of tokens.",
            layers: "With half the layers, half of the memory would then be free.",
            gradients: "A weight's gradient is as large as the weight, however many tokens there are. And the job "
            "stopped before any weight had one.",
        },
    )


def _alone(one: StepParts, many_s: float, gpus: int, batch: int) -> Explanation:
    """From the planner's step of ``batch`` sequences on one device with offloading, and its seconds on ``gpus``."""
    one_s, host_s = one.total_s, one.optimizer_s
    of_one_sequence_s = host_s + (one_s - host_s) / batch
    return Explanation(
        measured=round(100 * many_s * gpus / one_s),
        label="by the planner",
        because=f"A step takes {one_s:.0f} s on one device, and {many_s:.1f} s on {gpus}. Sending gradients to the "
        f"host, the host's update and sending weights back are {host_s:.1f} s of it. They come once a step, not once "
        f"a micro-batch. In a step of one sequence their share would be {host_s / of_one_sequence_s:.0%}. The other "
        f"cost is computing layers again. With {gpus} devices you gain mostly time. For a fine-tuning of some "
        "hundred steps one device is enough.",
        misreadings={
            lambda per_cent: per_cent < 40: "The link is slow. How often in a step is it used, and how long do the "
            f"{batch} sequences of a step take?",
            lambda per_cent: per_cent > 100: "That would be more than each of many devices processes. But they lose "
            "less time by communication than one device loses by computing layers again.",
        },
    )


FITS: tuple[Asked, ...] = (
    Asked(
        name="11.kept",
        question="One sequence: how much do all layers keep?",
        unit=_UNIT,
        high=10_000,
        tell=_kept,
    ),
    Asked(
        name="11.logits",
        question="One sequence: how large are its logits, with the tensors that the loss makes from them?",
        unit=_UNIT,
        high=10_000,
        tell=_logits,
    ),
    Asked(
        name="11.stages",
        question="How much does the first of four stages keep?",
        unit="%",
        high=10_000,
        tell=_stages,
    ),
    Asked(
        name="11.fewest",
        question="The fewest devices: with nothing computed again, and with all layers computed again?",
        choices=_COUNTS,
        tell=_fewest,
    ),
    Asked(name="11.died", question="What has filled the device?", choices=_SUSPECTS, tell=_died),
    Asked(
        name="11.alone",
        question="One device with offloading: how many tokens does it process, compared with each of 8?",
        unit="%",
        high=1000,
        tell=_alone,
    ),
)
