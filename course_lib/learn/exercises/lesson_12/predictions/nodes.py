"""Part a of lesson 12: two nodes, their ranks, and the link between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.base.text import mib
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["NODES"]

Place = tuple[int, int]


_FIRST = ("zebra", "ant", "it differs from run to run")


def _first(number_of: Mapping[str, int]) -> Explanation:
    """From the number of each agent's node."""
    first = min(number_of, key=lambda name: number_of[name])
    other = next(name for name in number_of if name != first)
    by_name = first == min(number_of)
    because = (
        "Neither the first agent to come nor the machine with the store is node 0. PyTorch's dynamic rendezvous "
        "sorts the agents by the "
        f"names of their machines (then by process id), and numbers them in this order. `{first}` comes before "
        f"`{other}` in the alphabet. Addresses that are given as `--local-addr` are sorted as text, too: 10.0.0.10 "
        "before 10.0.0.9. So node 0 need not be the machine with the endpoint, or one with a certain disk."
        if by_name
        else "This version of PyTorch numbers agents by another rule than their names; before, it sorted them."
    )
    misreadings = {
        "zebra": "It came first and holds the store. But neither matters: numbers are given when all agents are "
        "there, sorted by name.",
        "ant": "It came last, and the store is elsewhere.",
        _FIRST[2]: "It would differ if the first to arrive were counted first. Agents are sorted, so a job that is "
        "started again on the same machines gets the same numbers.",
    }
    return Explanation(
        measured=first,
        because=because,
        misreadings={name: said for name, said in misreadings.items() if name != first},
    )


def _gpu(places: Sequence[Place], sizes: Sequence[int]) -> Explanation:
    """From the place of every rank, and the ranks on each node: a rank asks for GPU number rank % 8."""
    lost = [rank for rank, (node, _) in enumerate(places) if rank % sizes[0] >= sizes[node]]
    small = sum(sizes[1:])
    return Explanation(
        measured=len(lost),
        label="computed",
        because="A remainder by 8 is below 8, and a node of 4 has no GPU 4. By chance the first small node begins at "
        f"a multiple of 8, so its ranks are right; the other begins at {lost[0] if lost else 0}. (`RANK % "
        "torch.cuda.device_count()` would do here: four ranks that are neighbours in number have four different "
        "remainders by 4. It breaks as soon as the ranks of a node are not neighbours.)",
        misreadings={
            small: "The ranks of the first small node are 8 to 11, and their remainders 0 to 3: those GPUs are there.",
            0: "A remainder by 8 can be as large as 7, and the small nodes have GPUs 0 to 3.",
        },
    )


def _turn(in_turn_bytes: int, by_node_bytes: int) -> Explanation:
    """From what leaves a node of a flat ring, with ranks dealt in turn and node by node."""
    return Explanation(
        measured=round(in_turn_bytes / by_node_bytes, 2),
        model=2,
        because="Node by node, one of a node's two arrows stays inside, and one leaves. Dealt in turn, each rank's "
        f"next one is on the other node: every arrow crosses. Now {mib(in_turn_bytes):g} MiB leave a node, and before "
        f"it was {mib(by_node_bytes):g}. With eight ranks on a node it would be eight times as much. The sum is the "
        "same, "
        "and there is no error.",
        misreadings={
            1: "The same bytes in all. But they go from rank to rank, and which ranks share a node has changed.",
            4: "Four arrows cross where two did, counted over both nodes.",
            3: "Count the arrows that leave node 0: one before, and now?",
        },
        apart="Bytes do not depend on how busy a machine is: look at the matrix of the run.",
    )


def _leave(storeys_bytes: int, flat_bytes: int, size_bytes: int) -> Explanation:
    """From what leaves a node in the hierarchical all-reduce and in the flat one, of a tensor of this size."""
    return Explanation(
        measured=mib(storeys_bytes),
        model=mib(size_bytes),
        because="Each rank all-reduces its half with one rank of the other node. Between two, an all-reduce sends "
        "the whole "
        f"half once each way: {mib(size_bytes / 2):g} MiB of each rank, and a node has two. A third is saved, "
        f"{mib(flat_bytes):g} MiB to {mib(storeys_bytes):g}.",
        misreadings={
            mib(size_bytes / 2): "That much leaves each *rank*. Both ranks of a node send over the link.",
            mib(
                flat_bytes / 2
            ): "That is half of the flat one. Count what each of the two ranks of a node sends: its half, once.",
            mib(flat_bytes): "Then nothing would be gained. In the flat ring the rank at the border passes on six "
            "quarters of the tensor; here each of two ranks sends its half once.",
            mib(size_bytes / 4): "A rank's half is cut in two again, and both quarters cross: one to be added, and "
            "one with the sum.",
        },
        apart="Bytes do not depend on how busy a machine is. Which collective of the three crosses here?",
    )


