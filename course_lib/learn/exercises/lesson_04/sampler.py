"""04.sampler: which examples each rank reads in an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from course_lib.learn.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.judge import by_cases

__all__ = ["SAMPLER"]

_GLOBAL = "the global generator"

Sampler = Callable[[int, int, int, int, int], Iterable[int]]


def _tried(answer: Sampler, num_items: int, world_size: int, epoch: int, seed: int) -> dict[str, Any]:
    """The indices of every rank, as each rank would find them; whether they come again; what else was touched."""
    kept = torch.get_rng_state()
    found = []
    for rank in range(world_size):
        torch.manual_seed(1000 * rank)  # processes of their own do not share the global generator's state
        once = _plain(answer(num_items, rank, world_size, epoch, seed))
        found.append(once)
    torch.manual_seed(77)
    before = torch.get_rng_state()
    again = _plain(answer(num_items, world_size - 1, world_size, epoch, seed))
    untouched = torch.equal(before, torch.get_rng_state())
    torch.set_rng_state(kept)
    return {
        "asked again": "the same" if again == found[-1] else "other indices",
        **{f"rank {rank}": indices for rank, indices in enumerate(found)},
        _GLOBAL: "as it was" if untouched else "changed",
    }


def _plain(indices: Any) -> Any:
    if isinstance(indices, Iterable) and not isinstance(indices, str):
        return [int(index) for index in indices]
    return indices


def _right(num_items: int, world_size: int, epoch: int, seed: int) -> dict[str, Any]:
    """What PyTorch's sampler gives."""
    from torch.utils.data.distributed import DistributedSampler

    expected: dict[str, Any] = {"asked again": "the same"}
    for rank in range(world_size):
        sampler: Any = DistributedSampler(range(num_items), world_size, rank, seed=seed)  # type: ignore[arg-type]
        sampler.set_epoch(epoch)
        expected[f"rank {rank}"] = list(sampler)
    return expected | {_GLOBAL: "as it was"}


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


def _seeds_everything(num_items: int, rank: int, world_size: int, epoch: int, seed: int) -> list[int]:
    torch.manual_seed(seed + epoch)
    return _sampler(own_generator=False)(num_items, rank, world_size, epoch, seed)  # type: ignore[return-value]


def _multiplies(num_items: int, rank: int, world_size: int, epoch: int, seed: int) -> Any:
    order = torch.randperm(num_items, generator=torch.Generator().manual_seed(seed + epoch))
    return (order * world_size)[: -(-num_items // world_size) * world_size][rank::world_size]


def _only_the_generator(evidence: Evidence) -> bool:
    return evidence.error is None and all(
        o.difference.startswith(f"under '{_GLOBAL}") for o in evidence.wrong
    )


def _too_large(evidence: Evidence) -> bool:
    """Whether there is an index behind the last example."""

    def largest(values: dict[str, Any]) -> int:
        shares = [
            share for name, share in values.items() if name.startswith("rank") and isinstance(share, list)
        ]
        return max((index for share in shares for index in share), default=-1)

    return any(isinstance(o.got, dict) and largest(o.got) > largest(o.expected) for o in evidence.outcomes)


def _by_the_library(num_items: int, rank: int, world_size: int, epoch: int, seed: int) -> list[int]:
    from torch.utils.data.distributed import DistributedSampler

    sampler: Any = DistributedSampler(range(num_items), world_size, rank, seed=seed)  # type: ignore[arg-type]
    sampler.set_epoch(epoch)
    return list(sampler)


SAMPLER = Exercise(
    name="04.sampler",
    title="Who reads which examples",
    judge=by_cases(
        [
            Case("12 examples on 4 ranks, epoch 0", (12, 4, 0, 5), _right),
            Case("12 examples on 4 ranks, epoch 3", (12, 4, 3, 5), _right),
            Case("10 examples on 4 ranks, epoch 1", (10, 4, 1, 0), _right),
            Case("3 examples on 8 ranks, epoch 2", (3, 8, 2, 1), _right),
        ],
        call=_tried,
    ),
    mistakes=(
        Mistake(
            "global-random-numbers",
            "Asked twice, your sampler gives two answers: it draws from the global generator, whose state is another "
            "one in each process. Every rank must draw the *same* order: use a generator of your own, "
            "`torch.Generator().manual_seed(...)`.",
            _sampler(own_generator=False),
            lambda evidence: any(
                isinstance(o.got, dict) and o.got["asked again"] != "the same" for o in evidence.outcomes
            ),
        ),
        Mistake(
            "seeds-everything",
            "The indices are right, and on the way you seeded the global generator, from which dropout draws too: "
            "alike on every rank from now on, and again in every epoch. Use a generator of your own, "
            "`torch.Generator().manual_seed(...)`, for the shuffle alone.",
            _seeds_everything,
            _only_the_generator,
        ),
        Mistake(
            "multiplies-the-indices",
            "Some indices point behind the last example. `order * n` repeats a list, but multiplies the numbers of a "
            "tensor. Make it a list first: `.tolist()`.",
            _multiplies,
            _too_large,
        ),
        Mistake(
            "a-seed-for-each-rank",
            "Each rank shuffles with a seed of its own, so each deals from another pack: some examples go to several "
            "ranks and some to none. All ranks shuffle alike; what differs is which places of the order each one "
            "takes.",
            _sampler(seed_of=lambda seed, epoch, rank: seed + epoch + rank),
        ),
        Mistake(
            "the-same-in-every-epoch",
            "Epoch 0 is right and epoch 3 repeats it: the epoch does not reach the generator. Seed it with "
            "`seed + epoch`.",
            _sampler(seed_of=lambda seed, epoch, rank: seed),
        ),
        Mistake(
            "not-shuffled",
            "The examples come in the order of the data set. Deal them from `torch.randperm(num_items, "
            "generator=...)`.",
            _sampler(shuffle=False),
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
            "Each rank takes a block of neighbours. Nothing is lost by it, and it is not the order that was asked for: "
            "rank r takes every `world_size`-th place from r on. That way, what all ranks read in a step lies together "
            "in the order, and a run can go on with another number of ranks.",
            _sampler(blocks=True),
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
        "the share of a rank up, repeat the order until it is `share * world_size` long, and give rank r the places r, "
        "r + world_size, r + 2 * world_size and so on.",
        "`share = math.ceil(num_items / world_size)`, `order = (order * world_size)[: share * world_size]` for an "
        "order that is a list, and `return order[rank::world_size]`.",
    ),
    forbidden=("torch.utils.data.distributed.DistributedSampler",),
    forbidden_example=_by_the_library,
    passed="The same indices as PyTorch's sampler, epoch by epoch, also where the examples do not divide.",
)
