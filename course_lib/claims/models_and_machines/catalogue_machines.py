"""Trials on machines as they are sold: a step of a model of usual size, timed by the cost model with data sheets.

No link and no size here is chosen to make a claim come out: machines are those of ``course_lib.cost.MACHINES``, models
are as large as published ones, and a GPU reaches the share of its rate that training usually does. What is sent is
counted on real ranks, with a small model, and held against the sizes that the cost model is given. No clock decides.
"""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.claims.court.workloads import batch, mlp
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.cost.collectives.collective_cost import collective_cost
from course_lib.cost.collectives.machines import LINKS, MACHINES, MachineSpec
from course_lib.cost.data_parallel.scaling import scaling_curve
from course_lib.cost.data_parallel.step import ddp_buckets
from course_lib.cost.single_device.architectures import transformer_layers, transformer_parameters
from course_lib.cost.single_device.flops import flops
from course_lib.cost.single_device.layer_shapes import Linear
from course_lib.meter import bytes_text, metered, time_text
from course_lib.meter.communication.recorder import Recorder
from course_lib.models import TransformerConfig
from course_lib.parallel.pipeline import Pipeline
from course_lib.schedules import naive

__all__: list[str] = []

_SHARE_OF_PEAK = 0.4  # of its rate for matrices, which training of large models reaches (MFU of 0.3 to 0.5)
_SEVEN_BILLION = TransformerConfig(vocab_size=32000, context_length=2048, num_layers=32, width=4096, num_heads=32)
_GPT2 = TransformerConfig(vocab_size=50257, context_length=1024, num_layers=12, width=768, num_heads=12)
_P = 4  # stages
_NEARLY = 0.95  # of a proportional speed-up


def _dtype(machine: MachineSpec) -> str:
    """The narrow type of which this machine's matrix units take most: a V100 has no bfloat16."""
    return "bfloat16" if "bfloat16" in machine.matmul_flops_per_s else "float16"


def _times_s(machine: MachineSpec, config: TransformerConfig, batch_size: int) -> tuple[float, float]:
    """Forward and backward of a step on one of its GPUs."""
    work = flops(transformer_layers(config, batch_size=batch_size))
    forward_s, backward_s = (
        machine.compute_time_s(number, dtype=_dtype(machine), share_of_peak=_SHARE_OF_PEAK)
        for number in (work.forward, work.backward)
    )
    return forward_s, backward_s


# -- layers on different devices ------------------------------------------------------------------------------------


def _step_in_stages(me: Rank) -> None:
    layers = [nn.Sequential(nn.Linear(12, 12), nn.Tanh()).double() for _ in range(me.world_size)]
    pipeline = Pipeline(me, layers, naive(me.world_size), nn.functional.cross_entropy)
    inputs, classes = batch(16)
    pipeline.step(inputs, classes)


def _moves(cluster: Cluster) -> int:
    """Messages as large as the activations of the batch, 16 x 12 float64, in a step through a stage on each rank."""
    sent = metered(cluster, _step_in_stages).communication.of(operation="send")
    return sum(call.size_bytes == 16 * 12 * 8 for call in sent.calls)


@tries("B2")
def moving_activations_is_a_severe_bottleneck(ranks: Ranks) -> Evidence:
    """A model of 7 billion weights in four stages, one batch: what does a device lose more time by?"""
    batch_size = 8
    activation_bytes = 2 * batch_size * _SEVEN_BILLION.context_length * _SEVEN_BILLION.width
    moves = _moves(ranks(_P))  # there and back at each cut
    share, needed = {}, {}
    for name, machine in MACHINES.items():
        waiting_s = sum(_times_s(machine, _SEVEN_BILLION, batch_size)) * (_P - 1) / _P
        needed[name] = moves * activation_bytes / waiting_s
        for where, link in (("inside", machine.intra), ("between two", machine.inter)):
            share[f"{name}, {where}"] = moves * link.time_s(activation_bytes) / waiting_s
    severe = [where for where, times in share.items() if times > 1]
    worst = max(share, key=share.__getitem__)
    slowest = needed["8x H100"]
    verdict = "holds" if len(severe) == len(share) else "holds with conditions" if severe else "misleading"
    return Evidence(
        verdict,
        {
            "stages": _P,
            "moves of the batch's activations, or of their gradients": moves,
            "bytes of each": bytes_text(activation_bytes),
            "networks of machines that were tried": len(share),
            "of these, where moving costs more than waiting": len(severe),
        }
        | {
            f"moving : waiting, {where}": f"{share[where]:.3f}"
            for where in ("8x H100, inside", "4x RTX 4090, inside", worst)
        },
        because="one device works while the others wait for it, however fast activations move. On the machines of the "
        "course's table, a device loses far more time by waiting",
        turns_if=f"the link was slow for its devices. For H100s that is below {slowest / 1e9:.1f} GB/s, where moving "
        "takes as long as waiting (Ethernet of 1 Gbit/s has "
        f"{LINKS['ethernet 1'].bandwidth_bytes_per_s / 1e9:g} GB/s)",
    )


# -- replicas -------------------------------------------------------------------------------------------------------


def _all_reduced(me: Rank) -> tuple[int, int, int]:
    """All-reduces of a step of DDP, their bytes, and those of the weights; from the second step on."""
    model = DistributedDataParallel(mlp())
    inputs, classes = batch(16)
    for _ in range(2):
        with Recorder(me.rank) as recorder:
            nn.functional.cross_entropy(model(inputs), classes).backward()
    calls = [call for call in recorder.calls if call.operation == "all_reduce"]
    return len(calls), sum(call.size_bytes for call in calls), sum(p.nbytes for p in model.parameters())


