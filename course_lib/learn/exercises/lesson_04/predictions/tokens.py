"""What lesson 04 asks of tokens that count in the loss: their weights, two cures, a NaN, and what a run learns."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["TOKENS"]


def _weight(short: float, long: float, model: float) -> Explanation:
    """From what a token of a short and of a long micro-batch weighs, and the ratio of the counts."""
    return Explanation(
        measured=round(short / long, 1),
        model=model,
        because="Each of the eight means counts an eighth. In a short one four tokens share this eighth, in a long one "
        f"64 do. One process would give each token 1; here one has {short:.2g} and the other {long:.2g}.",
        misreadings={
            1: "It is so where all micro-batches hold equally many valid tokens. Here each token is in one mean, and "
            "these means are made of 4 tokens or of 64.",
            (lambda guess: 1 < guess < model * 0.7): "Divide the counts of the two micro-batches: nothing else differs "
            "between the two tokens.",
            (lambda guess: 0 < guess < 1): "It is the other way round: the fewer tokens share a mean, the more each of "
            "them has of it.",
            (lambda guess: guess > model * 1.5): "Both ranks have two micro-batches, and DDP divides both by four. "
            "These factors are the same for the two tokens.",
        },
    )


_CURES = ("the first", "the second", "both", "neither")


def _cure(own: Sequence[float], of_all: Sequence[float], num_ranks: int) -> Explanation:
    """From the weights that tokens have by either cure, 1 being that of one process."""
    is_right = [all(abs(weight - 1) < 1e-6 for weight in weights) for weights in (own, of_all)]
    measured = _CURES[2] if all(is_right) else _CURES[is_right.index(True)] if any(is_right) else _CURES[3]
    return Explanation(
        measured=measured,
        because=f"With its own count a rank's tokens weigh alike, and from rank to rank they weigh {max(own):.2g} to "
        f"{min(own):.2g}. With the count of all, every token weighs {of_all[0]:.2g}: all alike, and {num_ranks} times "
        "too little. For DDP divides by the number of ranks once more. Adam hides such a factor, as part 2 has shown. "
        "Clipping by a norm does not, and SGD does not.",
        misreadings={
            _CURES[0]: "That mends accumulation on one rank. Over ranks it is a mean of means still: DDP averages "
            "ranks that hold 8 tokens and ranks that hold 128.",
            _CURES[1]: "The direction is right then. But who divides after you? DDP takes a mean over ranks, and it "
            "knows nothing of your count.",
            _CURES[2]: "They differ from each other: the table above has two unlike rows, and no row of ones.",
        },
    )


_RANKS = ("on no rank", "on rank 0", "on all ranks")


def _nan(by_mask: Sequence[bool], by_index: Sequence[bool]) -> Explanation:
    """From whether each rank has a weight that is NaN, with a mask of one's own and with ``ignore_index``."""

    def where(found: Sequence[bool]) -> str:
        return _RANKS[2] if all(found) else _RANKS[1] if any(found) else _RANKS[0]

    index = (
        "With `ignore_index` the loss alone is NaN: PyTorch gives every ignored target a gradient of exactly 0. The "
        "weights stay numbers, the log shows NaN, and this micro-batch is still one of those that the mean divides by."
    )
    return Explanation(
        measured=where(by_mask),
        because="0 / 0 is NaN, and so is its gradient: the mask multiplies an infinite factor by 0. Rank 0's gradients "
        "are NaN, and the all-reduce adds them to everybody's. One prompt without an answer has ended the job. "
        + (index if not any(by_index) else ""),
        misreadings={
            _RANKS[
                1
            ]: "The others had tokens, and good gradients. But no rank steps by its own gradient alone, and NaN "
            "is in the average.",
            _RANKS[0]: "That is so with `ignore_index`. A mask multiplies *after* the division's gradient has become "
            "infinite, and 0 times infinity is NaN.",
        },
    )


def _share(usual: float, per_token: float, model: float) -> Explanation:
    """From how often either model answers "yes", in per cent, and what the weights of tokens foretell."""
    return Explanation(
        measured=round(usual, 1),
        model=model,
        because="After `?` there are eight short answers and eight long ones, and a token of a short one weighs 16 "
        f"times as much: 16 / (16 + 1). The run with the loss per token comes to {per_token:.0f} %. A model that was "
        "trained in this way gives short answers, and nobody has asked it to.",
        misreadings={
            (lambda guess: 45 <= guess <= 55): "That is the share in the data. A run learns the share in its *loss*, "
            "where tokens of short answers weigh more.",
            (lambda guess: guess < 45): "Long answers have more tokens, but only one of them comes after `?`. And that "
            "one weighs less than a token of a short answer.",
            (lambda guess: 55 < guess < model - 5): "The direction is right. You have measured above how many times as "
            "much a token of a short answer weighs.",
        },
        apart="The last steps have not been taken yet: with more of them the share comes nearer to the model's.",
    )


TOKENS = (
    Asked(
        name="04.token_weight",
        question="How many times as much does a token of rank 0 weigh as one of rank 3?",
        unit="times",
        high=1000,
        tell=_weight,
    ),
    Asked(name="04.token_cure", question="Which gives the gradients of one process?", choices=_CURES, tell=_cure),
    Asked(name="04.token_nan", question="On which ranks are weights NaN?", choices=_RANKS, tell=_nan),
    Asked(
        name="04.token_share",
        question="How often does the model of the usual steps answer `yes`?",
        unit="%",
        high=100,
        tell=_share,
    ),
)
