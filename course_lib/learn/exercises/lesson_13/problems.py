"""Problems on paper of lesson 13: sentences of articles against numbers at real size."""

from __future__ import annotations

import itertools
import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["PROBLEMS"]

_PLAYBOOK = "the runs behind Hugging Face's Ultra-Scale Playbook: data parallelism alone, the same batch"
_FOUNDRY = "llm-foundry's benchmark page: the gradients' step hides"
_REPOSITORY = "the Megatron-LM repository's table, from its times: the batch grows with the GPUs"
_MEGASCALE = "the MegaScale paper (arXiv 2402.15627), Megatron-LM's rows, from their times: the same batch"
_NARAYANAN = "Narayanan et al., 2021 (arXiv 2104.04473), table 2, from its TFLOP/s: the same batch"
_RUNS = (  # what runs, on which GPUs, by whom, and tokens a second for each GPU by how many GPUs there are
    ("A model of 1.34 billion parameters", "H100", _PLAYBOOK, {8: 40150, 16: 38840, 32: 36990, 64: 31297}),
    ("A model of 3.57 billion parameters", "H100", _PLAYBOOK, {16: 16385, 32: 15387, 64: 13312}),
    ("MPT-1b", "H100", _FOUNDRY, {16: 46219, 32: 45302, 64: 44571}),
    ("MPT-3b", "H100", _FOUNDRY, {16: 24153, 32: 23032, 64: 22535}),
    ("Llama 3 8B", "H100", "torchtitan's benchmark page: the batch grows with the GPUs", {8: 5762, 128: 5605}),
    ("A GPT of 1 billion parameters", "A100", _REPOSITORY, {1: 15227, 128: 14210}),
    ("A GPT of 4 billion parameters", "A100", _REPOSITORY, {4: 3525, 512: 3298}),
    ("A GPT of 175 billion parameters", "A100", _MEGASCALE, {256: 153.6, 768: 134.7}),
    ("A GPT of 175 billion parameters", "A100", _MEGASCALE, {3072: 141.1, 8192: 125.5}),
    ("A GPT of 175 billion parameters with ZeRO-3", "A100", _NARAYANAN, {384: 100.4, 1536: 30.68}),
    ("A GPT of 175 billion parameters with three axes", "A100", _NARAYANAN, {384: 106.7, 1536: 98.33}),
)


@problem("13.worth", "How many GPUs are lost?", unit="GPUs")
def _worth(draw: random.Random) -> Posed:
    pairs = [(run, pair) for run in _RUNS for pair in itertools.combinations(run[3], 2)]
    (what, gpu, whose, found), (few, many) = draw.choice(pairs)
    share = found[many] / found[few]
    lost = many * (1 - share)
    return Posed(
        text="Claim C3, in the course's words: *more GPUs do not give a proportional speed-up.* Compare it with a "
        f"measurement. {what} was trained on {few:,} {gpu}, and on {many:,}. On {few:,} a GPU made {found[few]:,} "
        f"tokens a second, and on {many:,} it made {found[many]:,}. How many of the {many:,} GPUs are lost, compared "
        "with a proportional speed-up?",
        value=lost,
        way=(
            f"A proportional speed-up would leave each GPU at {found[few]:,} tokens a second.",
            f"Each makes {found[many]:,}/{found[few]:,} = {100 * share:.2f} % of that, so {100 - 100 * share:.2f} % "
            "are lost.",
            f"{100 - 100 * share:.2f} % of {many:,} GPUs are {said(lost, 'GPUs')}.",
        ),
        slips=(
            Wrong(100 * (1 - share), "That is the loss in per cent. The answer was asked for in GPUs."),
            Wrong(many * share, "That is what is left. The question is what is lost."),
            Wrong(few * (1 - share), "The loss is one of all GPUs of the larger job, and not of those of the smaller."),
        ),
        sources=(f"Tokens a second: {whose}.",),
        beside="With a batch that grows, or gradients that hide, the runs of this problem lose 2 to 7 %. ZeRO-3 alone, "
        "with the same batch on four times the GPUs, lost 69 %.",
    )


