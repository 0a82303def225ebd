"""A step's time taken apart: each part of it, and what it is made of, as products of sizes, rates and constants.

The parts are those of ``estimate.step_time``; the formulas stand here a second time, in words and numbers, and a test
holds each to what the planner says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from course_lib.plan.estimate.dp_comm_time import DataAxis, Sending, data_axis
from course_lib.plan.estimate.layer_time import (
    SCORE_BYTES,
    LayerPass,
    attention_flops_per_s,
    element_bytes,
    expert_calls,
    layer_pass,
    output_s,
    product_work,
    tensor_call_s,
    tensor_calls,
)
from course_lib.plan.estimate.links import Group
from course_lib.plan.estimate.step_time import (
    ADAM_BYTES,
    FEWER_BACKWARD,
    HOST_ADAM_BYTES_PER_S,
    LayerStep,
    StepParts,
    gradient_sum_s,
    hop_s,
    hop_shown,
    layer_step,
    optimizer_numbers,
    step_parts,
    tensor_shown,
)
from course_lib.plan.inputs.cluster import ClusterSpec
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.software import Software
from course_lib.plan.inputs.stages import layers_of_stages
from course_lib.plan.output.derived import Derived, Factor, Term

__all__ = ["TimeDerivation"]

_DATA = "data axis, exposed"
_TO_HOST_BYTES = 6  # of a number: its gradient there, and its weight back


class TimeDerivation:
    """One layout's step on a cluster, part by part."""

    def __init__(
        self, job: Job, layout: Layout, cluster: ClusterSpec, constants: Constants, software: Software
    ) -> None:
        self.job, self.layout, self.cluster = job, layout, cluster
        self.constants, self.software = constants, software
        self.step: StepParts = step_parts(job, layout, cluster, constants, software)
        self.layer: LayerStep = layer_step(job, layout, cluster, constants, software)
        self.forward: LayerPass = layer_pass(job, layout, cluster, constants, software)
        self.vocabulary_s = output_s(job, layout, cluster, constants, software)
        self.hop_s = hop_s(job, layout, cluster, constants)
        self.counts = layers_of_stages(job.model, layout.pp, software)
        stages_s = [count * self.layer.total_s for count in self.counts]
        stages_s[-1] += self.vocabulary_s
        self.slowest = max(range(layout.pp), key=stages_s.__getitem__)
        self.others_s = sum(stages_s) - stages_s[self.slowest]
        self.micro_batches = max(1.0, job.batch / (layout.micro_batch * layout.dp))
        self.data: DataAxis = data_axis(
            job.model, layout, cluster, constants, software, max(self.counts), self.layer.total_s, self.micro_batches
        )

    def lines(self) -> Iterator[Derived]:
        """The sizes that all parts share, then a layer, then the step."""
        yield from self._sizes()
        yield from self._layer()
        for part in self._parts():
            if part.value > 0:
                yield part
            if part.what == _DATA:
                yield from map(self._sending, self.data.sendings)

    # -- sizes ------------------------------------------------------------------------------------------------------

    def _sizes(self) -> Iterator[Derived]:
        job, layout = self.job, self.layout
        batch = Term(
            (Factor(job.batch, "sequences"),),
            (Factor(layout.micro_batch, "in a micro-batch"), Factor(layout.dp, "data ranks")),
        )
        note = "a rank runs at least one" if batch.value < 1 else ""
        yield Derived("micro-batches of a rank", self.micro_batches, "", () if note else (batch,), note)
        of = "" if layout.pp == 1 else f"of {_runs(self.counts)} on a stage; stage {self.slowest} is the slowest"
        yield Derived("layers", self.counts[self.slowest], "", (), of)
        tokens = Term(
            (Factor(layout.micro_batch, "sequences"), Factor(job.seq, "tokens")),
            (Factor(layout.cp, "context ranks"),) if layout.cp > 1 else (),
        )
        yield Derived("tokens of a micro-batch", tokens.value, "", (tokens,))

    # -- a layer ----------------------------------------------------------------------------------------------------

    def _layer(self) -> Iterator[Derived]:
        forward, again = self.forward, self.layout.recompute == "full"
        times = 4 if again else 3
        terms = [Term((Factor(times, "passes"), Factor(forward.compute_s, "s")))]
        if forward.scores_s:
            scores = (Factor(FEWER_BACKWARD, ""), Factor(forward.scores_s, "s"))
            terms.append(Term(scores, is_taken_off=True, what="fewer bytes of scores backward"))
        if self.layout.recompute == "selective" or (self.software.fused_attention and not again):
            terms.append(Term((Factor(forward.attention_s, "s"),), what="attention again"))
        if self.layout.recompute == "selective" and self.software.selective_products:
            products_s = forward.compute_s - forward.attention_s
            terms.append(Term((Factor(0.5, ""), Factor(products_s, "s")), what="every second product again"))
        if added_s := gradient_sum_s(self.job, self.layout, self.cluster, self.constants, self.software):
            terms.append(Term((Factor(added_s, "s"),), what="gradients added up"))
        note = "forward, twice that backward" + (", and forward once more" if again else "")
        yield Derived("a layer, arithmetic", self.layer.compute_s, "s", tuple(terms), note)
        yield from self._forward()

    def _forward(self) -> Iterator[Derived]:
        cluster, constants, forward = self.cluster, self.constants, self.forward
        memory = (Factor(cluster.memory_bandwidth_bytes_per_s, "bytes/s"), Factor(constants.memory_share, "of it"))
        work = product_work(self.job, self.layout)
        rate = cluster.product_flops_per_s or cluster.peak_flops_per_s
        reached = (Factor(rate, "FLOP/s"), Factor(constants.matmul_share, "of it"))
        products = (
            Term((Factor(work.flops, "FLOP"),), reached),
            Term((Factor(work.moved_bytes, "bytes"),), memory, "read and written"),
        )
        yield Derived("forward: products", forward.products_s, "s", products, depth=1)
        yield Derived("forward: attention", forward.attention_s, "s", self._attention(memory), depth=1)
        fused, gate = self.software.fused_elements, self.software.fused_gate
        moved = element_bytes(self.job, self.layout, fused=fused, fused_gate=gate)
        elements = Term((Factor(moved, "bytes"),), memory)
        yield Derived("forward: by element", forward.elements_s, "s", (elements,), depth=1)
        if self.layout.etp:
            yield from self._rows()

    def _rows(self) -> Iterator[Derived]:
        """What brings rows to experts on a mesh of their own, and where its group lies."""
        for call in expert_calls(self.job, self.layout, self.cluster, self.constants):
            group = call.group
            where = "between nodes" if group.levels else "within an NVLink domain"
            size, rate = Factor(call.size_bytes, "bytes"), Factor(group.bandwidth_bytes_per_s, "bytes/s")
            what = call.operation + (" and reduce-scatter" if call.operation == "all-gather" else "")
            note = f"{what} of {size} among {group.size} {where}, at {rate}"
            term = Term((Factor(2, "ways"), Factor(call.call_s, "s")))
            yield Derived("forward: experts' rows", call.total_s, "s", (term,), note, depth=1)

    def _attention(self, memory: tuple[Factor, ...]) -> tuple[Term, ...]:
        job, layout, fused = self.job, self.layout, self.software.fused_attention
        rows = layout.micro_batch * job.seq / layout.cp
        flops = rows * job.model.attention_flops(job.seq, causal=fused) / layout.tp
        peak = self.cluster.peak_flops_per_s
        share = attention_flops_per_s(self.cluster, self.constants, self.software) / peak
        reached = (Factor(peak, "FLOP/s"), Factor(share, "of it"))
        arithmetic = Term((Factor(flops, "FLOP"),), reached)
        if fused:
            return (arithmetic,)
        scores = Factor(rows * job.seq * job.model.heads / layout.tp, "scores")
        return (arithmetic, Term((Factor(SCORE_BYTES, "bytes"), scores), memory, "moved"))

    # -- the step ---------------------------------------------------------------------------------------------------

    def _parts(self) -> Iterator[Derived]:
        step, layer = self.step, self.layer
        each = (Factor(self.micro_batches, "micro-batches"), Factor(self.counts[self.slowest], "layers"))
        yield Derived("layers: arithmetic", step.compute_s, "s", (Term((*each, Factor(layer.compute_s, "s"))),))
        output = (Term((Factor(self.micro_batches, "micro-batches"), Factor(self.vocabulary_s, "s"))),)
        yield Derived("output and loss", step.output_s, "s", output, "the slowest stage has them")
        host = f"the host needs {self.constants.host_layer_s * 1e3:.3g} ms to issue a pass of a layer"
        host += ", and the GPU waits for it" if self.software.blocks else "; the GPU waits if its work is shorter"
        yield Derived("waiting for the host", step.host_s, "s", (Term((*each, Factor(layer.host_s, "s"))),), host)
        yield self._tensor(each)
        yield Derived("context axis, exposed", step.context_s, "s", (Term((*each, Factor(layer.context_s, "s"))),))
        yield Derived("experts' all-to-all", step.expert_s, "s", (Term((*each, Factor(layer.expert_s, "s"))),))
        yield from self._pipeline()
        yield self._data()
        yield self._optimizer()

    def _tensor(self, each: tuple[Factor, ...]) -> Derived:
        layout = self.layout
        rows = layout.micro_batch * self.job.seq / layout.cp
        size_bytes = 2 * rows * self.job.model.hidden
        group = Group.of(self.cluster, self.constants, layout.tp, 1)
        passes: tuple[Factor, ...] = (Factor(3 if layout.recompute == "full" else 2, "passes"),)
        if self.software.overlaps:
            passes += (Factor(tensor_shown(layout, self.software), "of it shows"),)
        call_s = tensor_call_s(self.job, layout, self.cluster, self.constants)
        calls = (Factor(tensor_calls(layout), "sums"), Factor(call_s, "s"))
        halves = "a reduce-scatter and an all-gather" if layout.sequence_parallel else "an all-reduce"
        note = f"each {halves} of {Factor(size_bytes, 'bytes')} among {layout.tp}"
        note += f", at {Factor(group.bandwidth_bytes_per_s, 'bytes/s')}"
        return Derived("tensor axis, exposed", self.step.tensor_s, "s", (Term((*each, *passes, *calls)),), note)

    def _pipeline(self) -> Iterator[Derived]:
        layout = self.layout
        shown = hop_shown(layout, self.constants, self.software)
        hops = [Factor(self.micro_batches, "micro-batches"), Factor(2, "ways"), Factor(self.hop_s, "s")]
        if layout.chunks > 1:
            hops += [Factor(layout.chunks, "chunks"), Factor(shown, "of it shows")]
        yield Derived("between stages", self.step.pipeline_s, "s", (Term(tuple(hops)),))
        chunks = (Factor(layout.chunks, "chunks"),) if layout.chunks > 1 else ()
        waits = (
            Term((Factor(self.others_s, "s"),), chunks, "a micro-batch on the other stages"),
            Term((Factor(2, "ways"), Factor(layout.pp - 1, "hops"), Factor(self.hop_s, "s")), chunks),
        )
        yield Derived("bubble", self.step.bubble_s, "s", waits)

    def _data(self) -> Derived:
        sent = [
            Term((Factor(sum(one.total_s for one in self.data.sendings if one.what == what), "s"),), what=what)
            for what in ("gradients", "weights")
            if any(one.what == what for one in self.data.sendings)
        ]
        if self.data.copied_s:
            sent.append(Term((Factor(self.data.copied_s, "s"),), what="copied to and from what is sent"))
        if not self.data.hiding_share:
            return Derived(_DATA, self.step.data_s, "s", tuple(sent), "all sent after the last backward pass")
        nearest = self.data.behind_s
        hidden = Term(
            (Factor(self.data.hiding_share, "hidden"), Factor(nearest, "s")),
            is_taken_off=True,
            what="all that can hide" if nearest == self.data.hideable_s else "behind computing",
        )
        return Derived(_DATA, self.step.data_s, "s", (*sent, hidden))

    def _sending(self, one: Sending) -> Derived:
        group = one.group
        note = f"{one.operation} of {Factor(one.size_bytes, 'bytes')} among {group.size}"
        note += f", at {Factor(group.bandwidth_bytes_per_s, 'bytes/s')}"
        term = Term((Factor(one.times, "calls"), Factor(one.call_s, "s")))
        return Derived(one.what, one.total_s, "s", (term,), note, depth=1)

    def _optimizer(self) -> Derived:
        numbers = Factor(optimizer_numbers(self.job, self.layout, max(self.counts)), "numbers")
        if self.layout.offload:
            terms: tuple[Term, ...] = (
                Term(
                    (numbers, Factor(_TO_HOST_BYTES, "bytes")),
                    (Factor(self.cluster.host_bandwidth_bytes_per_s, "bytes/s"),),
                    "to the host and back",
                ),
                Term(
                    (numbers, Factor(ADAM_BYTES, "bytes")), (Factor(HOST_ADAM_BYTES_PER_S, "bytes/s"),), "on the host"
                ),
            )
        else:
            memory = (
                Factor(self.cluster.memory_bandwidth_bytes_per_s, "bytes/s"),
                Factor(self.constants.memory_share, "of it"),
            )
            terms = (Term((numbers, Factor(ADAM_BYTES, "bytes")), memory),)
        return Derived("optimizer", self.step.optimizer_s, "s", terms)


def _runs(counts: Sequence[int]) -> str:
    """Numbers of layers by stage, those that repeat told once: 8 x 3 and 7."""
    found: list[list[int]] = []
    for count in counts:
        if found and found[-1][0] == count:
            found[-1][1] += 1
        else:
            found.append([count, 1])
    return ", ".join(f"{times} x {count}" if times > 1 else f"{count}" for count, times in found)
