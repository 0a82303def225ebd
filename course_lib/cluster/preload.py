"""What the fork server imports once, so that no rank has to.

``torch._dynamo`` is here because the first optimizer step imports it (0.8 s in every rank otherwise); the others
because a lesson uses them. Nothing here touches CUDA: a process that has cannot be forked.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # ask the driver, open no context

MODULES = (
    "torch",
    "torch.distributed",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "torch.distributed.pipelining",
    "torch.distributed.checkpoint",
    "torch.utils.data",
    "numpy",
    "cloudpickle",
    "course_lib.cluster.rank_process",
    "course_lib.cluster.shaping",
)

for _name in MODULES:
    with contextlib.suppress(ImportError):  # an older torch may lack one; a rank then imports it when needed
        importlib.import_module(_name)

gc.collect()
gc.freeze()  # the collector then leaves these objects alone, and their memory pages stay shared between ranks