@problem("13.pool", "One large GPU out of many?", unit="%")
def _pool(draw: random.Random) -> Posed:
    name, seq, batch = draw.choice(
        (
            *(("llama-3.2-1b", seq, batch) for seq in (2048, 4096) for batch in (32, 64, 96)),
            *(("gpt-2-xl", 1024, batch) for batch in (64, 128, 256)),
        )
    )
    model, gpus = MODELS[name], draw.choice((8, 16, 32))
    states_gb, one_gb = 16 * model.parameters / 1e9, 34 * model.hidden * model.layers * seq / 1e9
    alone_gb, each_gb = states_gb + batch * one_gb, states_gb + batch / gpus * one_gb
    share = 100 * each_gb / alone_gb
    return Posed(
        text="Claim D2, in the course's words: *data parallelism combines several GPUs into one with more memory.* "
        f"The model {model.name} has {model.parameters / 1e9:.2f} billion parameters, and its states take 16 bytes for "
        f"each. Its {model.layers} layers of width {model.hidden:,} keep 34 bytes for each token and channel. A step "
        f"has {batch} sequences of {seq:,} tokens. They are shared out among {gpus} GPUs by data parallelism, without "
        "sharding, and each GPU takes its own at once. Leave out logits. Which share does a GPU need of what a single "
        "GPU would need for the whole step?",
        value=share,
        way=(
            f"States: 16 × {model.parameters / 1e9:.2f} × 10⁹ = {said(states_gb, 'GB')}, on each GPU.",
            f"A sequence keeps 34 × {model.hidden:,} × {model.layers} × {seq:,} bytes = {said(one_gb, 'GB')}.",
            f"Alone: {states_gb:.1f} + {batch} × {one_gb:.3g} = {said(alone_gb, 'GB')}. One of {gpus}: {states_gb:.1f} "
            f"+ {batch // gpus} × {one_gb:.3g} = {said(each_gb, 'GB')}.",
            f"The sentence promises {100 / gpus:.3g} %, and only activations keep that promise: "
            f"{each_gb:.3g}/{alone_gb:.3g} = {said(share, '%')}.",
        ),
        slips=(
            Wrong(100 / gpus, "That is what the sentence promises. But states are whole on each GPU."),
            Wrong(100 * states_gb / alone_gb, "The GPU has its own sequences besides the states."),
            Wrong(
                100 * (states_gb / 4 + batch / gpus * one_gb) / (states_gb / 4 + batch * one_gb),
                "States are more than weights and gradients. AdamW's numbers are the largest part.",
            ),
        ),
        sources=(sizes_source(model),),
    )


