"""11.planner: a right one, of one method for each formula."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product, takewhile
from statistics import median

from course_lib.plan import Layout

_SHARES = tuple(0.01 * percent for percent in range(5, 101))


class Parted:
    """Each formula is a method, before which a wrong one may stand."""

    weight_bytes, optimizer_bytes, logit_bytes = 2, 12, 10

    def __init__(self, job, machines):
        self.job, self.machines = job, machines

    @property
    def kv_width(self):
        return self.job.hidden // self.job.heads * self.job.kv_heads

    @property
    def matrices(self):
        job = self.job
        return 2 * job.hidden * (job.hidden + self.kv_width) + (3 if job.gated else 2) * job.hidden * job.ffn

    def tables(self, layout, stage):
        if layout.pp == 1:
            return 1 if self.job.tied else 2
        return int(stage in (0, layout.pp - 1))

    def numbers(self, layout, stage):
        job = self.job
        layer = self.matrices / layout.tp + 2 * job.hidden
        return job.layers // layout.pp * layer + self.tables(layout, stage) * job.vocab * job.hidden / layout.tp

    def shards(self, layout, stage_of_sharding):
        return layout.dp if layout.sharding >= stage_of_sharding else 1

    def micro_batches(self, layout):
        return self.job.batch // (layout.dp * layout.micro_batch)

    def in_flight(self, layout, stage):
        return min(layout.pp - stage, self.micro_batches(layout))

    def layer_bytes(self, layout):
        job, kv = self.job, self.kv_width
        cut = 4 * job.hidden + 4 * kv + (8 if job.gated else 4) * job.ffn
        cut += 6 * (job.hidden + kv) if job.gated else 0
        outside = 8 * job.hidden / (layout.tp if layout.sequence_parallel else 1)
        return layout.micro_batch * job.seq * (outside + cut / layout.tp)

    def input_bytes(self, layout):
        rows = layout.micro_batch * self.job.seq
        return 2 * rows * self.job.hidden / (layout.tp if layout.sequence_parallel else 1)

    def kept_bytes(self, layout, stage):
        layers, count = self.job.layers // layout.pp, self.in_flight(layout, stage)
        if layout.recompute == "full":
            return count * layers * self.input_bytes(layout) + self.layer_bytes(layout)
        return count * layers * self.layer_bytes(layout)

    def memory(self, layout, stage):
        numbers, job = self.numbers(layout, stage), self.job
        logits = self.logit_bytes * layout.micro_batch * job.seq * job.vocab / layout.tp
        return {
            "weights": self.weight_bytes * numbers / self.shards(layout, 3),
            "gradients": job.gradient_bytes * numbers / self.shards(layout, 2),
            "optimizer": self.optimizer_bytes * numbers / self.shards(layout, 1),
            "activations": self.kept_bytes(layout, stage),
            "logits": logits if stage == layout.pp - 1 else 0.0,
        }

    def needed_bytes(self, layout):
        most = max(sum(self.memory(layout, stage).values()) for stage in range(layout.pp))
        return most + self.machines.reserve_bytes

    def forward_s(self, layout):
        job, rate = self.job, self.machines.peak_flops_per_s * self.machines.share
        flops = layout.micro_batch * job.seq * (2 * self.matrices + 4 * job.seq * job.hidden)
        return flops / layout.tp / rate

    def pass_s(self, layout, forwards):
        return max(forwards * self.forward_s(layout), self.machines.pass_s)

    def backward_s(self, layout):
        return self.job.layers // layout.pp * self.pass_s(layout, 2)

    def slot_s(self, layout, stage):
        job, rate = self.job, self.machines.peak_flops_per_s * self.machines.share
        forwards = 2 if layout.recompute == "full" else 1
        layers_s = forwards * (job.layers // layout.pp) * self.pass_s(layout, 1) + self.backward_s(layout)
        output_s = 3 * 2 * layout.micro_batch * job.seq * job.vocab * job.hidden / layout.tp / rate
        return layers_s + (output_s if stage == layout.pp - 1 else 0.0)

    def slots(self, layout):
        return self.micro_batches(layout) + layout.pp - 1

    def compute_s(self, layout):
        every = [self.slot_s(layout, stage) for stage in range(layout.pp)]
        return sum(every) + (self.micro_batches(layout) - 1) * max(every)

    def rate_of(self, size, stride):
        machines = self.machines
        nodes = Counter(rank // machines.node_size for rank in range(0, size * stride, stride))
        if len(nodes) == 1:
            return machines.inside_bytes_per_s
        return min(machines.inside_bytes_per_s, min(nodes.values()) * machines.network_bits_per_s / 8)

    def round_s(self, size, stride, size_bytes):
        if size == 1:
            return 0.0
        step_s = size_bytes / size / self.rate_of(size, stride) + self.machines.latency_s
        return (size - 1) * step_s

    def row_bytes(self, layout):
        return 2.0 * layout.micro_batch * self.job.seq * self.job.hidden

    def tensor_s(self, layout):
        passes = 3 if layout.recompute == "full" else 2
        sums = 2 * passes * (self.job.layers // layout.pp) * self.slots(layout)
        return sums * 2 * self.round_s(layout.tp, 1, self.row_bytes(layout))

    def pipeline_s(self, layout):
        if layout.pp == 1:
            return 0.0
        machines, is_inside = self.machines, layout.gpus <= self.machines.node_size
        rate = machines.inside_bytes_per_s
        if not is_inside:
            rate = min(rate, machines.network_bits_per_s / 8)
        size_bytes = self.row_bytes(layout) / (layout.tp if layout.sequence_parallel else 1)
        return 2 * self.slots(layout) * (size_bytes / rate + machines.latency_s)

    def data_s(self, layout):
        numbers, hidden = self.numbers(layout, 0), self.machines.hidden

        def round_s(each_bytes: float) -> float:
            return self.round_s(layout.dp, layout.tp, each_bytes * numbers)

        gradients_s, weights_s = round_s(self.job.gradient_bytes), round_s(self.weight_bytes)
        if layout.sharding == 3:
            count = self.micro_batches(layout)
            sent_s = count * (gradients_s + 2 * weights_s)
            return sent_s - hidden * min(sent_s, count * self.slot_s(layout, 0))
        late_s = 0.0
        if layout.sharding:
            late_s = weights_s
        else:
            gradients_s *= 2
        return gradients_s - hidden * min(gradients_s, self.backward_s(layout)) + late_s

    def time(self, layout):
        return {
            "compute": self.compute_s(layout),
            "tensor": self.tensor_s(layout),
            "pipeline": self.pipeline_s(layout),
            "data": self.data_s(layout),
        }

    def step_s(self, layout):
        return sum(self.time(layout).values())

    def why_not(self, layout):
        job, gpus = self.job, self.machines.gpus
        if layout.gpus != gpus:
            return f"tp x pp x dp is {layout.gpus}, and there are {gpus} gpus"
        for name, size in (("heads", job.heads), ("kv_heads", job.kv_heads), ("ffn", job.ffn)):
            if size % layout.tp:
                return f"tp={layout.tp} does not divide {name}={size}"
        if job.layers % layout.pp:
            return f"pp={layout.pp} does not divide layers={job.layers}"
        if job.batch % (layout.dp * layout.micro_batch):
            return f"dp={layout.dp} with micro_batch={layout.micro_batch} does not divide batch={job.batch}"
        if layout.sharding and layout.dp == 1:
            return f"sharding={layout.sharding} has nobody to share with: dp is 1"
        needed, there = self.needed_bytes(layout), self.machines.memory_bytes
        if needed > there:
            return f"the memory is too small: {needed / 1e9:.1f} GB are needed, and there are {there / 1e9:.1f}"
        return ""

    def candidates(self):
        gpus, batch = self.machines.gpus, self.job.batch
        sizes = [size for size in range(1, gpus + 1) if gpus % size == 0]
        for tp, pp in product(sizes, sizes):
            dp, rest = divmod(gpus, tp * pp)
            if rest or batch % dp or self.job.layers % pp or self.job.kv_heads % tp:
                continue
            powers = takewhile(lambda size, share=batch // dp: size <= share, (2**n for n in range(64)))
            for micro_batch, sharding, recompute in product(powers, (0, 1, 3) if dp > 1 else (0,), ("none", "full")):
                yield Layout(
                    tp=tp,
                    pp=pp,
                    dp=dp,
                    micro_batch=micro_batch,
                    sharding=sharding,
                    recompute=recompute,
                    sequence_parallel=tp > 1,
                )

    def plans(self):
        found = [(self.step_s(one), one) for one in self.candidates() if not self.why_not(one)]
        return sorted(found, key=lambda plan: plan[0])

    def fit(self, runs):
        def error(share: float) -> float:
            planners = (type(self)(run.job, replace(run.machines, share=share)) for run in runs)
            return median(
                abs(planner.step_s(run.layout) / run.step_s - 1) for planner, run in zip(planners, runs, strict=True)
            )

        return replace(self.machines, share=min(_SHARES, key=error))
