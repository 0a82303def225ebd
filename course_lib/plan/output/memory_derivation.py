"""The memory of a layout's fullest GPU taken apart: each part as products of sizes and bytes.

The parts are those of ``estimate.memory``; the formulas stand here a second time, in words and numbers, and a test
holds each to what the planner says.
"""

from __future__ import annotations

from collections.abc import Iterator

from course_lib.plan.estimate.memory import (
    GATHERED_LAYERS,
    OPTIMIZER_BYTES,
    WEIGHT_BYTES,
    MemoryParts,
    again_layer_bytes,
    expert_copies,
    expert_parameters,
    fullest_stage,
    gathered_bytes,
    handed_bytes,
    in_flight,
    layer_activation_bytes,
    share_of,
    stage_parameters,
    tables_of,
)
from course_lib.plan.inputs.constants import Constants
from course_lib.plan.inputs.job import Job
from course_lib.plan.inputs.layout import Layout
from course_lib.plan.inputs.software import Software
from course_lib.plan.inputs.stages import layers_of_stages
from course_lib.plan.output.derived import Derived, Factor, Term

__all__ = ["MemoryDerivation"]


class MemoryDerivation:
    """One layout's fullest GPU, part by part."""

    def __init__(self, job: Job, layout: Layout, constants: Constants, software: Software) -> None:
        self.job, self.layout, self.constants, self.software = job, layout, constants, software
        self.stage, self.memory = fullest_stage(job, layout, constants, software)
        counts = layers_of_stages(job.model, layout.pp, software)
        self.layers = counts[self.stage]
        self.tables = tables_of(job.model, self.stage, layout.pp)
        self.numbers = stage_parameters(job.model, layout, self.layers, self.tables)

    def lines(self) -> Iterator[Derived]:
        """Its sizes, then its parts."""
        parts: MemoryParts = self.memory
        yield self._numbers()
        yield Derived("weights", parts.weights_bytes, "bytes", tuple(self._weights()))
        yield self._state("gradients", parts.gradients_bytes, self.software.gradient_bytes, first=2)
        if not self.layout.offload:
            yield self._state("optimizer states", parts.optimizer_bytes, OPTIMIZER_BYTES, first=1)
        yield self._activations()
        if parts.logits_bytes:
            rows = Factor(self.layout.micro_batch * self.job.seq / self.layout.cp, "tokens")
            cut = (Factor(self.layout.tp, "tensor ranks"),) if self.layout.tp > 1 else ()
            terms = (
                Term((Factor(self.software.logit_bytes, "bytes"), rows, Factor(self.job.model.vocab, "words")), cut),
            )
            yield Derived("logits and loss", parts.logits_bytes, "bytes", terms)
        buffers = " and the program's buffers" if parts.reserve_bytes > self.constants.reserve_bytes else ""
        yield Derived("CUDA, NCCL, allocator", parts.reserve_bytes, "bytes", (), f"a constant of the cluster{buffers}")

    def _numbers(self) -> Derived:
        model, layout = self.job.model, self.layout
        cut = (Factor(layout.tp, "tensor ranks"),) if layout.tp > 1 else ()
        layers = Factor(self.layers, "layers")
        experts = Factor(model.experts * model.mlp_weights, "numbers")
        terms = [Term((layers, Factor(model.attention_weights, "numbers")), cut, "attention")]
        shared = cut
        if layout.etp:
            shared = (Factor(layout.etp, "ranks that cut an expert"),) if layout.etp > 1 else ()
        shared += (Factor(layout.ep, "expert ranks"),) if layout.ep > 1 else ()
        terms.append(Term((layers, experts), shared, "MLP" if model.experts == 1 else f"{model.experts} experts"))
        terms.append(Term((layers, Factor(model.small_weights, "numbers")), what="norms and the like"))
        if self.tables:
            tables = (Factor(self.tables, "tables"), Factor(model.embedding_parameters, "numbers"))
            terms.append(Term(tables, cut, "vocabulary"))
        where = "" if layout.pp == 1 else f"stage {self.stage} of {layout.pp} needs most"
        return Derived("numbers on the rank", self.numbers, "numbers", tuple(terms), where)

    def _share(self, first: int) -> tuple[Factor, str]:
        """What the rank keeps of its numbers where sharding is at ``first`` or above."""
        experts = expert_parameters(self.job.model, self.layout, self.layers)
        alone = self.layout.shards == 1 and not (experts and expert_copies(self.layout) > 1)
        if self.layout.sharding < first or alone:
            return Factor(self.numbers, "numbers"), ""
        kept = Factor(share_of(self.numbers, experts, self.layout), "numbers")
        among = f"shared out among {self.layout.shards}"
        return kept, among + (f", experts among {expert_copies(self.layout):g}" if experts else "")

    def _state(self, what: str, value: float, each_bytes: float, *, first: int) -> Derived:
        kept, note = self._share(first)
        return Derived(what, value, "bytes", (Term((Factor(each_bytes, "bytes"), kept)),), note)

    def _weights(self) -> Iterator[Term]:
        model, layout = self.job.model, self.layout
        kept, among = self._share(3)
        yield Term((Factor(WEIGHT_BYTES, "bytes"), kept), what=among)
        if layout.sharding == 3 and self.layers:
            there = 0.0 if expert_copies(layout) > 1 else expert_parameters(model, layout, 1)
            layer = Factor(stage_parameters(model, layout, 1, 0) - there, "numbers")
            gathered = (Factor(WEIGHT_BYTES, "bytes"), Factor(GATHERED_LAYERS, "layers"), layer)
            yield Term(gathered, what="gathered")
            table = Factor(stage_parameters(model, layout, 0, 1), "numbers")
            each = Factor(WEIGHT_BYTES + self.software.reduce_bytes, "bytes")
            yield Term((each, table), what="a table of the vocabulary, with its gradient")

    def _activations(self) -> Derived:
        job, layout = self.job, self.layout
        kept = Factor(in_flight(layout, self.stage, layout.num_micro_batches(job.batch)), "micro-batches")
        layer = Factor(layer_activation_bytes(job.model, layout, job.seq, self.software), "bytes")
        terms = [Term((kept, Factor(self.layers, "layers"), layer))]
        if layout.pp > 1:
            terms.append(Term((kept, Factor(handed_bytes(job, layout), "bytes")), what="received and sent on"))
        if layout.recompute == "full":
            again = Factor(again_layer_bytes(job, layout, self.software), "bytes")
            terms.append(Term((again,), what="one layer recomputed"))
        if whole_bytes := gathered_bytes(job, layout, self.software):
            terms.append(Term((Factor(whole_bytes, "bytes"),), what="whole tensors of the layer that computes"))
        return Derived("activations", self.memory.activations_bytes, "bytes", tuple(terms))
