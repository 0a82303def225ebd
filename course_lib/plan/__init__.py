"""Which cut for which job: what every layout of a model on a cluster needs and takes. Arithmetic, without torch.

In the order to read: ``model.py`` (a decoder by its sizes), ``job.py``, ``cluster.py`` (GPUs, NVLink domains, nodes),
``layout.py`` (sizes of the axes, places of their groups); ``stages.py`` (who has which layers), ``memory.py`` (bytes of
the fullest rank), ``links.py`` (collectives of a group), ``layer_time.py``, ``data_axis.py``, ``step_time.py`` (a step
by part); ``constants.py`` and ``software.py`` (what no data sheet tells), ``profiles.py`` with ``profiles.json`` (what
is known of clusters), ``fit.py`` (where constants come from); ``published.py``, ``predict_run.py`` (runs of others);
``rules.py``, ``candidates.py``, ``listing.py`` (every layout, and why not), ``advice.py``; ``report.py``,
``command.py``, ``cli.py`` (``course plan``).
"""

from __future__ import annotations

from course_lib.lazy import loads_when_used

_HOME_OF = {
    "Cluster": "cluster",
    "Constants": "constants",
    "Decoder": "model",
    "Job": "job",
    "KINDS": "constants",
    "Layout": "layout",
    "Listing": "listing",
    "MODELS": "model",
    "MemoryParts": "memory",
    "Option": "listing",
    "Placement": "layout",
    "Profile": "profiles",
    "PublishedRun": "published",
    "Refusal": "listing",
    "Software": "software",
    "StepParts": "step_time",
    "cluster_of": "cluster",
    "cluster_of_machine": "cluster",
    "decoder": "model",
    "decoder_of_config": "model",
    "decoder_of_sizes": "model",
    "layer_activation_bytes": "memory",
    "list_layouts": "listing",
    "load_profiles": "profiles",
    "machine_by_name": "cluster",
    "memory_parts": "memory",
    "placement": "layout",
    "profile_of": "profiles",
    "read_runs": "published",
    "step_parts": "step_time",
    "typical_constants": "profiles",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
