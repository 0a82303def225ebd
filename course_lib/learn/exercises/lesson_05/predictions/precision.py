"""Part h of lesson 05: the formats of messages by default, one scale for many weights, and errors over steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["PRECISION"]


def _but(measured: str, misread: Mapping[str, str]) -> dict[str, str]:
    """What is said to each choice but the one that is right."""
    return {choice: why for choice, why in misread.items() if choice != measured}


# -- the default --------------------------------------------------------------------------------------------------

_WIDE, _NARROW, _MIXED = (
    "sent and summed in float32",
    "sent and summed in bfloat16",
    "sent in bfloat16, summed in float32",
)


def _default(dtype: str, sums: Sequence[float]) -> Explanation:
    """From the dtype of the reduce-scatter with `param_dtype` alone, and what became of 256 + 1 + 1 + 1."""
    is_exact = all(total == 259 for total in sums)
    measured = (_WIDE if is_exact else _MIXED) if dtype == "float32" else _MIXED if is_exact else _NARROW
    found = " and ".join(f"{total:g}" for total in sorted(set(sums)))
    because = f"The reduce-scatter took {dtype}, and in place of 259 it made {found}. "
    if measured == _NARROW:
        because += (
            "`reduce_dtype=None` does not mean float32. Backward computes in bfloat16, so gradients are bfloat16, "
            "and they are reduced in that format. Between 256 and 512 bfloat16 has only every second whole number. "
            "256 and 1 make 256 again. Where 1 + 1 + 1 came first, 256 + 3 became 260. Which of the two "
            "you get depends on where a number stands in the ring. The shard's gradient is float32, but PyTorch "
            "converts it only after the sum."
        )
    return Explanation(
        measured=measured,
        because=because,
        misreadings=_but(
            measured,
            {
                _WIDE: "The shards and their gradients are float32, that is right. The cast comes after the sum.",
                _MIXED: "The course's own reduce-scatter does so: the rank that gets the parts adds them. "
                "A ring adds at each rank, in the format that it sends.",
                _NARROW: "That is so by default. Look in which format this run reduced.",
            },
        ),
    )


# -- accumulation -------------------------------------------------------------------------------------------------

_BOTH, _MANY, _ONE, _NEITHER = (
    "both",
    "the one with 300 messages",
    "the one with one message",
    "neither",
)


def _pieces(many: float, one: float, one_with_both: float) -> Explanation:
    """From the gradients after 300 pieces: a message for each, one message, and one with both dtypes set."""
    right = {(True, True): _BOTH, (True, False): _MANY, (False, True): _ONE, (False, False): _NEITHER}
    measured = right[many == 300, one == 300]
    return Explanation(
        measured=measured,
        because=f"300 messages gave {many:g}, one message {one:g}. After a message the mean goes to the shard's "
        "gradient, which is float32, and there all 300 of them are added. Without a message the gradient stays where "
        "it is, whole, in the format in which backward made it. The next piece is added to it there. In bfloat16 "
        f"that ends at 256. With `reduce_dtype=torch.float32` it gave {one_with_both:g}: this setting is also the "
        "format of gradients that wait.",
        misreadings=_but(
            measured,
            {
                _ONE: "It makes fewer sums between ranks. But the pieces have to be added up somewhere as well.",
                _NEITHER: "A sum of four ones is 4 in bfloat16 too: between ranks nothing is lost here. Where are the "
                "300 pieces added?",
                _BOTH: "That would be so if gradients waited in the shards' format. Whole gradients wait in the "
                "format of backward.",
                _MANY: "Look at the two numbers of this run.",
            },
        ),
    )


# -- one byte -----------------------------------------------------------------------------------------------------


def _outlier(zeros_percent: float, scale: float) -> Explanation:
    """From the share of weights that came back as 0, and the scale that they shared."""
    return Explanation(
        measured=round(zeros_percent),
        because=f"The scale is 6 / 127 = {scale:.3f}. Whatever is nearer to 0 than half of it, {scale / 2:.4f}, "
        "becomes 0, and that is more than the standard deviation of these weights. int8 has 255 values, and here "
        "nearly all of the weights share three of them.",
        misreadings={
            lambda percent: (
                percent <= 10
            ): "The 255 values lie evenly between -6 and 6. How many of them lie where the weights are?",
            lambda percent: (
                percent >= 95
            ): "Nearly. But some weights are more than 1.2 standard deviations from 0, and their codes are 1 or -1.",
        },
    )


_FLOAT_FAR, _FLOAT, _ALIKE, _INT, _INT_FAR = (
    "float8, several times nearer",
    "float8, a little nearer",
    "both alike",
    "int8, a little nearer",
    "int8, several times nearer",
)


def _eight(off_percent: Mapping[str, float]) -> Explanation:
    """From the errors of the weights that came back, in per cent, by the name of the format."""
    times = off_percent["float8"] / off_percent["int8"]
    bounds = ((0.5, _FLOAT_FAR), (0.95, _FLOAT), (1.05, _ALIKE), (2.0, _INT))
    measured = next((said for bound, said in bounds if times < bound), _INT_FAR)
    nearer = "further" if times >= 1 else "as far"
    return Explanation(
        measured=measured,
        because=f"float8 is {times:.1f} times {nearer} off. Three bits of mantissa are 8 steps from one power of two "
        "to the next. So a number is off by up to a sixteenth of itself, down to 1/28,672 of the largest. int8 is off "
        "by up to a 254th of the largest. If few numbers of a block are far below its "
        "largest, the bits of the exponent are of little use.",
        misreadings=_but(
            measured,
            {
                _FLOAT_FAR: "It keeps numbers that are thousands of times smaller than the largest. Are there any?",
                _FLOAT: "It has finer steps near 0, that is right. What do they cost where most of the numbers are?",
                _ALIKE: "Both have a byte, and they spend it on different things: on range, or on steps.",
                _INT: "This is the right one of the two. Compare a step of each for a number of half the largest.",
                _INT_FAR: "Look at the two numbers of this run.",
            },
        ),
    )


def _steps(times: float, loss: float, exact_loss: float) -> Explanation:
    """From how many times as far off the weights are in the last step, and the last losses in int8 and float32."""
    if times < 1.5:
        because = (
            "Each step rounds anew, from shards that were never rounded. What was rounded off in one step is in no "
            f"message of the next, so nothing adds up. The last loss is {loss:.3f} in int8 and {exact_loss:.3f} in "
            "float32. That the factor is not exactly 1 has another reason: training changes the weights, and a block "
            "whose largest grows has a larger scale."
        )
    else:
        because = "The shards stay exact in this algorithm, so something else moved here: look at the losses."
    return Explanation(
        measured=round(times, 2),
        because=because,
        misreadings={
            lambda guess: (
                4 <= guess <= 12
            ): "Independent errors add up so if each step starts from the result of the last. From what is each "
            "message made?",
            lambda guess: guess > 12: "That would be errors that add up step by step. Is what was rounded ever stored?",
            lambda guess: guess < 0.7: "Nothing corrects the rounding, either: each step has its own.",
        },
    )


# -- Break it -----------------------------------------------------------------------------------------------------

_AS_BEFORE, _SLOWER, _HARDLY = "it falls as before", "it falls, a little slower", "it hardly falls"


def _stored(first: float, kept: float, stored: float) -> Explanation:
    """From the first loss, and the last ones: with shards kept in float32, and with what was sent stored in them."""
    share = (first - stored) / (first - kept)
    measured = _AS_BEFORE if share >= 0.9 else _SLOWER if share >= 0.4 else _HARDLY
    return Explanation(
        measured=measured,
        because=f"The loss went from {first:.3f} to {stored:.3f}, and to {kept:.3f} where shards stayed in float32. "
        "Both round what they send. The shards differ: with float32, what the optimizer added is there at the next "
        "step; here most of it has been rounded off.",
        misreadings=_but(
            measured,
            {
                _AS_BEFORE: "Each message rounds these weights anyhow, that is right. But what does the optimizer add "
                "its next step to?",
                _SLOWER: "Compare a step of the optimizer with the distance from one code to the next.",
                _HARDLY: "It would be so if steps of the optimizer were much smaller than those from code to code.",
            },
        ),
    )


PRECISION = (
    Asked(
        name="05.wire_default",
        question="`param_dtype=torch.bfloat16` alone: in which formats are gradients sent and summed?",
        choices=(_WIDE, _MIXED, _NARROW),
        tell=_default,
    ),
    Asked(
        name="05.wire_pieces",
        question="300 pieces with a gradient of 1 each, `param_dtype` alone: which run ends with 300?",
        choices=(_BOTH, _MANY, _ONE, _NEITHER),
        tell=_pieces,
    ),
    Asked(
        name="05.wire_outlier",
        question="65,536 weights of about 0.02 and one of 6 share a scale: how many come back as 0?",
        unit="%",
        high=100,
        tell=_outlier,
    ),
    Asked(
        name="05.wire_eight",
        question="Weights without outliers, blocks of 256: which format brings them back nearer?",
        choices=(_FLOAT_FAR, _FLOAT, _ALIKE, _INT, _INT_FAR),
        tell=_eight,
    ),
    Asked(
        name="05.wire_steps",
        question="By what factor are gathered weights further off in step 60 than in step 1?",
        tell=_steps,
    ),
    Asked(
        name="05.wire_stored",
        question="After each step the shards become what was sent: what does the loss do?",
        choices=(_AS_BEFORE, _SLOWER, _HARDLY),
        tell=_stored,
    ),
)
