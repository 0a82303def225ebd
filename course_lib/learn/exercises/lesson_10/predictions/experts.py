"""Part c of lesson 10: experts that are shared out."""

from __future__ import annotations

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["EXPERTS"]


def _learns(num_rows: int, num_rows_normalised: int, num_experts: int, top_k: int) -> Explanation:
    """From how many rows of the router one token gave a gradient: as it is, and with weights that add up to 1."""
    return Explanation(
        measured=num_rows,
        because="The choice has no derivative, the weights have. A chosen expert's weight is its softmax "
        f"probability, and the denominator has all {num_experts} scores. A larger score of any other expert makes it "
        f"smaller. Many models divide the {top_k} weights by their sum (`normalised=True`), and then the common "
        f"denominator cancels. In this case {num_rows_normalised} rows get a gradient, except for rounding. The "
        f"experts' own weights have a gradient in {top_k} of {num_experts} in either case.",
        misreadings={
            top_k: f"That is so for the experts themselves, and for the router where the {top_k} weights are divided "
            "by their sum. Here they are probabilities among all experts.",
            0: "The choice itself does not pass on a gradient. But the outputs are multiplied by weights that "
            "come from the scores.",
            1: "That would be the first choice alone. Both choices have a weight.",
        },
    )


_SUSPECTS = (
    "the experts' sums lose digits",
    "softmax overflows",
    "the scores lose digits before the choice",
    "the weights of the outputs lose digits",
)


def _astray(share: float, share_at_zero: float, half_off: float, dense_off: float) -> Explanation:
    """From the share of tokens that have other experts in bfloat16: as the scores are, and when they are around 0.

    ``half_off``, ``dense_off``: by how much half of the outputs are off at most, of the layer and of a dense MLP.
    """
    return Explanation(
        measured=_SUSPECTS[2],
        label="the evidence says",
        because=f"bfloat16 keeps 8 bits. Between 16 and 32 its numbers are an eighth apart, so scores that "
        f"differ by less can become equal. Which of two equal scores is chosen is arbitrary. {share:.1%} of "
        "the tokens went to another expert, and another expert gives another output. Around 0 the same differences "
        f"between scores are kept better: {share_at_zero:.1%} go elsewhere. An ordinary rounding error "
        "stays small; a choice makes it large.",
        misreadings={
            _SUSPECTS[0]: f"The dense MLP has the same matrices and the same sums, and half of its outputs are off by "
            f"less than {dense_off:.1%}.",
            _SUSPECTS[1]: "Then outputs would be infinite, or not numbers. bfloat16 has the range of float32, and "
            "softmax subtracts the largest score first.",
            _SUSPECTS[3]: "They do lose digits, by the same rounding, and more than the experts' sums. The outputs "
            f"of half of all tokens are off by {half_off:.1%} or more. But a weight that is a few per cent off makes "
            "an output a few per cent off. These outputs are off by far more.",
        },
    )


def _travels(times: float, top_k: int, num_ranks: int) -> Explanation:
    """From the bytes that ranks sent in a forward pass, in bytes of their tokens."""
    there = top_k * (num_ranks - 1) / num_ranks
    return Explanation(
        measured=round(times, 2),
        model=2 * there,
        because=f"A token has {top_k} rows to send, one for each choice; of {num_ranks} rows, one has its expert on "
        f"its own rank and {num_ranks - 1} travel. That is {there:g} rows for each token, and the outputs come back "
        "the same way. The bytes grow with tokens and with k, and hardly with ranks. Even on a thousand ranks they "
        f"are less than {2 * top_k} times those of the tokens.",
        misreadings={
            there: "That is dispatch alone. The outputs have to come back.",
            top_k: f"One of {num_ranks} rows stays at home, where its expert is. And the outputs have to come back.",
            2 * top_k: "That is nearly right, but some rows stay, since their expert is on their own rank.",
            2 * (num_ranks - 1): "That would send every row to all ranks, and sums back. But a row goes only to the "
            "rank of its expert.",
        },
        apart="The router decides how many rows stay at home: print the loads. Counts, 8 bytes for each expert, "
        "come on top.",
    )


