"""Which stage of a pipeline has how many layers: as many each, or by what they cost."""

from __future__ import annotations

from functools import lru_cache

from course_lib.plan.inputs.model import Decoder
from course_lib.plan.inputs.software import Software

__all__ = ["layers_of_stages", "output_layers", "stage_layers"]


def output_layers(model: Decoder) -> float:
    """As how many layers the output matrix counts."""
    return model.embedding_parameters / model.active_layer_weights


def layers_of_stages(model: Decoder, stages: int, software: Software) -> tuple[int, ...]:
    """How many layers each of ``stages`` stages has, first to last, as the program shares them out.

    >>> from course_lib.plan.inputs.models import MODELS
    >>> layers_of_stages(MODELS["llama-3-70b"], 4, Software(ends_as_layers=True))
    (20, 21, 20, 19)
    """
    if not software.ends_as_layers or stages == 1:
        return stage_layers(model.layers, stages, output_layers(model), software.layers_by_cost)
    first, *between, last = stage_layers(model.layers + 2, stages, 0.0, False)
    return first - 1, *between, last - 1


@lru_cache(maxsize=4096)
def stage_layers(layers: int, stages: int, output_layers: float, by_cost: bool) -> tuple[int, ...]:
    """How many layers each of ``stages`` stages has, first to last.

    Evenly, the remainder to the first ones; or so that the output, which costs as much as ``output_layers`` layers,
    counts as work of the last stage: a layer goes to the first stage whose share of all cost it does not exceed.

    >>> stage_layers(16, 4, 4.0, True)
    (5, 5, 5, 1)
    """
    if not by_cost or stages == 1:
        return tuple(layers // stages + (stage < layers % stages) for stage in range(stages))
    share = (layers + output_layers) / stages
    counts = [0] * stages
    stage = 0
    for layer in range(1, layers + 1):
        while stage < stages - 1 and layer > share * (stage + 1) + 1e-9:
            stage += 1
        counts[stage] += 1
    return tuple(counts)
