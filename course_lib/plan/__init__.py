"""Which cut for which job: what every layout of a model on a cluster needs and takes. Arithmetic, without torch.

In the order to read: ``model.py`` (a decoder by its sizes), ``job.py``, ``cluster.py`` (GPUs, NVLink domains, nodes),
``layout.py`` (sizes of the axes, places of their groups); ``stages.py`` (who has which layers), ``memory.py`` (bytes of
the fullest rank), ``links.py`` (collectives of a group), ``layer_time.py``, ``data_axis.py``, ``step_time.py`` (a step
by part); ``constants.py`` and ``software.py`` (what no data sheet tells), ``profiles.py`` with ``profiles.json`` (what
is known of clusters), ``fit.py`` (where constants come from); ``published.py``, ``predict_run.py`` (runs of others).
"""

from course_lib.plan.cluster import Cluster, cluster_of, cluster_of_machine, machine_by_name
from course_lib.plan.constants import KINDS, Constants
from course_lib.plan.job import Job
from course_lib.plan.layout import Layout, Placement, placement
from course_lib.plan.memory import MemoryParts, layer_activation_bytes, memory_parts
from course_lib.plan.model import MODELS, Decoder, decoder, decoder_of_config, decoder_of_sizes
from course_lib.plan.profiles import Profile, load_profiles, profile_of, typical_constants
from course_lib.plan.published import PublishedRun, read_runs
from course_lib.plan.software import Software
from course_lib.plan.step_time import StepParts, step_parts

__all__ = [
    "KINDS",
    "MODELS",
    "Cluster",
    "Constants",
    "Decoder",
    "Job",
    "Layout",
    "MemoryParts",
    "Placement",
    "Profile",
    "PublishedRun",
    "Software",
    "StepParts",
    "cluster_of",
    "cluster_of_machine",
    "decoder",
    "decoder_of_config",
    "decoder_of_sizes",
    "layer_activation_bytes",
    "load_profiles",
    "machine_by_name",
    "memory_parts",
    "placement",
    "profile_of",
    "read_runs",
    "step_parts",
    "typical_constants",
]
