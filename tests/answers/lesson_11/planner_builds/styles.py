"""11.planner: right ones of other styles."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

from course_lib.plan import Layout


class InLoops:
    """Slot after slot and round after round, and nothing in closed form; the share by a search that halves."""

    def __init__(self, job, machines):
        self.job = job
        self.machines = machines

    def memory(self, layout, stage):
        job, total = self.job, 0.0
        head = job.hidden // job.heads
        for _ in range(job.layers // layout.pp):
            for width in (job.heads * head, job.kv_heads * head, job.kv_heads * head, job.heads * head):
                total += job.hidden * width / layout.tp
            for _ in range(3 if job.gated else 2):
                total += job.hidden * job.ffn / layout.tp
            total += job.hidden + job.hidden
        names = set()
        if stage == 0:
            names.add("looks up")
        if stage == layout.pp - 1:
            names.add("looks up" if job.tied and layout.pp == 1 else "scores")
        total += len(names) * job.vocab * job.hidden / layout.tp
        bytes_each = {"weights": 2, "gradients": job.gradient_bytes, "optimizer": 12}
        shared_from = {"weights": 3, "gradients": 2, "optimizer": 1}
        found = {
            name: each * (total / layout.dp if layout.sharding >= shared_from[name] else total)
            for name, each in bytes_each.items()
        }
        one, thin = self._layer_bytes(layout)
        count = 0
        for number in range(job.batch // layout.dp // layout.micro_batch):
            count = max(count, min(number + 1, layout.pp - stage))
        each = thin if layout.recompute == "full" else one
        found["activations"] = sum(each for _ in range(count * job.layers // layout.pp))
        if layout.recompute == "full":
            found["activations"] += one
        found["logits"] = 0
        if stage + 1 == layout.pp:
            found["logits"] = layout.micro_batch * job.seq * job.vocab * (2 + 4 + 4) / layout.tp
        return found

    def _layer_bytes(self, layout):
        job = self.job
        kv, tokens = job.kv_heads * (job.hidden // job.heads), layout.micro_batch * job.seq
        whole = tokens * 2 * job.hidden
        if layout.sequence_parallel:
            whole /= layout.tp
        inner = 2 * (2 * job.hidden + 2 * kv) + 2 * job.ffn * (4 if job.gated else 2)
        if job.gated:
            inner += (2 + 4) * (job.hidden + kv)
        return 4 * whole + tokens * inner / layout.tp, whole

    def _group(self, size, stride):
        """(rounds, rate)."""
        first, machines = [number * stride for number in range(size)], self.machines
        by_node = {}
        for rank in first:
            by_node.setdefault(rank // machines.node_size, []).append(rank)
        if len(by_node) == 1:
            return size - 1, machines.inside_bytes_per_s
        ports = min(len(ranks) for ranks in by_node.values())
        return size - 1, min(machines.inside_bytes_per_s, ports * machines.network_bits_per_s / 8)

    def _around(self, size, stride, size_bytes):
        rounds, rate = self._group(size, stride)
        passed = 0.0
        for _ in range(rounds):
            passed += self.machines.latency_s + size_bytes / size / rate
        return passed

    def time(self, layout):
        job, machines = self.job, self.machines
        kv, tokens = job.kv_heads * (job.hidden // job.heads), layout.micro_batch * job.seq
        matrices = job.hidden * (2 * job.hidden + 2 * kv) + (3 if job.gated else 2) * job.hidden * job.ffn
        rate = machines.share * machines.peak_flops_per_s
        forward_s = (2 * matrices + 4 * job.seq * job.hidden) * tokens / layout.tp / rate
        layers, count = job.layers // layout.pp, job.batch // layout.dp // layout.micro_batch
        passes = [forward_s, 2 * forward_s] + ([forward_s] if layout.recompute == "full" else [])
        passes = [max(one, machines.pass_s) * layers for one in passes]
        stages = [sum(passes) for _ in range(layout.pp)]
        stages[-1] += 6 * job.vocab * job.hidden * tokens / layout.tp / rate
        computing = sum(stages)
        for _ in range(count - 1):
            computing += max(stages)
        slots = count + layout.pp - 1
        rows = 2 * tokens * job.hidden
        sums = sum(2 * 2 * self._around(layout.tp, 1, rows) for _ in passes) * layers * slots
        hops = 0.0
        if layout.pp > 1:
            speed = machines.inside_bytes_per_s
            if layout.tp * layout.dp * layout.pp > machines.node_size:
                speed = min(speed, machines.network_bits_per_s / 8)
            part = rows / layout.tp if layout.sequence_parallel else rows
            hops = sum(2 * (machines.latency_s + part / speed) for _ in range(slots))
        return {
            "compute": computing,
            "tensor": sums,
            "pipeline": hops,
            "data": self._data(layout, count, passes[1], stages[0]),
        }

    def _data(self, layout, count, backward_s, slot_s):
        if layout.dp == 1:
            return 0.0
        numbers = self.memory(replace(layout, sharding=0), 0)["weights"] / 2
        gradients = self._around(layout.dp, layout.tp, self.job.gradient_bytes * numbers)
        weights = self._around(layout.dp, layout.tp, 2 * numbers)
        may_hide, window, late = {
            0: (2 * gradients, backward_s, 0.0),
            1: (gradients, backward_s, weights),
            2: (gradients, backward_s, weights),
            3: (count * (gradients + weights + weights), count * slot_s, 0.0),
        }[layout.sharding]
        return may_hide - self.machines.hidden * min(may_hide, window) + late

    def why_not(self, layout):
        job = self.job
        reasons = []
        if any(size % layout.tp for size in (job.heads, job.kv_heads)):
            reasons.append(f"The heads cannot be dealt to {layout.tp} ranks.")
        if job.ffn % layout.tp:
            reasons.append(f"The ffn cannot be cut in {layout.tp}.")
        if job.layers % layout.pp:
            reasons.append(f"The layers cannot be cut in {layout.pp} stages.")
        if job.batch % (layout.dp * layout.micro_batch):
            reasons.append(f"The batch of {job.batch} is no multiple of {layout.dp * layout.micro_batch}.")
        if not reasons:
            fullest = max(sum(self.memory(layout, stage).values()) for stage in range(layout.pp))
            if fullest + self.machines.reserve_bytes > self.machines.memory_bytes:
                reasons.append("There is not enough memory.")
        return " ".join(reasons)

    def plans(self):
        gpus, found = self.machines.gpus, []
        for tp in (n for n in range(1, self.job.heads + 1) if self.job.heads % n == 0 and gpus % n == 0):
            for pp in (n for n in range(1, self.job.layers + 1) if self.job.layers % n == 0 and gpus % (tp * n) == 0):
                dp, micro_batch = gpus // tp // pp, 1
                while dp * micro_batch <= self.job.batch:
                    for sharding in {0, 1, 3} if dp > 1 else {0}:
                        for recompute in ("full", "none"):
                            layout = Layout(
                                tp, 1, pp, dp, micro_batch=micro_batch, sharding=sharding, recompute=recompute,
                                sequence_parallel=tp > 1,
                            )  # fmt: skip
                            if not self.why_not(layout):
                                found.append((sum(self.time(layout).values()), layout))
                    micro_batch *= 2
        found.sort(key=lambda one: one[0])
        return found

    def fit(self, runs):
        """Until as many runs are told too short as too long."""
        low, high = 0.01, 1.0
        for _ in range(30):
            share = (low + high) / 2
            ends = sorted(
                sum(type(self)(run.job, replace(run.machines, share=share)).time(run.layout).values()) / run.step_s
                for run in runs
            )
            low, high = (low, share) if ends[len(ends) // 2] < 1 else (share, high)
        return replace(self.machines, share=share)


@dataclass(frozen=True)
class _Rank:
    """What follows of a job and a layout."""

    layers: int
    count: int
    tokens: int
    kv: int
    matrices: int
    forward_flops: float


@cache
def _rank(job, layout):
    kv = job.hidden * job.kv_heads // job.heads
    matrices = 2 * job.hidden**2 + 2 * job.hidden * kv + (2 + job.gated) * job.hidden * job.ffn
    tokens = layout.micro_batch * job.seq
    flops = tokens * (2 * matrices + 4 * job.seq * job.hidden) / layout.tp
    count = job.batch // (layout.dp * layout.micro_batch)
    return _Rank(job.layers // layout.pp, count, tokens, kv, matrices, flops)


def _stage_numbers(job, layout, stage):
    rank = _rank(job, layout)
    tables = {(True, True): 1 if job.tied else 2, (True, False): 1, (False, True): 1, (False, False): 0}[
        stage == 0, stage == layout.pp - 1
    ]
    return rank.layers * (rank.matrices / layout.tp + 2 * job.hidden) + tables * job.vocab * job.hidden / layout.tp


class ByFunctions:
    """Functions beside the class, kept results, tuples in place of lists; the share by least squares."""

    def __init__(self, job, machines):
        self.job, self.machines = job, machines

    def memory(self, layout, stage):
        job, rank = self.job, _rank(self.job, layout)
        numbers = _stage_numbers(job, layout, stage)
        by = [layout.dp if layout.sharding > first else 1 for first in range(3)]
        row = 2 * rank.tokens * job.hidden / (layout.tp if layout.sequence_parallel else 1)
        wide = 4 * (job.hidden + rank.kv) + 4 * job.ffn * (1 + job.gated) + 6 * job.gated * (job.hidden + rank.kv)
        whole = 4 * row + rank.tokens * wide / layout.tp
        held = rank.layers * min(rank.count, layout.pp - stage)
        return {
            "optimizer": 12 * numbers / by[0],
            "gradients": job.gradient_bytes * numbers / by[1],
            "weights": 2 * numbers / by[2],
            "activations": held * whole if layout.recompute == "none" else held * row + whole,
            "logits": (stage == layout.pp - 1) * 10 * rank.tokens * job.vocab / layout.tp,
            "reserve": 0.0,
        }

    def ring(self, size, stride, size_bytes):
        machines = self.machines
        if size * stride <= machines.node_size or size == 1:
            rate = machines.inside_bytes_per_s
        else:
            nodes = [rank // machines.node_size for rank in range(0, size * stride, stride)]
            fewest = min(map(nodes.count, set(nodes)))
            rate = min(machines.inside_bytes_per_s, fewest * machines.network_bits_per_s / 8)
        return (size - 1) / size * size_bytes / rate + (size - 1) * machines.latency_s

    def time(self, layout):
        job, machines, rank = self.job, self.machines, _rank(self.job, layout)
        rate = machines.peak_flops_per_s * machines.share
        forward, back = (max(n * rank.forward_flops / rate, machines.pass_s) * rank.layers for n in (1, 2))
        again = layout.recompute == "full"
        slot = forward * (1 + again) + back
        output = 6 * rank.tokens * job.vocab * job.hidden / layout.tp / rate
        slots, row = rank.count + layout.pp - 1, 2 * rank.tokens * job.hidden
        port = machines.network_bits_per_s / 8 if layout.gpus > machines.node_size else math.inf
        hop = row / (layout.tp if layout.sequence_parallel else 1) / min(machines.inside_bytes_per_s, port)
        numbers = _stage_numbers(job, layout, 0)
        g, w = (self.ring(layout.dp, layout.tp, each * numbers) for each in (job.gradient_bytes, 2))
        if layout.sharding == 3:
            first = slot + (output if layout.pp == 1 else 0)
            data = rank.count * ((g + 2 * w) - machines.hidden * min(g + 2 * w, first))
        else:
            sent = g if layout.sharding else 2 * g
            data = sent - machines.hidden * min(sent, back) + (w if layout.sharding else 0)
        return {
            "compute": slots * slot + rank.count * output,
            "tensor": (2 + again) * 4 * rank.layers * slots * self.ring(layout.tp, 1, row),
            "pipeline": (layout.pp > 1) * 2 * slots * (hop + machines.latency_s),
            "data": data,
        }

    def why_not(self, layout):
        job = self.job
        for size, by, name in (
            (job.batch, layout.dp * layout.micro_batch, "batch"),
            (job.layers, layout.pp, "layers"),
            (job.heads, layout.tp, "heads"),
            (job.kv_heads, layout.tp, "kv_heads"),
            (job.ffn, layout.tp, "ffn"),
        ):
            if size % by:
                return f"{by} does not divide {name}"
        most = max(sum(self.memory(layout, stage).values()) for stage in range(layout.pp))
        return "" if most + self.machines.reserve_bytes <= self.machines.memory_bytes else "too little memory"

    def plans(self):
        gpus, job = self.machines.gpus, self.job
        every = [
            Layout(
                tp=tp, pp=pp, dp=gpus // tp // pp, micro_batch=2**n, sharding=z, recompute=how, sequence_parallel=tp > 1
            )
            for tp in range(1, job.kv_heads + 1)
            if gpus % tp == 0
            for pp in range(1, job.layers + 1)
            if gpus % (tp * pp) == 0
            for n in range(job.batch.bit_length())
            for z in ((0, 1, 3) if gpus > tp * pp else (0,))
            for how in ("none", "full")
        ]
        return tuple(
            sorted(
                ((sum(self.time(one).values()), one) for one in every if not self.why_not(one)),
                key=lambda plan: plan[0],
            )
        )

    def fit(self, runs):
        def squares(share):
            logs = [
                math.log(
                    sum(ByFunctions(run.job, replace(run.machines, share=share)).time(run.layout).values()) / run.step_s
                )
                for run in runs
            ]
            return sum(one * one for one in logs)

        return replace(self.machines, share=min((n / 50 for n in range(2, 51)), key=squares))