_WAYS = ("DDP", "sharded over all", "hybrid")


def _steps(sent: Mapping[str, int], weights_bytes: int) -> Explanation:
    """From what leaves a node in a step, by way of training."""
    least = min(sent, key=lambda name: sent[name])
    shares = {name: size / weights_bytes for name, size in sent.items()}
    misreadings = {
        "DDP": "One all-reduce and nothing else. But it is the flat one, a ring through all ranks; hybrid sharding "
        "adds up inside the node before anything leaves it.",
        "sharded over all": "Each rank keeps a quarter, and needs all of it twice a step: weights cross as well as "
        "gradients.",
        "hybrid": "Its replicas average between nodes. Count again what that sends.",
    }
    return Explanation(
        measured=least,
        because="Hybrid sharding is the hierarchical all-reduce, spread over a step. It has a reduce-scatter inside, "
        "an all-reduce of the part between, and an all-gather inside with the next forward. These bytes leave a node, "
        f"divided by the bytes of the weights: {shares['hybrid']:.2f} for hybrid, {shares['DDP']:.2f} for DDP, and "
        f"{shares['sharded over all']:.2f} sharded over all four. (With rings alone the last would be 2.25; the "
        "course's reduce-scatter sends each rank its part directly.)",
        misreadings={name: said for name, said in misreadings.items() if name != least},
    )


def _pieces(sent: Mapping[str, int], before: Mapping[str, int]) -> Explanation:
    """From what leaves a node in a step of four pieces and of one, by way of training."""
    all_bytes, hybrid_bytes = sent["sharded over all"], sent["hybrid"]
    once = before["sharded over all"] / before["hybrid"]
    return Explanation(
        measured=round(all_bytes / hybrid_bytes, 2),
        model=7,
        because="`no_sync` keeps gradients on the rank, and weights are gathered for each piece, twice. Sharded over "
        "all, these all-gathers cross the slow link eight times. With hybrid sharding they stay inside the node: what "
        f"leaves it is {mib(hybrid_bytes):g} MiB, however many pieces there are. With DDP it is the same, "
        f"{mib(sent['DDP']):g} MiB. Memory decides whether weights can stay within a node. If they can, only "
        "gradients go over the slow link, once a step.",
        misreadings={
            round(once, 2): "That was a step of one piece. Gradients wait for the last piece; weights cannot.",
            4: "Each of four pieces gathers twice. And with hybrid sharding only the reduction crosses, once.",
            round(4 * once, 1): "That is all bytes four times. But the gradients leave once, with the last piece.",
            1: "With `no_sync` no gradients are sent. But weights have to be gathered for each piece.",
        },
        apart="Bytes do not depend on how busy a machine is: look at what is called in a step of pieces.",
    )


NODES: tuple[Asked, ...] = (
    Asked(
        name="12.first",
        question="zebra began first and holds the store, ant came later: which machine becomes node 0?",
        choices=_FIRST,
        tell=_first,
    ),
    Asked(
        name="12.gpu",
        question="Nodes of 8, 4 and 4 GPUs, RANK % 8: how many ranks ask for a GPU that is not there?",
        unit="ranks",
        high=16,
        tell=_gpu,
    ),
    Asked(
        name="12.turn",
        question="Ranks dealt out in turn: how many times as much leaves a node in the flat all-reduce?",
        unit="times",
        high=100,
        tell=_turn,
    ),
    Asked(
        name="12.leave",
        question="2 MiB on two nodes of two, hierarchical: how many MiB leave a node?",
        unit="MiB",
        high=100,
        tell=_leave,
    ),
    Asked(
        name="12.steps",
        question="A step of training: with which of these does the least leave a node?",
        choices=_WAYS,
        tell=_steps,
    ),
    Asked(
        name="12.pieces",
        question="Four pieces, no_sync, sharded over all: how many times hybrid sharding's bytes leave a node?",
        unit="times",
        high=1000,
        tell=_pieces,
    ),
)
