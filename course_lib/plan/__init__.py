"""Which cut for which job: what every layout of a model on a cluster needs and takes. Arithmetic, without torch.

In the order to read:

- ``inputs/``: What is planned: a model, a job, a cluster, a layout; and what is known of software and machines
- ``estimate/``: What a layout needs and takes: memory of the fullest rank, time of a step by part
- ``search/``: Every layout, ranked: constraints, the search space, budget, advice
- ``output/``: A listing in words, as JSON, and as what to type
- ``runs/``: Runs of others, and what the planner says of them
- ``by_hand/``: A planner of one page, by formulas alone: what lesson 11 lets learners build
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "BytesEach": "estimate.stage_memory",
    "Budget": "search.budget",
    "Calibrated": "inputs.calibrated",
    "ClusterSpec": "inputs.cluster",
    "Constants": "inputs.constants",
    "DataSizes": "estimate.data_sizes",
    "Decoder": "inputs.model",
    "Job": "inputs.job",
    "KINDS": "inputs.constants",
    "Layout": "inputs.layout",
    "Listing": "search.listing",
    "MODELS": "inputs.models",
    "Machines": "by_hand.inputs",
    "MemoryParts": "estimate.memory",
    "Option": "search.listing",
    "Placement": "inputs.layout",
    "Plan": "output.json_io",
    "PlannedJob": "by_hand.inputs",
    "Profile": "inputs.profiles",
    "PublishedRun": "runs.published",
    "Refusal": "search.listing",
    "Replayed": "runs.replayed",
    "Software": "inputs.software",
    "StepParts": "estimate.step_time",
    "cluster_of": "inputs.cluster",
    "cluster_of_machine": "inputs.cluster",
    "data_sizes": "estimate.data_sizes",
    "decoder": "inputs.models",
    "decoder_of_config": "inputs.hf_config",
    "decoder_of_sizes": "inputs.model",
    "decoder_of_words": "inputs.models",
    "error_bands": "inputs.error_bands",
    "how_sure": "output.certainty",
    "layer_activation_bytes": "estimate.memory",
    "list_layouts": "search.listing",
    "load_profiles": "inputs.profiles",
    "machine_by_name": "inputs.cluster",
    "machines_of": "by_hand.inputs",
    "memory_parts": "estimate.memory",
    "placement": "inputs.layout",
    "planned_job": "by_hand.inputs",
    "profile_of": "inputs.profiles",
    "read_calibrated": "inputs.calibrated",
    "read_runs": "runs.published",
    "replayed_runs": "runs.replayed",
    "shown_runs": "by_hand.timed_runs",
    "step_band": "output.certainty",
    "stage_bytes": "estimate.stage_memory",
    "step_parts": "estimate.step_time",
    "to_type": "output.exporters",
    "waits_s": "estimate.data_sizes",
    "typical_constants": "inputs.profiles",
    "typical_of_gpu": "inputs.profiles",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
