"""How the parts of a plan look in every picture: of a step's time, and of what the fullest GPU holds.

By the fields of ``StepParts`` and ``MemoryParts``.
"""

from __future__ import annotations

from course_lib.plot.style import LABEL_LOOKS, OKABE_ITO, Look

__all__ = ["MEMORY_LOOKS", "TIME_LOOKS"]

TIME_LOOKS = {
    "compute_s": Look(OKABE_ITO["blue"], "", "C"),
    "output_s": Look(OKABE_ITO["sky blue"], "--", "L"),
    "host_s": Look("#666666", "xx", "H"),
    "tensor_s": Look(OKABE_ITO["orange"], "//", "T"),
    "context_s": Look(OKABE_ITO["sky blue"], "..", "X"),
    "expert_s": Look(OKABE_ITO["yellow"], "xx", "E"),
    "pipeline_s": Look(OKABE_ITO["purple"], "||", "P"),
    "bubble_s": Look("#FFFFFF", "///", "b"),
    "data_s": Look(OKABE_ITO["vermillion"], "\\\\", "D"),
    "optimizer_s": Look(OKABE_ITO["green"], "", "O"),
}
MEMORY_LOOKS = {
    "weights_bytes": LABEL_LOOKS["parameter"],
    "gradients_bytes": LABEL_LOOKS["gradient"],
    "optimizer_bytes": LABEL_LOOKS["optimizer state"],
    "activations_bytes": LABEL_LOOKS["activation"],
    "logits_bytes": Look(OKABE_ITO["purple"], "..", "L"),
    "reserve_bytes": Look("#888888", "xx", "R"),
}