def _speed_up(
    machine: MachineSpec, num_ranks: int, kind: str, config: TransformerConfig = _GPT2, batch_size: int = 8
) -> float:
    """Samples a second of so many GPUs, of one's; gradients in float32, sent while the backward pass goes on."""
    forward_s, backward_s = _times_s(machine, config, batch_size)
    network = machine.network(num_ranks)
    curve = scaling_curve(
        [num_ranks],
        ddp_buckets([4 * size for size in transformer_parameters(config)]),
        forward_s=forward_s,
        backward_s=backward_s,
        all_reduce_time_s=lambda _, size: collective_cost("all_reduce", size, network).time_s,
        kind=kind,
    )
    return curve[0].speedup


@tries("C3")
def more_gpus_give_no_proportional_speed_up(ranks: Ranks) -> Evidence:
    """GPT-2 on all GPUs of a machine, eight at most: one batch shared out, and a batch for each."""
    _, sent_bytes, weight_bytes = ranks(2).run(_all_reduced)[0]
    reached: dict[str, dict[str, float]] = {"strong": {}, "weak": {}}
    for name, machine in MACHINES.items():
        num_ranks = min(8, machine.num_devices)
        for kind, shares in reached.items():
            shares[name] = _speed_up(machine, num_ranks, kind) / num_ranks
    near = {kind: sum(share > _NEARLY for share in shares.values()) for kind, shares in reached.items()}
    below = max(max(shares.values()) for shares in reached.values()) < 1 and not near["strong"]
    return Evidence(
        ("holds with conditions" if near["weak"] else "holds") if below and sent_bytes == weight_bytes else "false",
        {
            "bytes that a step of DDP all-reduces, of those of the weights": f"{sent_bytes} of {weight_bytes}",
            "machines": len(MACHINES),
            "of these, where one batch shared out gains in proportion, within 5 %": near["strong"],
            "and a batch for each": near["weak"],
        }
        | {
            f"share of proportional, {name}, strong and weak": " ".join(
                f"{shares[name]:.2f}" for shares in reached.values()
            )
            for name in ("8x V100", "8x H100", "4x RTX 4090")
        },
        because="with more devices each one computes less, and the all-reduce stays as long. With a batch for each "
        "device, fast links hide most of the all-reduce behind the backward pass",
        turns_if="the batch grew with the devices on fast links (then it is false, but for a few percent), or kept its "
        "size (then it holds)",
    )


def _small_step_s(machine: MachineSpec, num_samples: int) -> tuple[float, float]:
    """A step of the network 64-128-10, which knows digits, on one GPU and shared by two; starts of kernels left out."""
    layers = [Linear("hidden", num_samples, 64, 128, input_grad=False), Linear("head", num_samples, 128, 10)]
    work, network = flops(layers), machine.network(2)
    forward_s, backward_s = (
        machine.compute_time_s(number, dtype=_dtype(machine), share_of_peak=_SHARE_OF_PEAK)
        for number in (work.forward, work.backward)
    )
    one, two = scaling_curve(
        [1, 2],
        ddp_buckets([4 * 64 * 128, 4 * 128, 4 * 128 * 10, 4 * 10]),
        forward_s=forward_s,
        backward_s=backward_s,
        all_reduce_time_s=lambda _, size: collective_cost("all_reduce", size, network).time_s,
    )
    return one.step.time_s, two.step.time_s


def _wins(machine: MachineSpec, num_samples: int) -> bool:
    one_s, two_s = _small_step_s(machine, num_samples)
    return two_s < one_s


@tries("C12")
def very_small_models_train_faster_on_one_device(ranks: Ranks) -> Evidence:
    """A network of 9,610 weights with 64 samples, and GPT-2 with 8 texts, on one and on two GPUs of each machine."""
    calls, _, _ = ranks(2).run(_all_reduced)[0]
    small = {name: _small_step_s(machine, 64) for name, machine in MACHINES.items()}
    large = {name: _speed_up(machine, 2, "strong") for name, machine in MACHINES.items()}
    slower, faster = (
        sum(one_s < two_s for one_s, two_s in small.values()),
        sum(up > 1 for up in large.values()),
    )
    enough = next((n for n in (2**i for i in range(6, 40)) if _wins(MACHINES["8x H100"], n)), None)
    return Evidence(
        "holds" if calls and slower == faster == len(MACHINES) else "holds with conditions" if slower else "false",
        {
            "all-reduces in a step of a small model, on real ranks": calls,
            "machines": len(MACHINES),
            "where the small network is faster on one GPU": slower,
            "where GPT-2 is faster on two": faster,
        }
        | {
            f"the small network on one GPU and on two, {name}": " ".join(map(time_text, small[name]))
            for name in ("8x H100", "4x RTX 4090")
        }
        | {f"GPT-2, {name}": f"{large[name]:.2f}x" for name in ("8x H100", "4x RTX 4090")},
        because="a message takes some time, however little there is to compute. This model leaves out the microseconds "
        "in which kernels start: half of the batch needs as many kernels",
        turns_if=f"the batch was large enough: two H100s need {enough:,} samples, and the data set has 1,797"
        if enough
        else "messages took no time",
    )
