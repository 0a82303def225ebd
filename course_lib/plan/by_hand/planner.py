"""A planner of one page: the bytes and the seconds of a layout by formulas, and the layouts that fit.

Each method is one formula of lesson 11's build; ``estimate`` has what these leave out, such as norms that wait for
memory, the cross-entropy, interleaved stages and the tree that an all-reduce takes between two nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product, takewhile
from statistics import median

from course_lib.plan.by_hand.inputs import Machines, PlannedJob, TimedRun
from course_lib.plan.inputs.layout import Layout

__all__ = ["Planner"]

_SHARES = tuple(0.01 * percent for percent in range(5, 101))


class Planner:
    """Memory, seconds and order of the layouts of ``job`` on ``machines``."""

    weight_bytes, optimizer_bytes, logit_bytes = 2, 12, 10

    def __init__(self, job: PlannedJob, machines: Machines) -> None:
        self.job, self.machines = job, machines

    # -- what a layer is ------------------------------------------------------------------------------------------

    @property
    def kv_width(self) -> float:
        """Channels of the keys, and of the values."""
        return self.job.hidden // self.job.heads * self.job.kv_heads

    @property
    def matrices(self) -> float:
        """Numbers in the matrices of a layer."""
        job = self.job
        return 2 * job.hidden * (job.hidden + self.kv_width) + (3 if job.gated else 2) * job.hidden * job.ffn

    def tables(self, layout: Layout, stage: int) -> int:
        """Tables of the vocabulary that a stage holds."""
        if layout.pp == 1:
            return 1 if self.job.tied else 2
        return int(stage in (0, layout.pp - 1))

    def numbers(self, layout: Layout, stage: int) -> float:
        """Parameters that a rank of a stage has before sharding: matrices and tables by ``tp``, norms whole."""
        job = self.job
        layer = self.matrices / layout.tp + 2 * job.hidden
        return job.layers // layout.pp * layer + self.tables(layout, stage) * job.vocab * job.hidden / layout.tp

    # -- memory -------------------------------------------------------------------------------------------------------

    def shards(self, layout: Layout, stage_of_sharding: int) -> int:
        """Among how many ranks a part is shared out that this stage of sharding begins to share."""
        return layout.dp if layout.sharding >= stage_of_sharding else 1

    def micro_batches(self, layout: Layout) -> int:
        """Micro-batches of a rank in a step."""
        return self.job.batch // (layout.dp * layout.micro_batch)

    def in_flight(self, layout: Layout, stage: int) -> int:
        """Micro-batches whose activations a stage of 1F1B holds at once."""
        return min(layout.pp - stage, self.micro_batches(layout))

    def layer_bytes(self, layout: Layout) -> float:
        """What a layer keeps of a micro-batch for its backward pass."""
        job, kv = self.job, self.kv_width
        cut = 4 * job.hidden + 4 * kv + (8 if job.gated else 4) * job.ffn
        cut += 6 * (job.hidden + kv) if job.gated else 0
        outside = 8 * job.hidden / (layout.tp if layout.sequence_parallel else 1)
        return layout.micro_batch * job.seq * (outside + cut / layout.tp)

    def input_bytes(self, layout: Layout) -> float:
        """The input of a layer, for a micro-batch."""
        rows = layout.micro_batch * self.job.seq
        return 2 * rows * self.job.hidden / (layout.tp if layout.sequence_parallel else 1)

    def kept_bytes(self, layout: Layout, stage: int) -> float:
        """Activations at their most."""
        layers, count = self.job.layers // layout.pp, self.in_flight(layout, stage)
        if layout.recompute == "full":
            return count * layers * self.input_bytes(layout) + self.layer_bytes(layout)
        return count * layers * self.layer_bytes(layout)

    def memory(self, layout: Layout, stage: int) -> dict[str, float]:
        """Bytes of a rank of this stage, by part."""
        numbers, job = self.numbers(layout, stage), self.job
        logits = self.logit_bytes * layout.micro_batch * job.seq * job.vocab / layout.tp
        return {
            "weights": self.weight_bytes * numbers / self.shards(layout, 3),
            "gradients": job.gradient_bytes * numbers / self.shards(layout, 2),
            "optimizer": self.optimizer_bytes * numbers / self.shards(layout, 1),
            "activations": self.kept_bytes(layout, stage),
            "logits": logits if stage == layout.pp - 1 else 0.0,
        }

    def needed_bytes(self, layout: Layout) -> float:
        """All bytes of the fullest rank, the reserve among them."""
        most = max(sum(self.memory(layout, stage).values()) for stage in range(layout.pp))
        return most + self.machines.reserve_bytes

    # -- time ---------------------------------------------------------------------------------------------------------

    def forward_s(self, layout: Layout) -> float:
        """The products of a layer's forward pass on one micro-batch."""
        job, rate = self.job, self.machines.peak_flops_per_s * self.machines.share
        flops = layout.micro_batch * job.seq * (2 * self.matrices + 4 * job.seq * job.hidden)
        return flops / layout.tp / rate

    def pass_s(self, layout: Layout, forwards: float) -> float:
        """A pass of a layer that computes as much as so many forwards."""
        return max(forwards * self.forward_s(layout), self.machines.pass_s)

    def backward_s(self, layout: Layout) -> float:
        """The backward pass of a stage's layers on one micro-batch, without what is computed again."""
        return self.job.layers // layout.pp * self.pass_s(layout, 2)

    def slot_s(self, layout: Layout, stage: int) -> float:
        """The computing of one micro-batch on a stage, forward and backward."""
        job, rate = self.job, self.machines.peak_flops_per_s * self.machines.share
        forwards = 2 if layout.recompute == "full" else 1
        layers_s = forwards * (job.layers // layout.pp) * self.pass_s(layout, 1) + self.backward_s(layout)
        output_s = 3 * 2 * layout.micro_batch * job.seq * job.vocab * job.hidden / layout.tp / rate
        return layers_s + (output_s if stage == layout.pp - 1 else 0.0)

    def slots(self, layout: Layout) -> int:
        """Slots of a pipeline in a step, bubble and all."""
        return self.micro_batches(layout) + layout.pp - 1

    def compute_s(self, layout: Layout) -> float:
        """The first micro-batch through all stages, and the others at the pace of the slowest."""
        every = [self.slot_s(layout, stage) for stage in range(layout.pp)]
        return sum(every) + (self.micro_batches(layout) - 1) * max(every)

    def rate_of(self, size: int, stride: int) -> float:
        """Bytes a second that each rank of a group gets in a ring; ``stride``: from one rank to the next."""
        machines = self.machines
        nodes = Counter(rank // machines.node_size for rank in range(0, size * stride, stride))
        if len(nodes) == 1:
            return machines.inside_bytes_per_s
        return min(machines.inside_bytes_per_s, min(nodes.values()) * machines.network_bits_per_s / 8)

    def round_s(self, size: int, stride: int, size_bytes: float) -> float:
        """An all-gather into, or a reduce-scatter of, ``size_bytes`` around a ring; 0 for one rank."""
        if size == 1:
            return 0.0
        step_s = size_bytes / size / self.rate_of(size, stride) + self.machines.latency_s
        return (size - 1) * step_s

    def row_bytes(self, layout: Layout) -> float:
        """The activations that one layer hands to the next, of a micro-batch."""
        return 2.0 * layout.micro_batch * self.job.seq * self.job.hidden

    def tensor_s(self, layout: Layout) -> float:
        """Sums of the tensor axis: two a layer in each pass, also in the one that is done again."""
        passes = 3 if layout.recompute == "full" else 2
        sums = 2 * passes * (self.job.layers // layout.pp) * self.slots(layout)
        return sums * 2 * self.round_s(layout.tp, 1, self.row_bytes(layout))

    def pipeline_s(self, layout: Layout) -> float:
        """Messages between stages: one each way in every slot."""
        if layout.pp == 1:
            return 0.0
        machines, is_inside = self.machines, layout.gpus <= self.machines.node_size
        rate = machines.inside_bytes_per_s
        if not is_inside:
            rate = min(rate, machines.network_bits_per_s / 8)
        size_bytes = self.row_bytes(layout) / (layout.tp if layout.sequence_parallel else 1)
        return 2 * self.slots(layout) * (size_bytes / rate + machines.latency_s)

    def data_s(self, layout: Layout) -> float:
        """What the data axis sends and computing does not hide; of the first stage."""
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

    def time(self, layout: Layout) -> dict[str, float]:
        """Seconds of a step, by part."""
        return {
            "compute": self.compute_s(layout),
            "tensor": self.tensor_s(layout),
            "pipeline": self.pipeline_s(layout),
            "data": self.data_s(layout),
        }

    def step_s(self, layout: Layout) -> float:
        """Seconds of a step."""
        return sum(self.time(layout).values())

    # -- search -------------------------------------------------------------------------------------------------------

    def why_not(self, layout: Layout) -> str:
        """Why the layout cannot run, in a sentence that names what is at fault; "" where it can."""
        job, gpus = self.job, self.machines.gpus
        if layout.gpus != gpus:
            return f"tp x pp x dp is {layout.gpus}, and there are {gpus} GPUs"
        for name, size in (("heads", job.heads), ("kv_heads", job.kv_heads), ("ffn", job.ffn)):
            if size % layout.tp:
                return f"tp={layout.tp} does not divide {name}={size}"
        if job.layers % layout.pp:
            return f"pp={layout.pp} does not divide layers={job.layers}"
        if job.batch % (layout.dp * layout.micro_batch):
            return f"dp={layout.dp} with micro_batch={layout.micro_batch} does not divide batch={job.batch}"
        if layout.sharding and layout.dp == 1:
            return f"sharding={layout.sharding} needs other data ranks to share with, and dp is 1"
        needed, there = self.needed_bytes(layout), self.machines.memory_bytes
        if needed > there:
            return f"the memory is too small: a GPU needs {needed / 1e9:.1f} GB and has {there / 1e9:.1f} GB"
        return ""

    def candidates(self) -> Iterator[Layout]:
        """Layouts on all GPUs, legal or not."""
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

    def plans(self) -> list[tuple[float, Layout]]:
        """Every layout that is legal and fits, with the seconds of its step, fastest first."""
        found = [(self.step_s(one), one) for one in self.candidates() if not self.why_not(one)]
        return sorted(found, key=lambda plan: plan[0])

    # -- runs ---------------------------------------------------------------------------------------------------------

    def fit(self, runs: Sequence[TimedRun]) -> Machines:
        """The machines with the share of the peak that has the least error on these runs, at the median.

        ValueError where there are no runs.
        """
        if not runs:
            raise ValueError("fit got no runs, and needs them to find the share of the peak. Give at least one")

        def error(share: float) -> float:
            planners = (type(self)(run.job, replace(run.machines, share=share)) for run in runs)
            return median(
                abs(planner.step_s(run.layout) / run.step_s - 1) for planner, run in zip(planners, runs, strict=True)
            )

        return replace(self.machines, share=min(_SHARES, key=error))