@problem("13.wire", "Do the layers wait for the link?", unit="GB/s")
def _wire(draw: random.Random) -> Posed:
    name, stages, machine_name = draw.choice(
        (
            *(("llama-3.2-1b", stages, each) for stages in (2, 4, 8) for each in ("8x A100", "8x H100")),
            *(("llama-3-8b", stages, each) for stages in (4, 8) for each in ("8x A100", "8x H100", "8x B200")),
            *(("llama-2-13b", stages, each) for stages in (4, 8) for each in ("8x A100", "8x H100", "8x B200")),
            ("llama-3-70b", 8, "8x B200"),
        )
    )
    model, machine = MODELS[name], MACHINES[machine_name]
    tokens, share = draw.choice((8192, 16384)), draw.choice((0.35, 0.4, 0.45))
    rate = machine.matmul_flops_per_s["bfloat16"] * share
    waits_s = 6 * model.parameters * tokens / rate * (stages - 1) / stages
    moved_gb = 2 * (stages - 1) * 2 * tokens * model.hidden / 1e9
    link = moved_gb / waits_s
    return Posed(
        text="Claim B2, in the course's words: *with layers on different GPUs, moving activations between them is a "
        f"severe bottleneck.* The model {model.name} has {model.parameters / 1e9:.2f} billion parameters and a "
        f"width of {model.hidden:,}. It stands on {stages} GPUs of a machine {machine.name}, with equally many layers "
        f"on each. One batch of {tokens:,} tokens goes through them, forward and back, without micro-batches. A GPU "
        f"computes at {rate / 1e12:.1f} TFLOP/s, 6 operations a parameter and token. Activations and their gradients "
        "have 2 bytes a number. Leave out latency. How slow must the link be, so that all moves of a step take as long "
        "as a GPU waits while the others compute?",
        value=link,
        way=(
            f"The step computes 6 × {model.parameters / 1e9:.2f} × 10⁹ × {tokens:,}/{rate / 1e12:.1f} TFLOP/s = "
            f"{said(waits_s * stages / (stages - 1), 's')}, one GPU after the other.",
            f"Each GPU waits {stages - 1}/{stages} of that: {said(waits_s, 's')}.",
            f"Activations move over {stages - 1} {'cut' if stages == 2 else 'cuts'}, and gradients back: "
            f"2 × {stages - 1} × {tokens:,} × {model.hidden:,} × 2 bytes = {said(moved_gb, 'GB')}.",
            f"This machine's link has {machine.intra.bandwidth_bytes_per_s / 1e9:.0f} GB/s. The claim would need "
            f"{said(moved_gb, 'GB')}/{said(waits_s, 's')} = {said(link, 'GB/s')}.",
        ),
        slips=(
            Wrong(link / 2, "Gradients move back over each cut, as activations moved on."),
            Wrong(link * 1.5, "That is forward alone. Backward moves as much, and computes twice as long."),
            Wrong(link * 8, "That is in gigabits. The answer was asked for in bytes."),
            Wrong(link * (stages - 1), "A GPU waits while all the others compute, and not only one of them.")
            if stages > 2
            else Wrong(link * 3, "You have counted forward's computing alone."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("13.small", "When is one GPU the faster?", unit="tokens")
def _small(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100", "4x RTX 4090"))]
    millions, gpus = draw.choice((0.5, 1, 2, 5, 20, 100)), draw.choice((2, 4, machine.num_devices))
    peak, link = machine.matmul_flops_per_s["bfloat16"], machine.intra
    rate = 0.4 * peak
    rounds, alpha_us = 2 * (gpus - 1), link.latency_s * 1e6
    bytes_us = rounds / gpus * 4 * millions * 1e12 / link.bandwidth_bytes_per_s
    sum_us = rounds * alpha_us + bytes_us
    saved_us = 6 * millions * 1e6 / rate * (1 - 1 / gpus) * 1e6
    tokens = sum_us / saved_us
    return Posed(
        text="Claim C12, in the course's words: *very small models train faster on one device.* A model of "
        f"{millions:g} million parameters trains on one GPU of a machine {machine.name}, or on {gpus} by data "
        f"parallelism. A GPU reaches 40 % of {peak / 1e12:.4g} TFLOP/s, with 6 operations a parameter and token. "
        f"Gradients are averaged in float32 by one ring, after backward: nothing hides. A message takes {alpha_us:.0f} "
        f"µs to start, and then its bytes travel at {link.bandwidth_bytes_per_s / 1e9:.4g} GB/s. "
        f"Leave out starts of kernels. From how many tokens of a step on are {gpus} GPUs faster than one?",
        value=tokens,
        way=(
            f"The ring has {rounds} rounds, and a message is 1/{gpus} of {4 * millions:g} MB: {rounds} × "
            f"{alpha_us:.0f} + {said(bytes_us, 'µs')} = {said(sum_us, 'µs')}.",
            f"A token takes 6 × {millions:g} × 10⁶/{rate / 1e12:.4g} TFLOP/s = "
            f"{said(6 * millions * 1e9 / rate * 1e6, 'ns')} on one GPU.",
            f"{gpus} GPUs save {gpus - 1}/{gpus} of that: {said(saved_us * 1e3, 'ns')}.",
            f"{said(sum_us, 'µs')}/{said(saved_us * 1e3, 'ns')} = {said(tokens, 'tokens')}.",
        ),
        slips=(
            Wrong(tokens / gpus, "That is one GPU's share of the tokens. The question is about the whole step."),
            Wrong(tokens * bytes_us / sum_us, "A ring has many messages, and each of them takes its start."),
            Wrong(tokens * (rounds * alpha_us / sum_us), "The bytes take their time, too."),
            Wrong(tokens * 3, "Forward is a third of the operations. Backward is shared out as well."),
        ),
        sources=(machine.source, "Latencies are round numbers of the course, for small messages with NCCL."),
    )


@problem("13.slices", "Which axis goes between nodes?", unit="tokens")
def _slices(draw: random.Random) -> Posed:
    model = MODELS[draw.choice(("llama-3.2-1b", "mistral-7b", "llama-3-8b", "llama-2-13b"))]
    tensor, replicas = draw.choice((4, 8)), draw.choice((4, 8, 16))
    word, num_bytes = draw.choice((("bfloat16", 2), ("float32", 4)))
    own_gb = model.parameters / tensor * num_bytes / 1e9
    data_gb = 2 * (replicas - 1) / replicas * own_gb
    token_mb = 2 * (tensor - 1) / tensor * 4 * model.layers * model.hidden * 2 / 1e6
    tokens = data_gb * 1e3 / token_mb
    return Posed(
        text="Claim E12, in the course's words: *tensor parallelism belongs inside a node, pipeline parallelism across "
        f"nodes, data parallelism over all replicas.* The model {model.name} has {model.parameters / 1e9:.2f} billion "
        f"parameters in {model.layers} layers of width {model.hidden:,}. {replicas} replicas train it, each on a "
        f"tensor axis of {tensor}. The axis that sends more is to lie inside the nodes. Along the tensor axis each "
        "layer has two all-reduces of its activations forward and two backward, in bfloat16. Along the data axis a "
        f"GPU averages its own gradients once a step, in {word}. All use rings, and the parameters are cut evenly. "
        "From how many tokens of one replica's step on does a GPU send more along the tensor axis?",
        value=tokens,
        way=(
            f"Data: a GPU has {model.parameters / 1e9:.2f}/{tensor} × 10⁹ gradients of {num_bytes} bytes: "
            f"{said(own_gb, 'GB')}. It sends that 2 × {replicas - 1}/{replicas} times, {said(data_gb, 'GB')} a "
            "step.",
            f"Tensor: for each token 4 × {model.layers} × {model.hidden:,} × 2 bytes, of that 2 × "
            f"{tensor - 1}/{tensor} times: {said(token_mb, 'MB')}.",
            "With fewer tokens more is sent along the data axis, and the sentence fails: "
            f"{said(data_gb, 'GB')}/{said(token_mb, 'MB')} = {said(tokens, 'tokens')}.",
        ),
        slips=(
            Wrong(tokens * tensor, "The tensor axis has cut the gradients: a GPU averages only its own part."),
            Wrong(tokens * 2, "There are all-reduces in both passes, forward and backward."),
            Wrong(tokens * model.layers, "All layers send activations, and not only one."),
        ),
        sources=(sizes_source(model),),
        beside="The course's trial of E12 has such a case: texts of 32 tokens on 16 H100. There, by its cost model, a "
        "step was longer with replicas between the nodes than with slices.",
    )


PROBLEMS = (_worth, _pool, _wire, _small, _slices)
