"""The trial of what is said about which cut belongs where: what each sends between nodes, on real ranks and by the
cost model on machines as they are sold."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import torch

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.cluster.base.rank import Rank
from course_lib.cost.collectives.machines import MACHINES
from course_lib.cost.mesh.link_bytes import MeshStep, bytes_by_link
from course_lib.cost.mesh.mesh_time import mesh_step_time
from course_lib.cost.single_device.architectures import transformer_layers
from course_lib.cost.single_device.flops import flops
from course_lib.layouts.mesh import Mesh
from course_lib.meter import Call, Communication, time_text
from course_lib.meter.communication.recorder import Recorder
from course_lib.models import Transformer, TransformerConfig
from course_lib.parallel.mesh import OnMesh

__all__: list[str] = []

# What crosses from node to node: the axis that stands first.
_CROSSING = {
    "tp": "tp=2 dp_replicate=2, 2 ranks a node",
    "pp": "pp=2 tp=2, 2 ranks a node",
    "dp_replicate": "dp_replicate=2 tp=2, 2 ranks a node",
}
_NAMES = {"tp": "slices (tp)", "pp": "stages (pp)", "dp_replicate": "replicas (dp)"}
_SMALL = TransformerConfig(vocab_size=16, context_length=16, num_layers=2, width=16, num_heads=2)
_NUM_ROWS, _LONG, _SHORT = 8, 16, 1  # sequences, and tokens of each

_LARGE = TransformerConfig(vocab_size=32000, context_length=2048, num_layers=8, width=4096, num_heads=32)
_SIZES = {"tp": 4, "pp": 2, "dp_replicate": 2}
_NUM_RANKS, _LONG_TEXT, _SHORT_TEXT = 16, 2048, 32
_SHARE_OF_PEAK = 0.4  # of its rate for matrices, which training of large models reaches


def _calls_of_a_step(me: Rank, axes: str, length: int) -> tuple[Call, ...]:
    """What this rank sends in a training step with sequences of so many tokens: the second one, since in the first one
    stages also tell each other shapes."""
    torch.manual_seed(0)
    model = OnMesh(me, Mesh.parse(axes), Transformer(_SMALL))
    tokens = torch.randint(16, (_NUM_ROWS, length + 1), generator=torch.Generator().manual_seed(1))
    for _ in range(2):
        with Recorder(me.rank) as recorder:
            model.step(*model.data.deal(tokens[:, :-1], tokens[:, 1:]))
    model.close()
    return recorder.calls


def _between_bytes(ranks: Ranks, axis: str, length: int) -> int:
    """What four ranks on two nodes send from node to node in a step."""
    mesh = Mesh.parse(_CROSSING[axis])
    calls = tuple(chain.from_iterable(ranks(4).run(_calls_of_a_step, str(mesh), length)))
    return bytes_by_link(mesh, Communication(4, calls).matrix()).between_bytes


def _large_step_s(machine: str, outermost: str, length: int) -> float:
    """Eight layers of a model of usual width on 16 GPUs, with one axis from node to node where there are several."""
    spec, config = MACHINES[machine], replace(_LARGE, context_length=length)
    sizes = {axis: _SIZES[axis] for axis in sorted(_SIZES, key=lambda axis: axis != outermost)}
    per_node = 0 if spec.num_devices >= _NUM_RANKS else spec.num_devices
    mesh = Mesh.of(ranks_per_node=per_node, **sizes)
    work = flops(transformer_layers(config, batch_size=_NUM_ROWS))
    forward_s, backward_s = (
        spec.compute_time_s(number / _NUM_RANKS, dtype="bfloat16", share_of_peak=_SHARE_OF_PEAK)
        for number in (work.forward, work.backward)
    )
    step = MeshStep(config=config, mesh=mesh, batch_size=_NUM_ROWS, itemsize=2, backend="nccl")
    network = spec.network(_NUM_RANKS)
    return mesh_step_time(step, network, forward_s=forward_s, backward_s=backward_s, separate_ports=True).step_s


@tries("E12")
def slices_belong_inside_a_node(ranks: Ranks) -> Evidence:
    """Each cut in turn from node to node: its bytes on real ranks, and a step on 16 GPUs; texts long and short."""
    sent = {length: {axis: _between_bytes(ranks, axis, length) for axis in _CROSSING} for length in (_LONG, _SHORT)}
    step_s = {
        length: {axis: _large_step_s("8x H100", axis, length) for axis in _SIZES}
        for length in (_LONG_TEXT, _SHORT_TEXT)
    }
    usual = all(found["tp"] > found["dp_replicate"] > found["pp"] for found in (sent[_LONG], step_s[_LONG_TEXT]))
    turned = all(found["dp_replicate"] > found["tp"] for found in (sent[_SHORT], step_s[_SHORT_TEXT]))
    joined_s = {axis: _large_step_s("72x GB200", axis, _LONG_TEXT) for axis in _SIZES}
    alike = max(joined_s.values()) < 1.001 * min(joined_s.values())
    return Evidence(
        ("holds with conditions" if turned or alike else "holds") if usual else "false",
        {
            f"bytes from node to node, texts of {length}, {_NAMES[axis]}": number
            for length, found in sent.items()
            for axis, number in found.items()
        }
        | {
            f"a step on two times 8 H100, texts of {length}, {_NAMES[axis]}": time_text(time_s)
            for length, found in step_s.items()
            for axis, time_s in found.items()
        }
        | {"all orders alike where one fast domain holds all (72x GB200)": alike},
        because="slices send activations in every layer, replicas send gradients once a step, and stages send "
        "activations at one cut. The axis that sends most takes the fast link. Bytes are counted on four real "
        "ranks; times come from the cost model",
        turns_if="a step had few tokens for its weights, or one fast domain held all ranks. With few tokens gradients "
        "are larger than activations, and replicas belong inside a node. Inside one domain the order makes no "
        "difference",
    )
