"""Part b of lesson 09: who holds which piece, who sees which samples, and whose random numbers are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.layouts.mesh import DATA_AXES, Mesh
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["PIECES"]

_CUBE = Mesh.of(pp=2, dp_shard=2, tp=2)
_RANKS = tuple(f"rank {rank}" for rank in range(4))


def _row(ranks: Sequence[int], mesh: Mesh) -> Explanation:
    """From the ranks that were found to hold row 100 of 256, and the mesh, two by two."""
    at = {
        "right": mesh.rank_at(dp_shard=1, tp=0),
        "sharded first": mesh.rank_at(dp_shard=0, tp=1),
    }
    found = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
    misreadings = {
        f"rank {at['sharded first']}": "Four quarters, one rank after the other: that is what you get if dp_shard, "
        "the outer axis, cuts the whole matrix first. But the order of the axes in the mesh says only which ranks "
        "are neighbours. The cuts come in another order: tp cut first.",
        "rank 0": "It has rows 0 to 63: the first half of the first slice.",
        "rank 3": "It has the very last rows: the second half of the second slice.",
    }
    return Explanation(
        measured=found,
        model=f"rank {at['right']}",
        because="tp cuts first, and gives rows 0 to 127 to place 0. This slice has 128 rows. dp_shard gives its "
        "second half, 64 to 127, to its place 1. That is place 1 along dp_shard and place 0 along tp. So rows 64 to "
        f"127 lie on rank {at['right']}, and the next rows on rank {at['sharded first']}. The order of the ranks is "
        "not that of the rows.",
        misreadings={wrong: said for wrong, said in misreadings.items() if wrong != f"rank {at['right']}"},
        apart="The model is for tp=2 and dp_shard=2, and for a matrix of 256 rows that tp cuts by rows. Print "
        "`sharded_boxes`.",
    )


_SHARD_8, _SHARD_TP, _PP_TP, _THREE = "dp_shard=8", "dp_shard=2 tp=4", "pp=2 tp=4", "pp=2 dp_shard=2 tp=2"
_MESHES = (_SHARD_8, _SHARD_TP, _PP_TP, _THREE)


def _least(kept_kib: Mapping[str, float]) -> Explanation:
    """From what the fullest rank of each mesh keeps."""
    kept = ", ".join(f"{size:.0f} KiB with {name}" for name, size in kept_kib.items())
    return Explanation(
        measured=min(kept_kib, key=kept_kib.__getitem__),
        label="computed",
        because=f"The fullest rank keeps {kept}. Sharding cuts everything into eight, norms and positions too. tp "
        "*copies* norms and positions, so its cuts do not divide everything. Stages have whole layers, so one of "
        "them is larger. More kinds of cuts do not save more: each of eight ranks keeps at least an eighth.",
        misreadings={
            _SHARD_TP: "It is nearly the best. But norms and positions are there four times, since tp does not cut "
            "them.",
            _PP_TP: "tp copies norms and positions, and the two stages are not equally large.",
            _THREE: "Two by two by two is eight as well. But these cuts are not even: tp copies the norms, and pp "
            "has a larger stage.",
        },
    )


def _fullest(fullest_kib: Mapping[str, float]) -> Explanation:
    """From what the fullest rank of each mesh holds at its fullest moment."""
    held = ", ".join(f"{size:.0f} KiB with {name}" for name, size in fullest_kib.items())
    return Explanation(
        measured=min(fullest_kib, key=fullest_kib.__getitem__),
        label="computed",
        because=f"The fullest rank holds {held}. A rank with shards has to gather whole units. Ranks compute with "
        "slices of tp and stages of pp as they are. So the mesh that keeps the least between steps may hold the "
        "most within a step. A few ranks of tp make each whole unit smaller; a sharded stage of a pipeline still "
        "holds whole gradients until its last micro-batch.",
        misreadings={
            _SHARD_8: "It keeps the least. But each rank gathers a whole block, in its full width, and computes its "
            "whole gradient.",
            _SHARD_TP: "Its units are a quarter as large, which helps a lot. But on one of the meshes ranks gather "
            "nothing at all.",
            _THREE: "Its units are half as large. But the stage keeps whole gradients until its last micro-batch.",
        },
    )


def _share(seen_by: Mapping[int, Sequence[int]]) -> Explanation:
    """From the windows that each rank of the eight was dealt."""
    counts = {len(windows) for windows in seen_by.values()}
    data_size = _CUBE.size(*DATA_AXES)
    return Explanation(
        measured=counts.pop() if len(counts) == 1 else sorted(counts),
        model=8 / data_size,
        because="Only dp_shard deals out windows, to two places. The ranks of a tensor group work on one activation, "
        "and each stage gets the activations of the stage before, for the same windows. So four ranks have the same "
        "four windows. dp_shard shares out weights, but it is still data parallelism: every shard has samples of its "
        "own.",
        misreadings={
            1: "Then the two ranks of a tensor group would multiply halves of two different activations.",
            2: "You dealt the windows out along two of the axes. Which one besides dp_shard has ranks that could "
            "compute with windows of their own?",
            8: "dp_shard cuts weights, but each rank gathers them whole for samples of its own. With the same samples, "
            "half of the ranks would compute nothing new.",
        },
        apart="The model divides eight windows by the size of the data axes. Look at the places printed above.",
    )


_UNSEEN = (
    "all ranks are given the same windows",
    "ranks of a tensor group are given different windows",
    "gradients are averaged along tp as well",
    "the loss is divided by too many ranks",
)


def _unseen() -> Explanation:
    return Explanation(
        measured=_UNSEEN[1],
        label="the evidence says",
        because="Half of the windows change no gradient. Each rank of a tensor group looks up its own tokens, those "
        "that stand in its slice of the vocabulary. The residual stream is the sum of what both have found. English "
        "letters are bytes below 128, and all of these are in the slice of place 0. So nothing of the other rank's "
        "windows is found, neither inputs nor targets. From there on both ranks compute the same, so no copies "
        "become different. Texts in other scripts would even be mixed: a position would have one rank's token, the "
        "other's, both or none.",
        misreadings={
            _UNSEEN[0]: "`chunk(...)[me.rank]` gives each rank other windows: that is the fault.",
            _UNSEEN[2]: "That would mix slices that have nothing to do with each other. But each window would still "
            "count somewhere, and here half of them do not.",
            _UNSEEN[3]: "A loss that is divided once too often makes all gradients smaller alike. Here half of the "
            "windows do not count at all.",
        },
    )


_DROPPED = (
    "ranks of a tensor group drop different numbers of one stream",
    "replicas drop different numbers",
    "inside the split regions all ranks drop the same",
    "dropout is still on when the checkpoint is tried",
)


def _dropped() -> Explanation:
    return Explanation(
        measured=_DROPPED[0],
        label="the evidence says",
        because="Ranks 0 and 1 begin with equal copies, and dropout makes them different. Each has its own seed, so "
        "from the stem on each has a stream of its own. Their halves of every product come from two different "
        "inputs. So the copies get different gradients, and gradients are not averaged along tp. Along dp_replicate "
        "gradients are averaged: that is why ranks 0 and 2 stay equal, though they drop different numbers, as they "
        "should.",
        misreadings={
            _DROPPED[1]: "They do, and they should: they have different samples. Their mean gradient is the same on "
            "both, so they stay equal.",
            _DROPPED[2]: "That was the fault of lesson 08. It makes dropout weaker, but copies stay equal.",
            _DROPPED[3]: "Then one checkpoint would give another loss each time. Here the weights themselves differ.",
        },
    )


PIECES: tuple[Asked, ...] = (
    Asked(name="09.row", question="dp_shard=2, tp=2: who holds row 100 of 256?", choices=_RANKS, tell=_row),
    Asked(name="09.least", question="Eight ranks: which mesh keeps the least?", choices=_MESHES, tell=_least),
    Asked(
        name="09.fullest",
        question="Which mesh holds the least at the fullest moment?",
        choices=_MESHES,
        tell=_fullest,
    ),
    Asked(
        name="09.share",
        question="Eight windows, pp=2 dp_shard=2 tp=2: how many for each rank?",
        unit="windows",
        high=1000,
        tell=_share,
    ),
    Asked(
        name="09.unseen",
        question="Why are the losses not those of one device?",
        choices=_UNSEEN,
        tell=_unseen,
    ),
    Asked(name="09.dropped", question="Why do the copies become different?", choices=_DROPPED, tell=_dropped),
)