def _own(times: float, num_ranks: int) -> Explanation:
    """From the length of an expert's gradient after backward on its rank, in that of one device's."""
    return Explanation(
        measured=round(times, 2),
        model=num_ranks,
        because="Tokens of all ranks came to this expert, and in backward the gradients of their outputs came as "
        "well. But each rank's loss is a mean over its own tokens, a quarter of all. The expert has the sum of "
        f"{num_ranks} ranks' gradients where one device has the mean. So divide by {num_ranks}, and send nothing.",
        misreadings={
            1: "The gradient is complete: no other rank has a part of it. But each rank's loss is divided by its "
            "own number of tokens.",
            1 / num_ranks: "That is the factor by which you have to multiply. Each rank's loss is a mean over its "
            "own tokens, and nobody "
            "has divided by the number of ranks yet.",
        },
        apart="The factor is exact where all ranks have equally many tokens. Compare the gradients number by number.",
    )


_WRAPPED = (
    "8 experts, as it should be",
    "8 experts, with gradients of other experts mixed in",
    "2 experts, each of them four times",
    "an error: ranks hold different experts",
)


def _wrapped(num_different: int, num_experts: int, num_ranks: int) -> Explanation:
    """From how many of the experts on all ranks differ after wrapping."""
    measured = _WRAPPED[2] if num_different < num_experts else _WRAPPED[1]
    return Explanation(
        measured=measured,
        because="PyTorch's `DistributedDataParallel` begins by giving all ranks the weights of rank 0. All ranks "
        f"have a weight of this name and this shape, so nothing looks wrong, and of {num_experts} experts only "
        f"{num_different} are different. From then on the wrapper averages their gradients, so the copies stay "
        "equal. There is no error: it is a smaller model that costs as much as the larger one.",
        misreadings={
            _WRAPPED[0]: "The wrapper takes every parameter for a copy of the one on rank 0. It has no way to "
            "know that these are parts.",
            _WRAPPED[1]: "That would be so after the first step. But think what the wrapper does before the first "
            "step.",
            _WRAPPED[3]: f"Names and shapes agree: each rank has a tensor of {num_experts // num_ranks} experts.",
        },
    )


def _lighter(token_bytes: float, gradient_bytes: float, num_experts: int, top_k: int) -> Explanation:
    """From the bytes that a rank sends for a layer in a step: tokens to experts, or gradients of whole experts."""
    times = round(gradient_bytes / token_bytes, 1)
    return Explanation(
        measured=times,
        label="computed",
        because="By a ring of n ranks a rank sends the gradients of all experts 2(n - 1)/n times. Or it sends the k "
        "rows of each token 4(n - 1)/n times. The factor (n - 1)/n cancels. The ratio that is left is E H / k to N: "
        f"{num_experts} experts of H hidden numbers against N tokens with {top_k} choices. So it is better to leave "
        "experts where they are and to send tokens, unless a rank has very many tokens.",
        misreadings={
            lambda answer: (
                answer < 0.9
            ): "A token's row is 4,096 numbers, and it travels 8 times: four times for each of 2 experts. An expert "
            "is 2 x 4,096 x 16,384 numbers, and there are 8 of them.",
            1: "They are equal at E H / k tokens on a rank. How many is that here?",
            times / 2: "An all-reduce sends each number about twice: to be added up, and for all to get the sum.",
            2 * times: "That is so with two exchanges, or with one expert for each token. Here there are four "
            f"exchanges, and {top_k} experts for each token.",
        },
    )


EXPERTS: tuple[Asked, ...] = (
    Asked(
        name="10.learns",
        question="How many of the router's 8 rows get a gradient from one token?",
        unit="rows",
        tell=_learns,
        high=8,
    ),
    Asked(name="10.astray", question="Why are some outputs far off?", choices=_SUSPECTS, tell=_astray),
    Asked(
        name="10.travels",
        question="How many times its tokens' bytes does a rank send, forward?",
        unit="times",
        tell=_travels,
        high=1000,
    ),
    Asked(
        name="10.own",
        question="An expert's gradient on its rank: how many times that of one device?",
        unit="times",
        tell=_own,
        high=1000,
    ),
    Asked(
        name="10.wrapped",
        question="What do the four ranks hold after wrapping?",
        choices=_WRAPPED,
        tell=_wrapped,
    ),
    Asked(
        name="10.lighter",
        question="How many times as many bytes do gradients of whole experts take as tokens?",
        unit="times",
        tell=_lighter,
        high=1e6,
    ),
)
