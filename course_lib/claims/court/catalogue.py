"""What widely read articles say about training on many GPUs, in our own words; no verdicts here, those are run."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ARTICLES", "CLAIMS", "Claim"]

ARTICLES = {
    "A": "How can a single model be trained using multiple GPUs? (2025)",
    "B": "4 Strategies for Multi-GPU Training (2025)",
    "C": "Multi-GPU training in PyTorch - Deep Dive",
    "D": "Training a Model on Multiple GPUs with Data Parallelism",
    "E": "Data, model, and tensor parallelism (a course page)",
}


@dataclass(frozen=True)
class Claim:
    """A sentence of an article, and the smallest set-up in which a trial of it is real."""

    name: str  # the article's letter and a number
    needs: str  # "cpu": several processes; "gpu1": one GPU; "gpus": several
    text: str
    source: str = ""  # where it is not said by the article of its letter

    @property
    def article(self) -> str:
        """Who says it."""
        return self.source or ARTICLES[self.name[0]]


CLAIMS = (
    Claim(
        "A1",
        "cpu",
        "Data parallelism replicates the whole model on every device and partitions the data.",
    ),
    Claim(
        "A2",
        "cpu",
        "After the gradients are reduced, the updated weights are broadcast to every device, each iteration.",
    ),
    Claim("A3", "cpu", "Model parallelism is necessary when the model does not fit on one device."),
    Claim(
        "A4",
        "cpu",
        "A program that spawns one process per GPU and wraps the model in "
        "DistributedDataParallel is an example of nn.DataParallel.",
    ),
    Claim(
        "A5",
        "cpu",
        "init_process_group(backend, rank, world_size) is all the set-up that mp.spawn needs.",
    ),
    Claim(
        "A6",
        "cpu",
        "DistributedDataParallel(model, device_ids=[rank]) can wrap a model that was never moved to its device.",
    ),
    Claim(
        "A7",
        "cpu",
        "Initialising the process group and using DistributedSampler makes an ordinary training loop data parallel.",
    ),
    Claim("A8", "cpu", "DistributedSampler.set_epoch must be called for a new shuffle every epoch."),
    Claim("A9", "cpu", "x = dist.recv(0) returns the tensor that rank 0 sent."),
    Claim(
        "A10",
        "cpu",
        "Sending activations with dist.send between two halves of a model is enough to train it.",
    ),
    Claim("A11", "cpu", "Bad communication can cancel what more compute gains."),
    Claim("A12", "cpu", "For very large models, data and model parallelism are combined."),
    Claim("B1", "cpu", "A framework uses one GPU unless a program asks for more."),
    Claim(
        "B2",
        "cpu",
        "With layers on different GPUs, moving activations between them is a severe bottleneck.",
    ),
    Claim(
        "B3",
        "cpu",
        "Tensor parallelism is already built into the standard operations of PyTorch, and its effect is larger on "
        "several devices.",
    ),
    Claim(
        "B4",
        "cpu",
        "A large operation such as a matrix product can be divided into smaller ones, each on a device of its own.",
    ),
    Claim(
        "B5",
        "cpu",
        "Pipeline parallelism keeps the devices busy by feeding the next micro-batch as soon as "
        "the first stage is free; utilisation improves drastically.",
    ),
    Claim("B6", "cpu", "Pipeline parallelism is often considered a combination of data and model parallelism."),
    Claim("C1", "cpu", "nn.DataParallel splits the batch and not the model."),
    Claim(
        "C2",
        "cpu",
        "DistributedDataParallel is faster than nn.DataParallel because it uses one process per device.",
    ),
    Claim("C3", "cpu", "More GPUs do not give a proportional speed-up."),
    Claim(
        "C4",
        "gpus",
        "Moving the model to the GPU after wrapping it in nn.DataParallel is an error or falls back to the CPU.",
    ),
    Claim("C5", "cpu", "Without a distributed sampler, ranks that share a seed train on identical batches."),
    Claim("C6", "cpu", "Giving every rank a different seed makes their batches distinct."),
    Claim("C7", "cpu", "With nn.DataParallel, batch_size=32 means 32 on each GPU."),
    Claim("C8", "cpu", "It is a myth that model parallelism is always better than data parallelism."),
    Claim("C9", "cpu", "How often gradients are synchronised trades speed for accuracy."),
    Claim("C10", "cpu", "A batch per device that is too small harms training."),
    Claim("C11", "gpus", "Topology (NVLink or PCIe) decides communication speed."),
    Claim("C12", "cpu", "Very small models train faster on one device."),
    Claim("C13", "cpu", "Mixed precision saves memory and time in multi-device training."),
    Claim("C14", "cpu", "Checkpoints and logs need care with several processes."),
    Claim(
        "C15",
        "cpu",
        "With a loss summed over the batch, DDP's gradients on M processes are M times smaller than one process has "
        "for the whole batch.",
        source="PyTorch 2.13, documentation of DistributedDataParallel (2026)",
    ),
    Claim("D1", "cpu", "Data parallelism is not about speed and may slow training."),
    Claim("D2", "cpu", "Data parallelism combines several GPUs into one with more memory."),
    Claim("D3", "cpu", "Data parallelism gives the same gradients as gradient accumulation."),
    Claim("D4", "cpu", "nn.DataParallel needs no change to the training loop."),
    Claim("D5", "cpu", "Save model.module, load into the bare model, then wrap."),
    Claim(
        "D6",
        "gpus",
        "With nn.DataParallel the first GPU uses the most memory because it holds parameters, "
        "gradients, optimizer state.",
    ),
    Claim("D7", "cpu", "nn.DataParallel is one multi-threaded process and is limited by Python threads."),
    Claim("E1", "cpu", "Data, model and tensor parallelism are the three main strategies."),
    Claim("E2", "cpu", "A script that selects cuda:0 trains on four GPUs when four are visible."),
    Claim("E3", "cpu", "After two 2x poolings of a 224x224 image the classifier's input is 32*56*56."),
    Claim(
        "E4",
        "gpu1",
        "High GPU utilisation with memory to spare and slow training points at communication.",
    ),
    Claim("E5", "cpu", "DistributedSampler gives every process a unique, non-overlapping subset."),
    Claim(
        "E6",
        "cpu",
        "DDP hides much of its communication behind the backward pass.",
        source="Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training (2020)",
    ),
    Claim("E7", "cpu", "Model parallelism is also known as pipeline parallelism."),
    Claim("E8", "cpu", "Micro-batches fill the pipeline and reduce idle time."),
    Claim("E9", "cpu", "If A is split by columns, Y = XA is the concatenation of XA1 and XA2."),
    Claim(
        "E10",
        "cpu",
        "A column-split linear layer needs an all-gather and a row-split one a reduce-scatter.",
    ),
    Claim("E11", "cpu", "Tensor parallelism communicates within every layer, forward and backward."),
    Claim(
        "E12",
        "cpu",
        "Tensor parallelism belongs inside a node, pipeline parallelism across nodes, data "
        "parallelism over all replicas.",
    ),
    Claim("E13", "cpu", "Splitting the layers over devices lowers the memory on each."),
)
