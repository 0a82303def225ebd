"""Which cut for which job: what every layout of a model on a cluster needs and takes. Arithmetic, without torch.

In the order to read: ``model.py`` (a decoder by its sizes), ``job.py``, ``cluster.py`` (GPUs, NVLink domains, nodes),
``layout.py`` (sizes of the axes, places of their groups); ``stages.py`` (who has which layers), ``stage_memory.py``
(the bytes of a rank by hand), ``memory.py`` (those of the fullest rank), ``links.py`` (collectives of a group),
``layer_time.py``, ``data_axis.py``, ``step_time.py`` (a step by part); ``constants.py`` and ``software.py`` (what no
data sheet tells), ``profiles.py`` with ``profiles.json`` (what is known of clusters), ``fit.py`` (where constants come
from); ``published.py``, ``predict_run.py``, ``replayed.py`` (runs of others); ``rules.py``, ``candidates.py``,
``listing.py`` (every layout, and why not); ``budget.py`` (days, energy, cost), ``advice.py``, ``how_many.py`` (GPUs);
``report.py`` (a listing in words), ``record.py`` with ``plan.schema.json`` (as JSON), ``what_to_type`` (for a layout,
by program). Models come from ``models.py`` (by name, by sizes) and ``hf_config.py`` (a ``config.json``), a cluster also
from ``calibrated.py``. The command is ``course_lib.plan_command``.
"""

from __future__ import annotations

from course_lib.lazy import loads_when_used

_HOME_OF = {
    "BytesEach": "stage_memory",
    "Budget": "budget",
    "Calibrated": "calibrated",
    "Cluster": "cluster",
    "Constants": "constants",
    "Decoder": "model",
    "Job": "job",
    "KINDS": "constants",
    "Layout": "layout",
    "Listing": "listing",
    "MODELS": "models",
    "MemoryParts": "memory",
    "Option": "listing",
    "Placement": "layout",
    "Plan": "record",
    "Profile": "profiles",
    "PublishedRun": "published",
    "Refusal": "listing",
    "Replayed": "replayed",
    "Software": "software",
    "StepParts": "step_time",
    "cluster_of": "cluster",
    "cluster_of_machine": "cluster",
    "decoder": "models",
    "decoder_of_config": "hf_config",
    "decoder_of_sizes": "model",
    "decoder_of_words": "models",
    "layer_activation_bytes": "memory",
    "list_layouts": "listing",
    "load_profiles": "profiles",
    "machine_by_name": "cluster",
    "memory_parts": "memory",
    "placement": "layout",
    "profile_of": "profiles",
    "read_calibrated": "calibrated",
    "read_runs": "published",
    "replayed_runs": "replayed",
    "stage_bytes": "stage_memory",
    "step_parts": "step_time",
    "to_type": "what_to_type",
    "typical_constants": "profiles",
    "typical_of_peak": "profiles",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
