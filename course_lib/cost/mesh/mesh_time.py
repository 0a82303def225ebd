"""How long a training step on a mesh takes: every rank's items, played through on links of any speed.

A rank computes, starts calls and waits for them. A collective begins when all of its ranks have started it, a message
when both ends have; its bytes go round by round from rank to rank, and each message waits for the ports at both ends.
So groups of one axis that share a node's way out slow each other down, an all-gather that was started early hides
behind what is computed meanwhile, and a pipeline has its bubble.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from course_lib.base.checked import checked
from course_lib.base.checks import not_negative
from course_lib.cost.collectives.collective_rounds import rounds_of
from course_lib.cost.collectives.network import Network
from course_lib.cost.mesh.link_bytes import MeshStep
from course_lib.cost.mesh.mesh_program import Item, MeshCall

__all__ = ["MeshStepTime", "mesh_step_time"]


@checked
@dataclass(frozen=True)
class MeshStepTime:
    """Seconds of a step, and where they went: the mean over ranks."""

    step_s: float  # until the last rank is done
    compute_s: float
    waited_s: dict[str, float]  # for calls along an axis; in a pipeline's bubble for a message of ``pp``

    def __post_init__(self) -> None:
        not_negative(step_s=self.step_s, compute_s=self.compute_s, **self.waited_s)


@checked
def mesh_step_time(
    step: MeshStep,
    network: Network,
    *,
    forward_s: float = 0.0,
    backward_s: float = 0.0,
    call_s: float = 0.0,
    separate_ports: bool = False,
    work: Sequence[float] | None = None,
) -> MeshStepTime:
    """``forward_s`` and ``backward_s``: what a rank computes in a step, the same on each, in all micro-batches.

    ``work``: how many times that each rank computes, where they are not alike, as in stages of unequal layers.
    ``call_s``: what a collective or a message takes beside its bytes. A rank's port carries one message at a time each
    way, as on shaped links; with ``separate_ports`` those to its own node and those to others have one each, as NVLink
    and a network card. ``ValueError`` for a network of another number of ranks than the mesh.
    """
    not_negative(forward_s=forward_s, backward_s=backward_s, call_s=call_s)
    if network.num_ranks != step.mesh.num_ranks:
        raise ValueError(
            f"this network has {network.num_ranks} ranks, and the mesh {step.mesh} has {step.mesh.num_ranks}: give a "
            f"network of {step.mesh.num_ranks} ranks"
        )
    if work is not None and len(work) != step.mesh.num_ranks:
        raise ValueError(f"work has {len(work)} numbers, one for each rank, and {step.mesh} has {step.mesh.num_ranks}")
    compute_s = {"forward": forward_s, "backward": backward_s}
    return _Play(step, _Ports(network, separate_ports), compute_s, call_s, work).go()


class _Ports:
    """When each port is free again, by direction."""

    def __init__(self, network: Network, separate: bool) -> None:
        self.network, self.separate = network, separate
        self.per_node = network.ranks_per_node or network.num_ranks
        self.free_s: defaultdict[tuple[object, ...], float] = defaultdict(float)

    def carry(self, sender: int, receiver: int, size_bytes: float, ready_s: float) -> float:
        """Send it when both ends are ready and their ports are free; when has it arrived?"""
        crosses = sender // self.per_node != receiver // self.per_node
        ports = [*self._ports("out", sender, crosses), *self._ports("in", receiver, crosses)]
        start_s = max(ready_s, *(self.free_s[port] for port in ports))
        link = self.network.link(sender, receiver)
        end_s = start_s + link.time_s(size_bytes)
        for port in ports:  # what a node's port has passed is on its way, and others may follow
            self.free_s[port] = end_s - (link.latency_s if port[1] == "node" else 0.0)
        return end_s

    def _ports(self, way: str, rank: int, crosses: bool) -> list[tuple[object, ...]]:
        own = (way, "rank", rank, crosses and self.separate)
        node = (way, "node", rank // self.per_node, rank % self.network.ports_per_node)
        return [own, node] if crosses else [own]


@dataclass
class _Underway:
    """A call that some of its ranks have started."""

    call: MeshCall
    entered_s: dict[int, float] = field(default_factory=dict)
    done_s: dict[int, float] = field(default_factory=dict)  # when the back end is done, rank by rank


Key = tuple[object, ...]


class _Play:
    def __init__(
        self,
        step: MeshStep,
        ports: _Ports,
        compute_s: dict[str, float],
        call_s: float,
        work: Sequence[float] | None,
    ) -> None:
        self.step, self.ports, self.compute_s, self.call_s = step, ports, compute_s, call_s
        num_ranks = step.mesh.num_ranks
        self.work = work or [1.0] * num_ranks
        self.items = [deque(step.items(rank)) for rank in range(num_ranks)]
        self.now_s, self.computed_s = [0.0] * num_ranks, 0.0
        self.waited_s: defaultdict[str, float] = defaultdict(float)
        self.calls: dict[Key, _Underway] = {}
        self.numbers = [Counter[Key]() for _ in range(num_ranks)]  # of calls started so far, by what numbers them
        self.mine: list[defaultdict[MeshCall, deque[Key]]] = [defaultdict(deque) for _ in range(num_ranks)]
        self.ready: list[tuple[float, int, Key]] = []  # calls that all ranks have started
        self.count = itertools.count()

    def go(self) -> MeshStepTime:
        for rank in range(len(self.items)):
            self._advance(rank)
        while self.ready:
            _, _, key = heapq.heappop(self.ready)
            under_way = self.calls[key]
            self._carry_out(under_way)
            for rank in under_way.call.ranks:
                self._advance(rank)
        assert not any(self.items), "ranks wait for calls that others never start"
        n = len(self.items)
        axes = (*self.step.mesh.axes, "loss")
        return MeshStepTime(max(self.now_s), self.computed_s / n, {axis: self.waited_s[axis] / n for axis in axes})

    def _advance(self, rank: int) -> None:
        """Let a rank run until it has to wait for a call of which nobody knows yet when it is done."""
        items = self.items[rank]
        while items and self._do(rank, items[0]):
            items.popleft()

    def _do(self, rank: int, item: Item) -> bool:
        if item.call is None:
            time_s = item.share * self.compute_s[item.do] * self.work[rank]
            self.now_s[rank] += time_s
            self.computed_s += time_s
        elif item.do == "start":
            self._start(rank, item.call)
        else:
            key = self.mine[rank][item.call][0]
            done_s = self.calls[key].done_s.get(rank)
            if done_s is None:
                return False
            self.mine[rank][item.call].popleft()
            self.waited_s[item.call.axis] += max(0.0, done_s - self.now_s[rank])
            self.now_s[rank] = max(self.now_s[rank], done_s)
        return True

    def _start(self, rank: int, call: MeshCall) -> None:
        series: Key = (call.axis, call.ranks, call.what if call.operation == "send" else "")
        self.numbers[rank][series] += 1
        key = (*series, self.numbers[rank][series])
        under_way = self.calls.setdefault(key, _Underway(call))
        under_way.entered_s[rank] = self.now_s[rank]
        self.mine[rank][call].append(key)
        if len(under_way.entered_s) == len(call.ranks):
            heapq.heappush(self.ready, (max(under_way.entered_s.values()), next(self.count), key))

    def _carry_out(self, under_way: _Underway) -> None:
        """Book the ports for every message; from then on it is known when each rank is done."""
        call, entered_s = under_way.call, under_way.entered_s
        if call.operation == "send":
            begin_s = max(entered_s.values())
            end_s = self.ports.carry(call.ranks[0], call.ranks[1], call.size_bytes, begin_s)
            under_way.done_s = dict.fromkeys(call.ranks, end_s + self.call_s)
            return
        ready_s, last_s = dict(entered_s), dict(entered_s)
        for senders, receivers, size_bytes in _messages(call, self.step.backend):
            arrived_s = [
                (a, b, self.ports.carry(a, b, size_bytes, ready_s[a])) for a, b in zip(senders, receivers, strict=True)
            ]
            for sender, receiver, moment_s in arrived_s:
                for rank in (sender, receiver):
                    last_s[rank] = max(last_s[rank], moment_s)
                if call.operation != "all_to_all":  # a ring sends on what the round before has brought
                    ready_s[receiver] = max(ready_s[receiver], moment_s)
        under_way.done_s = {rank: moment_s + self.call_s for rank, moment_s in last_s.items()}


def _messages(call: MeshCall, backend: str) -> list[tuple[list[int], list[int], float]]:
    """A collective round by round: who sends to whom, and how much each."""
    n, name, size_bytes = len(call.ranks), call.operation, float(call.size_bytes)
    if name == "all_gather":
        size_bytes *= n  # of the whole buffer
    if name == "reduce_scatter" and backend == "gloo":
        name = "all_reduce"  # which it is, inside
    rounds = rounds_of(name, "pairwise" if name == "all_to_all" else "ring", n, size_bytes)
    return [
        (
            [call.ranks[i] for i in one.senders],
            [call.ranks[i] for i in one.receivers],
            float(one.sizes_bytes[0]),
        )
        for one in rounds
        for _ in range(one.repeat)
    ]
