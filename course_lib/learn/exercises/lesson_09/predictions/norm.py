"""Part c of lesson 09: one gradient norm, one checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.rounding import rounded

__all__ = ["NORM"]

_SHORT = (
    "each rank scales by a factor of its own",
    "replicas add up their gradients, where a mean is due",
    "the sum holds some squares several times",
    "a norm over four ranks is to be divided by four",
)


def _short() -> Explanation:
    return Explanation(
        measured=_SHORT[2],
        label="the evidence says",
        because="Two replicas hold the same gradients, and each rank adds what it holds. So every square is in the sum "
        "twice or more, and the norm is √2 times as large as it should be, or more. The factor is too small by the "
        "same ratio. In lesson 05 each rank had rows that no other rank has, so this clip was right there.",
        misreadings={
            _SHORT[0]: "All four have returned one norm and scaled by one factor, so the direction is the true one.",
            _SHORT[1]: "Then the losses without the limit would not be those of one device either.",
            _SHORT[
                3
            ]: "In lesson 05 each rank had rows of its own, and nothing was divided. A quarter of this norm would "
            "be far too small.",
        },
    )


_HIDDEN = ("right", "too large by less than a tenth", "too large by a tenth or more", "too small")


def _hidden(returned: float, right: float, copied: float) -> Explanation:
    """From what the clip returned, the norm of one device, and that of the gradients which tp does not cut."""
    ratio = returned / right
    seen = _HIDDEN[0] if abs(ratio - 1) < 1e-6 else _HIDDEN[3] if ratio < 1 else _HIDDEN[1 if ratio < 1.1 else 2]
    model = sqrt(1 + (copied / right) ** 2)
    return Explanation(
        measured=seen,
        because=f"The team's norm differs from the model's by {rounded(100 * (ratio - 1), 1)} %. dp_shard cuts "
        "everything, and tp cuts the matrices. All ranks of tp hold the same norms and positions, so these are in "
        "the sum twice. They are a small part of the gradient, and squares make it smaller still: by the norms of "
        f"one device, {rounded(100 * (model - 1), 1)} % are to be expected. It is the same fault, but a curve of "
        "losses would not show it. The fault grows with more ranks of tp. Tests in float64 find it, if they compare "
        "with one device.",
        misreadings={
            _HIDDEN[0]: "dp_shard cuts everything. But tp leaves norms and positions whole on all its ranks.",
            _HIDDEN[2]: "That is the case of two replicas. Here no matrix lies on two ranks: both axes cut it.",
            _HIDDEN[3]: "Nothing is missing in the sum: every rank adds all that it holds.",
        },
    )


_ENDS = ("too large", "right", "too small")


def _ends(returned: float, right: float) -> Explanation:
    """From the norm in which both ends count the tied matrix, and the one of one device."""
    ratio = returned / right
    return Explanation(
        measured=_ENDS[0 if ratio > 1 + 1e-6 else 2 if ratio < 1 - 1e-6 else 1],
        because=f"This norm is {rounded(100 * ratio, 0)} % of that of one device. Backward leaves a part of the "
        "gradient at each end. But before the step the ends add their parts up (lesson 06), so that both copies of "
        "the matrix take one and the same step. From then on each end holds the whole gradient: a copy, under "
        "another name. Only one of the two must be counted.",
        misreadings={
            _ENDS[1]: "That would be right for squares of two different matrices. But these two are one weight, and "
            "after the sum "
            "each end has the same gradient.",
            _ENDS[2]: "Nothing is missing: both ends count what they have.",
        },
    )


def _folder(folder_bytes: int, weight_bytes: int) -> Explanation:
    """From the size of the folder, and that of the whole model's weights."""
    return Explanation(
        measured=round(folder_bytes / weight_bytes, 2),
        model=3,
        because="The folder has the weights, and AdamW's two moments of each: three times the weights, on any mesh. "
        "If several ranks hold the same box, one of them writes it. The rest of the folder holds no numbers of the "
        "model. `.metadata` says which box is in which file, and each box has a small header. Here the headers are "
        "a large part only because the boxes are small.",
        misreadings={
            1: "That is the weights alone. The optimizer's states are in the folder as well.",
            6: "That is what the four ranks hold together: each replica has everything. But of two ranks with the "
            "same box only one writes it.",
            12: "Then each of the four ranks would write all three, of the whole model. But a rank holds only "
            "slices, and of two ranks with the same box only one writes it.",
            2: "AdamW keeps two moments of each weight, and the weights themselves are there too.",
        },
        apart="The model counts numbers, and not headers: compare with the size of `.metadata`, and count the boxes.",
    )


