"""What a step should cost, from formulas: memory, arithmetic, communication. No torch, no model in memory."""

from course_lib.cost.activations import Saved, activation_bytes, conv_activations, transformer_activations
from course_lib.cost.all_reduce_at_scale import (
    ALL_REDUCE_WAYS,
    AllReducePoint,
    all_reduce_at_scale,
    all_reduce_point,
    hierarchical_sent_bytes,
)
from course_lib.cost.architectures import cnn_layers, transformer_layers, transformer_parameters
from course_lib.cost.checkpoints import best_interval_s, daly_interval_s, young_interval_s
from course_lib.cost.collectives import (
    COLLECTIVES,
    CollectiveCost,
    algorithms_of,
    bus_factor,
    collective_cost,
)
from course_lib.cost.context import (
    PassBytes,
    RingTime,
    all_to_all_attention_sent_bytes,
    ring_attention_sent_bytes,
    ring_attention_time,
    ring_balance,
    ring_pairs,
)
from course_lib.cost.context_memory import context_activations, ring_in_flight_bytes
from course_lib.cost.experts import (
    ExpertLayerTime,
    ExpertParameters,
    expert_gradients_sent_bytes,
    expert_layer_time,
    expert_parameters,
    expert_sent_bytes,
    experts_of_ranks,
    rows_between_ranks,
)
from course_lib.cost.experts_memory import expert_activations
from course_lib.cost.failures import (
    FAILURE_RATES,
    FailureRate,
    chance_of_no_failure,
    failure_rate,
    failures_per_day,
    mean_time_between_failures_s,
)
from course_lib.cost.fitted import FittedTimes, fit_times
from course_lib.cost.flops import Flops, flops, hardware_flops, mfu, six_n_flops
from course_lib.cost.gloo import GLOO_COLLECTIVES, GlooTime, gloo_time
from course_lib.cost.goodput import FailingJob, Goodput, expected_goodput, first_order_goodput
from course_lib.cost.goodput_runs import SimulatedGoodput, simulate_goodput
from course_lib.cost.growing import A100_ALL_REDUCE, GrowingLatency, fit_growing_latency
from course_lib.cost.layout_step import Cut, Nodes, Work, layout_step_s, ring_s
from course_lib.cost.machines import LINKS, MACHINES, MachineSpec, machine_spec
from course_lib.cost.memory import (
    DTYPE_BYTES,
    OPTIMIZERS,
    PRECISIONS,
    StateBytes,
    model_state,
    precision_state,
)
from course_lib.cost.mesh import LinkBytes, MeshStep, bytes_by_link
from course_lib.cost.mesh_state import holders_of_parameter, mesh_state, pieces_of_rank
from course_lib.cost.mesh_time import MeshStepTime, mesh_step_time
from course_lib.cost.network import Network
from course_lib.cost.pipeline import simulate
from course_lib.cost.rounds import Round, rounds_of
from course_lib.cost.scaled_job import ScaledJob
from course_lib.cost.scaling import (
    ScalingPoint,
    break_even_bandwidth_bytes_per_s,
    scaling_curve,
)
from course_lib.cost.sharded import sharded_sent_bytes, sharded_state, sharded_step_s, shared_numel
from course_lib.cost.sharded_stages import largest_by_phase, step_moments
from course_lib.cost.sharded_step import ShardedMoment, UnitSizes, sharded_moments
from course_lib.cost.step import Bucket, StepTime, ddp_buckets, ddp_step
from course_lib.cost.step_memory import transformer_memory
from course_lib.cost.tensor_parallel import (
    SplitCollective,
    block_collectives,
    collectives_sent_bytes,
    collectives_time_s,
    split_transformer_collectives,
)
from course_lib.cost.tensor_parallel_memory import (
    ActivationTerm,
    explained_activations,
    published_activation_bytes,
)
from course_lib.meter.shapes import Attention, Conv2d, Layer, Linear

__all__ = [
    "A100_ALL_REDUCE",
    "ALL_REDUCE_WAYS",
    "COLLECTIVES",
    "DTYPE_BYTES",
    "FAILURE_RATES",
    "GLOO_COLLECTIVES",
    "LINKS",
    "MACHINES",
    "OPTIMIZERS",
    "PRECISIONS",
    "ActivationTerm",
    "AllReducePoint",
    "Attention",
    "Bucket",
    "CollectiveCost",
    "Conv2d",
    "Cut",
    "ExpertLayerTime",
    "ExpertParameters",
    "FailingJob",
    "FailureRate",
    "FittedTimes",
    "Flops",
    "GlooTime",
    "Goodput",
    "GrowingLatency",
    "Layer",
    "Linear",
    "LinkBytes",
    "MachineSpec",
    "MeshStep",
    "MeshStepTime",
    "Network",
    "Nodes",
    "PassBytes",
    "RingTime",
    "Round",
    "Saved",
    "ScaledJob",
    "ScalingPoint",
    "ShardedMoment",
    "SimulatedGoodput",
    "SplitCollective",
    "StateBytes",
    "StepTime",
    "UnitSizes",
    "Work",
    "activation_bytes",
    "algorithms_of",
    "all_reduce_at_scale",
    "all_reduce_point",
    "all_to_all_attention_sent_bytes",
    "best_interval_s",
    "block_collectives",
    "break_even_bandwidth_bytes_per_s",
    "bus_factor",
    "bytes_by_link",
    "chance_of_no_failure",
    "cnn_layers",
    "collective_cost",
    "collectives_sent_bytes",
    "collectives_time_s",
    "context_activations",
    "conv_activations",
    "daly_interval_s",
    "ddp_buckets",
    "ddp_step",
    "expected_goodput",
    "expert_activations",
    "expert_gradients_sent_bytes",
    "expert_layer_time",
    "expert_parameters",
    "expert_sent_bytes",
    "experts_of_ranks",
    "explained_activations",
    "failure_rate",
    "failures_per_day",
    "first_order_goodput",
    "fit_growing_latency",
    "fit_times",
    "flops",
    "gloo_time",
    "hardware_flops",
    "hierarchical_sent_bytes",
    "holders_of_parameter",
    "largest_by_phase",
    "layout_step_s",
    "machine_spec",
    "mean_time_between_failures_s",
    "mesh_state",
    "mesh_step_time",
    "mfu",
    "model_state",
    "pieces_of_rank",
    "precision_state",
    "published_activation_bytes",
    "ring_attention_sent_bytes",
    "ring_attention_time",
    "ring_balance",
    "ring_in_flight_bytes",
    "ring_pairs",
    "ring_s",
    "rounds_of",
    "rows_between_ranks",
    "scaling_curve",
    "sharded_moments",
    "sharded_sent_bytes",
    "sharded_state",
    "sharded_step_s",
    "shared_numel",
    "simulate",
    "simulate_goodput",
    "six_n_flops",
    "split_transformer_collectives",
    "step_moments",
    "transformer_activations",
    "transformer_layers",
    "transformer_memory",
    "transformer_parameters",
    "young_interval_s",
]
