"""04.sampler: which examples each rank reads in an epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_04.sampler.cases import (
    AGAIN,
    GLOBAL,
    ROWS,
    Sampler,
    compare,
    label_of,
    right,
    tried,
)
from course_lib.learn.judging.isolated_judge import by_cases_apart

__all__ = ["SAMPLER"]

# -- usual wrong answers ----------------------------------------------------------------------------------------


def _sampler(
    *,
    seed_of: Callable[[int, int, int], int] = lambda seed, epoch, rank: seed + epoch,
    shuffle: bool = True,
    own_generator: bool = True,
    pad: Callable[[list[int], int], list[int]] = lambda order, total: (order * total)[:total],
    round_down: bool = False,
    blocks: bool = False,
) -> Sampler:
    """The sampler, right but for what the arguments change."""

    def indices(num_items: int, rank: int, world_size: int, epoch: int, seed: int) -> list[int]:
        generator = torch.Generator().manual_seed(seed_of(seed, epoch, rank)) if own_generator else None
        order = torch.randperm(num_items, generator=generator).tolist() if shuffle else list(range(num_items))
        share = num_items // world_size if round_down else -(-num_items // world_size)
        order = order[: share * world_size] if round_down else pad(order, share * world_size)
        return order[rank * share : (rank + 1) * share] if blocks else order[rank::world_size]

    return indices


def _multiplies(num_items: int, rank: int, world_size: int, epoch: int, seed: int) -> Any:
    order = torch.randperm(num_items, generator=torch.Generator().manual_seed(seed + epoch))
    return (order * world_size)[: -(-num_items // world_size) * world_size][rank::world_size]


def _only_the_generator(evidence: Evidence) -> bool:
    """Whether the indices are right, and torch's global generator is another one afterwards."""
    names = ("rank", AGAIN)
    return evidence.error is None and all(
        o.got[GLOBAL] == "torch's"
        and all(o.got[name] == want for name, want in o.expected.items() if name.startswith(names))
        for o in evidence.wrong
    )


def _draws_globally(evidence: Evidence) -> bool:
    """Whether it gives two answers, and has drawn from torch's global generator for them."""
    return evidence.error is None and any(
        o.got[AGAIN] != "the same" and o.got[GLOBAL] == "torch's" for o in evidence.outcomes
    )


def _where_the_gap_is_small(*examples: Sampler) -> Callable[[Evidence], bool]:
    """Whether it does what an example does wherever there are enough examples to fill the gap in one go.

    So that a slip has its name also where the gap is filled once, by what there is.
    """
    rows = [row for row in ROWS if -row[0] % row[1] <= row[0]]

    def recognise(evidence: Evidence) -> bool:
        return evidence.error is None and any(
            all(evidence.got(label_of(*row)) == tried(example, *row) for row in rows) for example in examples
        )

    return recognise


_RANKS_SEED = _sampler(seed_of=lambda seed, epoch, rank: seed + epoch + rank)
_NO_EPOCH = _sampler(seed_of=lambda seed, epoch, rank: seed)
_IN_ORDER = _sampler(shuffle=False)
_BLOCKS, _FULL_BLOCKS = _sampler(blocks=True), _sampler(blocks=True, round_down=True)


SAMPLER = Exercise(
    name="04.sampler",
    may_yield=True,
    title="Who reads which examples",
    judge=by_cases_apart(
        [Case(label_of(*row), row, right) for row in ROWS],
        call=tried,
        compare=compare,
    ),
    mistakes=(
        Mistake(
            "global-random-numbers",
            "Asked twice, your sampler gives two answers: it draws from the global generator, whose state is another "
            "one in each process. Every rank must draw the *same* order: use a generator of your own, "
            "`torch.Generator().manual_seed(...)`.",
            recognise=_draws_globally,
        ),
        Mistake(
            "seeds-everything",
            "The indices are right, and on the way the global generator was seeded or drawn from. Dropout draws from "
            "it too: once seeded, alike on every rank, and again in every epoch. Use a generator of your own, "
            "`torch.Generator().manual_seed(...)`, for the shuffle alone.",
            recognise=_only_the_generator,
        ),
        Mistake(
            "multiplies-the-indices",
            "Some indices point behind the last example. `order * n` repeats a list, but multiplies the numbers of a "
            "tensor. Make it a list first: `.tolist()`.",
            _multiplies,
        ),
        Mistake(
            "a-seed-for-each-rank",
            "Each rank shuffles with a seed of its own, so each deals from another pack: some examples go to several "
            "ranks and some to none. All ranks shuffle alike; what differs is which places of the order each one "
            "takes.",
            recognise=_where_the_gap_is_small(_RANKS_SEED),
        ),
        Mistake(
            "the-same-in-every-epoch",
            "Epoch 0 is right and every other epoch repeats its order: the epoch does not reach the generator.",
            recognise=_where_the_gap_is_small(_NO_EPOCH),
        ),
        Mistake(
            "not-shuffled",
            "The examples come in the order of the data set. Deal them from `torch.randperm(num_items, "
            "generator=...)`.",
            recognise=_where_the_gap_is_small(_IN_ORDER),
        ),
        Mistake(
            "drops-the-rest",
            "With 10 examples on 4 ranks, two are left out. That is what `drop_last=True` does; here every example is "
            "to be read, so round the share *up* and fill the gap.",
            _sampler(round_down=True),
        ),
        Mistake(
            "ranks-of-unequal-length",
            "With 10 examples on 4 ranks, some ranks get 3 and some get 2. A rank with one batch more than the others "
            "hangs in an all-reduce that nobody joins. Fill the order up to a multiple of the ranks first.",
            _sampler(pad=lambda order, total: order),
        ),
        Mistake(
            "in-blocks",
            "Each rank takes a block of neighbours, and that is not the order that was asked for. Rank r takes every "
            "`world_size`-th place from r on. That way, what all ranks read in a step lies together in the order, and "
            "a run can go on with another number of ranks.",
            recognise=_where_the_gap_is_small(_BLOCKS, _FULL_BLOCKS),
        ),
        Mistake(
            "repeats-the-last",
            "The gap is filled with the last example, again and again. Fill it from the start of the shuffled order, "
            "so that no example counts more than once too often.",
            _sampler(pad=lambda order, total: order + order[-1:] * (total - len(order))),
        ),
        Mistake(
            "fills-up-once",
            "Right until there are more ranks than examples: 3 examples cannot fill a gap of 5 in one go. Repeat the "
            "order as often as it takes, then cut.",
            _sampler(pad=lambda order, total: order + order[: total - len(order)]),
        ),
    ),
    hints=(
        "Three steps: one order for everybody, made long enough, and dealt out like cards.",
        "The order is `torch.randperm(num_items, generator=g)` with g seeded by `seed + epoch`: no rank in it. Round "
        "the share of a rank up. Repeat the order until it is `share * world_size` long, and give rank r the places r, "
        "r + world_size, r + 2 * world_size and so on.",
        "`total = math.ceil(num_items / world_size) * world_size`, for an order that is a list `order = (order * "
        "math.ceil(total / num_items))[:total]`, and `return order[rank::world_size]`.",
    ),
    forbidden=(
        "torch.utils.data.distributed.DistributedSampler",
        "course_lib.parallel.data.DistributedSampler",
        "course_lib.parallel.data.GlobalBatches",
    ),
    passed="Your indices are those of PyTorch's sampler for every rank, epoch and seed that was tried, also where the "
    "examples do not divide. Nobody else's random numbers were touched.",
)