_RESUMED = (
    "nobody's",
    "that of the job without optimizer states",
    "those of all jobs on another mesh",
    "that of the single rank",
)


def _resumed(went_on: Sequence[float], resumed: Sequence[Sequence[float]]) -> Explanation:
    """From the losses of the job that went on, and those of the others; the last of these is without states."""
    near = [abs(losses[0] - went_on[0]) < 1e-9 for losses in resumed]
    seen = _RESUMED[0] if all(near) else _RESUMED[1] if all(near[:-1]) else _RESUMED[2]
    apart = max(abs(a - b) for a, b in zip(resumed[-1], went_on, strict=True))
    return Explanation(
        measured=seen,
        because="The first loss depends only on the weights, and each rank has read its part of them. Without its "
        "states the optimizer begins anew. Its first step is as long as at the start of training, in a direction "
        "that one batch alone has given. From the second loss on this job differs, by up to "
        f"{rounded(apart, 2)} here. So if you check a checkpoint by one loss, you check only the weights.",
        misreadings={
            _RESUMED[1]: "Its losses will differ from the second one on. The first loss is computed before the "
            "optimizer does anything.",
            _RESUMED[2]: "Boxes are cut anew for each mesh, and sums in another order differ only in the sixteenth "
            "digit.",
            _RESUMED[3]: "One rank asks for one box of each weight: all of it.",
        },
        apart="Look at the first losses above, digit by digit: which job is off?",
    )


def _skipped(never_seen: int, num_steps: int, batch_size: int, old_share: int, new_share: int) -> Explanation:
    """From the windows that nobody was given, and how many ranks shared a batch before and after."""
    per_rank = num_steps * batch_size // old_share
    begins_at = per_rank * new_share
    return Explanation(
        measured=never_seen,
        model=begins_at - num_steps * batch_size,
        because=f"Each rank had been given {per_rank} windows, and {old_share} ranks shared out a batch, so "
        f"{num_steps * batch_size} were seen. Now {new_share} ranks share out a batch, and each leaves out "
        f"{per_rank} windows: together they leave out {begins_at}. A count by rank is valid on the old mesh only. "
        "Save what the *job* has seen, in windows or whole batches, and let the new mesh deal out the rest.",
        misreadings={
            0: "The number of ranks is the same, and the number of those that share out a batch is not.",
            per_rank: "That is what one rank had been given. Every rank leaves out as many.",
        },
        apart="Print the windows of the first batch that is dealt after the resume, rank by rank.",
    )


NORM: tuple[Asked, ...] = (
    Asked(name="09.short", question="What is wrong with the clip?", choices=_SHORT, tell=_short),
    Asked(
        name="09.hidden",
        question="On dp_shard=2 tp=2, is the team's norm the model's?",
        choices=_HIDDEN,
        tell=_hidden,
    ),
    Asked(
        name="09.ends", question="Each end counts its tied matrix. How large is the norm?", choices=_ENDS, tell=_ends
    ),
    Asked(
        name="09.folder",
        question="How large is the folder?",
        unit="times the model's weights",
        high=1000,
        tell=_folder,
    ),
    Asked(
        name="09.resumed",
        question="Whose first loss differs from that of the job that saved?",
        choices=_RESUMED,
        tell=_resumed,
    ),
    Asked(
        name="09.skipped",
        question="How many windows does no rank ever see?",
        unit="windows",
        high=1e6,
        tell=_skipped,
    ),
)
