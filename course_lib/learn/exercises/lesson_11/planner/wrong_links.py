"""11.planner: usual mistakes about what is sent; each stands before a whole planner and changes a formula of it."""

from __future__ import annotations

from typing import Any

from course_lib.plan.inputs.layout import Layout

__all__ = [
    "AlwaysInside",
    "BitsAsBytes",
    "FullNodes",
    "GathersOnce",
    "GradientsEachTime",
    "GradientsOnceAround",
    "HidesEverywhere",
    "HidesWhole",
    "HopOfAllTokens",
    "Neighbours",
    "NothingHides",
    "OnceAround",
    "OnePort",
    "OneWay",
    "StartOnce",
    "SumsNotAgain",
    "SumsWithoutBubble",
    "WeightsForgotten",
    "WholeEachRound",
]


class BitsAsBytes:
    def rate_of(self: Any, size: int, stride: int) -> float:
        machines = self.machines
        if (size - 1) * stride < machines.node_size:
            return machines.inside_bytes_per_s
        ports = max(1, min(size, machines.node_size // stride))
        return min(machines.inside_bytes_per_s, ports * machines.network_bits_per_s)


class OnePort:
    def rate_of(self: Any, size: int, stride: int) -> float:
        machines = self.machines
        if (size - 1) * stride < machines.node_size:
            return machines.inside_bytes_per_s
        return min(machines.inside_bytes_per_s, machines.network_bits_per_s / 8)


class AlwaysInside:
    def rate_of(self: Any, size: int, stride: int) -> float:
        return self.machines.inside_bytes_per_s


class FullNodes:
    """As many ranks on the last node as on the first."""

    def rate_of(self: Any, size: int, stride: int) -> float:
        machines = self.machines
        if (size - 1) * stride < machines.node_size:
            return machines.inside_bytes_per_s
        ports = max(1, min(size, machines.node_size // stride))
        return min(machines.inside_bytes_per_s, ports * machines.network_bits_per_s / 8)


class Neighbours:
    """Copies lie beside each other, whatever ``tp`` is."""

    def rate_of(self: Any, size: int, stride: int) -> float:
        return super().rate_of(size, 1)  # type: ignore[misc]


class StartOnce:
    def round_s(self: Any, size: int, stride: int, size_bytes: float) -> float:
        if size == 1:
            return 0.0
        return (size - 1) / size * size_bytes / self.rate_of(size, stride) + self.machines.latency_s


class WholeEachRound:
    def round_s(self: Any, size: int, stride: int, size_bytes: float) -> float:
        if size == 1:
            return 0.0
        return (size - 1) * (size_bytes / self.rate_of(size, stride) + self.machines.latency_s)


class OnceAround:
    """An all-reduce of the tensor axis goes around once."""

    def tensor_s(self: Any, layout: Layout) -> float:
        return super().tensor_s(layout) / 2  # type: ignore[misc]


class SumsNotAgain:
    def tensor_s(self: Any, layout: Layout) -> float:
        sums = 4 * (self.job.layers // layout.pp) * self.slots(layout)
        return sums * 2 * self.round_s(layout.tp, 1, self.row_bytes(layout))


class SumsWithoutBubble:
    def tensor_s(self: Any, layout: Layout) -> float:
        return super().tensor_s(layout) * self.micro_batches(layout) / self.slots(layout)  # type: ignore[misc]


class OneWay:
    def pipeline_s(self: Any, layout: Layout) -> float:
        return super().pipeline_s(layout) / 2  # type: ignore[misc]


class HopOfAllTokens:
    """A message of the whole micro-batch from each rank, also under sequence parallelism."""

    def pipeline_s(self: Any, layout: Layout) -> float:
        if layout.pp == 1:
            return 0.0
        machines = self.machines
        rate = machines.inside_bytes_per_s
        if layout.gpus > machines.node_size:
            rate = min(rate, machines.network_bits_per_s / 8)
        return 2 * self.slots(layout) * (self.row_bytes(layout) / rate + machines.latency_s)


class _Data:
    """Seconds of rounds of the data axis."""

    def _rounds_s(self: Any, layout: Layout) -> tuple[float, float]:
        numbers = self.numbers(layout, 0)
        return tuple(  # type: ignore[return-value]
            self.round_s(layout.dp, layout.tp, each * numbers) for each in (self.job.gradient_bytes, self.weight_bytes)
        )


class NothingHides(_Data):
    def data_s(self: Any, layout: Layout) -> float:
        gradients_s, weights_s = self._rounds_s(layout)
        if layout.sharding == 3:
            return self.micro_batches(layout) * (gradients_s + 2 * weights_s)
        return gradients_s + weights_s if layout.sharding else 2 * gradients_s


class HidesWhole(_Data):
    """All that finds computing to hide behind, in place of a share of it."""

    def data_s(self: Any, layout: Layout) -> float:
        gradients_s, weights_s = self._rounds_s(layout)
        if layout.sharding == 3:
            count = self.micro_batches(layout)
            return max(0.0, count * (gradients_s + 2 * weights_s - self.slot_s(layout, 0)))
        sent_s = gradients_s if layout.sharding else 2 * gradients_s
        return max(0.0, sent_s - self.backward_s(layout)) + (weights_s if layout.sharding else 0.0)


class HidesEverywhere(_Data):
    """Gradients hide behind the backward passes of all micro-batches."""

    def data_s(self: Any, layout: Layout) -> float:
        if layout.sharding == 3:
            return super().data_s(layout)  # type: ignore[misc]
        gradients_s, weights_s = self._rounds_s(layout)
        sent_s = gradients_s if layout.sharding else 2 * gradients_s
        window_s = self.micro_batches(layout) * self.backward_s(layout)
        return sent_s - self.machines.hidden * min(sent_s, window_s) + (weights_s if layout.sharding else 0.0)


class GradientsOnceAround(_Data):
    """An all-reduce of gradients goes around once."""

    def data_s(self: Any, layout: Layout) -> float:
        if layout.sharding:
            return super().data_s(layout)  # type: ignore[misc]
        sent_s = self._rounds_s(layout)[0]
        return sent_s - self.machines.hidden * min(sent_s, self.backward_s(layout))


class GradientsEachTime(_Data):
    """Gradients are averaged after every micro-batch."""

    def data_s(self: Any, layout: Layout) -> float:
        if layout.sharding == 3:
            return super().data_s(layout)  # type: ignore[misc]
        gradients_s, weights_s = self._rounds_s(layout)
        sent_s = self.micro_batches(layout) * (gradients_s if layout.sharding else 2 * gradients_s)
        shown_s = sent_s - self.machines.hidden * min(sent_s, self.backward_s(layout))
        return shown_s + (weights_s if layout.sharding else 0.0)


class GathersOnce(_Data):
    """Sharding 3 gathers weights once a step."""

    def data_s(self: Any, layout: Layout) -> float:
        if layout.sharding != 3:
            return super().data_s(layout)  # type: ignore[misc]
        gradients_s, weights_s = self._rounds_s(layout)
        sent_s = gradients_s + 2 * weights_s
        return sent_s - self.machines.hidden * min(sent_s, self.slot_s(layout, 0) * self.micro_batches(layout))


class WeightsForgotten(_Data):
    """Sharding 1 gathers no weights after the step."""

    def data_s(self: Any, layout: Layout) -> float:
        late_s = self._rounds_s(layout)[1] if layout.sharding == 1 else 0.0
        return super().data_s(layout) - late_s  # type: ignore[misc]
