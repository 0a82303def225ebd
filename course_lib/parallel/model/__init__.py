"""Lesson 06, model parallelism: a model cut between two layers, and its parts on devices or ranks.

Read ``cutting.py`` (where to cut), ``piece_costs.py`` (what a piece weighs), ``spans.py`` (who watches),
``stage_p2p.py`` (what crosses a cut, forward and backward), ``model_parallel.py`` (the cut model at work) and
``tied.py`` (one parameter on both sides of a cut). Pipelines are built on it, and call a part a stage. Production code
uses ``torch.distributed.pipelining``.
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "ModelParallel": "model_parallel",
    "OnDevices": "model_parallel",
    "Part": "cutting",
    "PartFailed": "model_parallel",
    "Passing": "stage_p2p",
    "RecvFromPrevious": "stage_p2p",
    "SendToNext": "stage_p2p",
    "TiedParameters": "tied",
    "crossing_costs": "piece_costs",
    "cut": "cutting",
    "memory_costs": "piece_costs",
    "parameter_costs": "cutting",
    "pieces_of": "cutting",
    "split_evenly": "cutting",
    "tied_parameters": "cutting",
    "time_costs": "piece_costs",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
