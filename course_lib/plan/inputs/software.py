"""What a program does that its layout does not tell: facts that its authors state, none of them fitted."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, not_negative

__all__ = ["LOGIT_BYTES", "Software"]

LOGIT_BYTES = 10  # in two bytes, as float32, and their probabilities in float32


@checked
@dataclass(frozen=True)
class Software:
    """How a training program works.

    ``fused_attention``: scores never reach memory. ``layers_by_cost``: a pipeline's first stages get more layers, as
    the output matrix is work too; otherwise every stage gets as many. ``dropout``: masks are kept.
    ``gradient_bytes``: 4 where float32 sums are added to inside the product, 6 where a 2-byte gradient comes first.
    ``reduce_bytes``: of a gradient as it travels. ``sharded_calls_a_layer``:
    collectives in which sharding 3 gathers one layer: 1, or one for each of its tensors. ``selective_products``:
    selective recomputation is torchtitan's, every second product again; else Megatron-LM's, the scores alone.
    ``keeps_gathered``: sequence parallelism keeps what it gathered for one region; Megatron-LM gathers it again.
    ``prefetches``: sharding 3 gathers the next layer while one computes, as FSDP does; else a layer waits for its
    weights. ``overlaps``: Megatron-Core's overlapped communication is on, on the data axis, where weights are gathered
    behind the next forward pass, and inside of tensor parallel products.
    ``reads_sizes``: a stage reads the size of each message on the host before it goes on (nanotron), so that the host
    cannot issue work ahead. ``bucket_bytes``: in which gradients are sent; 0: all in one call, as where nothing
    overlaps; 25 MB are DDP's.

    ``gathered_buffers``: with sequence parallelism, tensors of a whole micro-batch that a rank has beside what it keeps
    of each layer. nanotron (tensor_parallel/functional.py) keeps two into which it gathers, and has a gradient before
    it is shared out: 3.
    ``ends_as_layers``: a pipeline's first and last stage have a layer less, for the embedding and the output (Llama 3).
    ``sends_ahead``: interleaved stages send while another chunk computes (Llama 3); ``overlaps`` says so too.
    ``listed_s``: what the host needs for each rank of a list of tensors that sharding 3 sends or gets. DeepSpeed and
    PyTorch of 2021 take a view and make a copy for each, and nothing is computed meanwhile.

    ``fused_elements``: a norm, a rotation or an activation is one kernel; else PyTorch runs them operation by
    operation, norms and rotations in float32. ``gathers_again``: with full recomputation sharding 3 gathers a layer's
    weights a third time, as DeepSpeed did in 2021. ``copied_bytes``: of a number that sharding 3 copies in a
    micro-batch between tensors and what it sends. PyTorch's ``fully_shard`` copies weights out in both passes and
    gradients in, to float32: 14. FSDP's flat parameter joins gradients alone: 4.
    ``logit_bytes``: of a logit at the peak: 10 in two bytes, as float32 and their probabilities; 12 in the backward
    pass of PyTorch's own cross-entropy, for the logarithms of probabilities and two gradients. ``buffer_bytes``: of
    buffers that sharding 1 and 2 fill before they send. DeepSpeed has two of 5e8 numbers, one for gradients and one for
    weights (``reduce_bucket_size`` and ``allgather_bucket_size`` of its configuration), 2e9 bytes; here 0 for others.

    ``loss_bytes``: that the loss reads and writes for a logit, in both passes. PyTorch's own cross-entropy: 36. That of
    Megatron-LM and nanotron over a cut vocabulary is operation by operation, in float32: 52. flash-attn's fused one: 8.
    ``fused_gate``: a gated MLP's activation and its product are one kernel; else the activation's result is written and
    read once more. ``attention_share``: of the GPU's peak that fused attention reaches, where the program has other
    kernels than FlashAttention-2; 0: what the cluster says. ``blocks``: the host waits for each kernel before it issues
    the next (``CUDA_LAUNCH_BLOCKING=1``), so that both take turns. ``gathers_ahead``: the weights of sharding 1 and 2
    are gathered layer by layer behind the next forward pass, as FSDP does, and ``overlaps`` too.
    """

    fused_attention: bool = True
    layers_by_cost: bool = True
    dropout: bool = False
    gradient_bytes: int = 6
    reduce_bytes: int = 4
    sharded_calls_a_layer: int = 1
    selective_products: bool = True
    keeps_gathered: bool = True
    prefetches: bool = True
    overlaps: bool = False
    reads_sizes: bool = False
    bucket_bytes: float = 25e6
    fused_elements: bool = True
    gathers_again: bool = False
    copied_bytes: float = 14.0
    logit_bytes: int = LOGIT_BYTES
    buffer_bytes: float = 0.0
    loss_bytes: float = 36.0
    fused_gate: bool = True
    attention_share: float = 0.0
    blocks: bool = False
    gathers_ahead: bool = False
    ends_as_layers: bool = False
    sends_ahead: bool = False
    listed_s: float = 0.0
    gathered_buffers: int = 0

    def __post_init__(self) -> None:
        at_least(1, gradient_bytes=self.gradient_bytes, reduce_bytes=self.reduce_bytes)
        at_least(1, logit_bytes=self.logit_bytes)
        at_least(1, sharded_calls_a_layer=self.sharded_calls_a_layer)
        not_negative(bucket_bytes=self.bucket_bytes, copied_bytes=self.copied_bytes, buffer_bytes=self.buffer_bytes)
        not_negative(loss_bytes=self.loss_bytes, attention_share=self.attention_share)
        not_negative(listed_s=self.listed_s, gathered_buffers=self.gathered_buffers)
