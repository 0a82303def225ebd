"""What a pod of a `TrainJob` finds in its environment, read off the job's own file."""

from __future__ import annotations

import re

from course_lib.base.checked import checked

__all__ = ["pod_environment"]


@checked
def pod_environment(trainjob: str, node: int) -> dict[str, str]:
    """The options of torchrun that Kubeflow Trainer puts into the environment of the pod of one node.

    ``trainjob``: the text of the job; its service is taken to be called ``train``. ``ValueError`` for a text without
    its sizes, or a node that the job does not have.
    """
    sizes = {key: re.search(rf"^\s*{key}:\s*(\d+)", trainjob, re.MULTILINE) for key in _SIZES}
    missing = [key for key, found in sizes.items() if not found]
    if missing:
        raise ValueError(f"this TrainJob lacks {' and '.join(missing)}; put them under trainer:")
    found = {_SIZES[key]: size[1] for key, size in sizes.items() if size}
    num_nodes = int(found["PET_NNODES"])
    if not 0 <= node < num_nodes:
        raise ValueError(f"node is {node}, and the job has {num_nodes}: give 0 to {num_nodes - 1}")
    return found | {"PET_NODE_RANK": str(node), "PET_MASTER_ADDR": "train-node-0-0.train"}


_SIZES = {"numNodes": "PET_NNODES", "numProcPerNode": "PET_NPROC_PER_NODE"}
