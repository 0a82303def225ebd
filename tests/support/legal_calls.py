"""One legal call of every public function and class that needs no ranks: what the fuzz starts from.

``LEGAL`` by "room.name"; the values are its arguments by name. ``ELSEWHERE`` says of every other public name why it is
not called here, where its type hints do not (``why_elsewhere``). A name without a call and without a reason is an
error, so that a new one is not forgotten.

The calls stand here and not beside what they call: most need a model, a schedule or a link, which several share, and a
reader of the library would find an argument for a test between two formulas. docs/maintaining/tests.md says so, too.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from course_lib import cost, schedules
from course_lib.cost import Linear
from course_lib.layouts.link import Link
from course_lib.layouts.mesh import Mesh
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.meter import Communication
from course_lib.meter.calibration.curve import Curve
from course_lib.meter.calibration.together import Together
from course_lib.models import SmallCNN, Transformer, TransformerConfig
from course_lib.parallel.tensor import Replicate, Shard
from course_lib.schedules import StageTimes

CONFIG = TransformerConfig(vocab_size=16, context_length=8, num_layers=2, width=8, num_heads=2)
LINK = Link(1e-3, 1e8)
NETWORK = cost.Network.uniform(4, LINK)
LAYERS = (Linear("a", 4, 3, 2),)
SCHEDULE = schedules.gpipe(2, 2)
CURVE = Curve(((1000, 1e-4), (1_000_000, 1e-2)))
TOGETHER = Together(2, 1e-4, 1e-4, 0.1, *[CURVE] * 5)
CUT = SequenceCut(8, 2)
JOB = cost.FailingJob(mean_time_between_s=1e4, write_s=100.0, restart_s=300.0, exposed_share=0.5)
WORK = cost.StepCompute(8, 1e-3, 1e6, 1e7)
NODES = cost.NodeShape(2, LINK, LINK)
CALLS = cost.block_collectives(CONFIG, batch_size=2)
DATASET = torch.utils.data.TensorDataset(torch.zeros(8, 2))
MODEL = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))

LEGAL: dict[str, dict[str, Any]] = {
    "cost.Attention": {"name": "a", "batch": 2, "heads": 2, "query_len": 4, "key_len": 4, "head_dim": 2},
    "cost.Conv2d": {
        "name": "c",
        "images": 2,
        "in_channels": 1,
        "out_channels": 2,
        "kernel": (3, 3),
        "out_size": (4, 4),
        "input_grad": True,
        "weight_grad": True,
    },
    "cost.Linear": {
        "name": "l",
        "rows": 4,
        "in_features": 3,
        "out_features": 2,
        "input_grad": True,
        "weight_grad": True,
    },
    "cost.Flops": {"forward": 4, "backward": 8},
    "cost.GrowingLatency": {
        "latency_per_doubling_s": 1e-5,
        "bandwidth_bytes_per_s": 1e9,
        "smallest_bytes": 8.0,
    },
    "cost.MachineSpec": {
        "name": "m",
        "num_devices": 2,
        "memory_bytes": 100,
        "memory_bandwidth_bytes_per_s": 1e9,
        "intra": LINK,
        "inter": LINK,
        "ports_per_node": 1,
        "matmul_flops_per_s": {"float32": 1e9},
        "source": "here",
    },
    "cost.Network": {"num_ranks": 4, "intra": LINK, "inter": LINK, "ranks_per_node": 2, "ports_per_node": 1},
    "cost.ShardedMoment": {"what": "before", "kept": 4},
    "cost.UnitSizes": {"whole_numel": 6, "part_numel": 3},
    "cost.largest_by_phase": {"moments": [cost.ShardedMoment("before", 4)]},
    "cost.step_moments": {"units": [cost.UnitSizes(6, 3)], "stage": 1, "num_ranks": 2, "prefetch": 1},
    "cost.sharded_moments": {
        "units": [cost.UnitSizes(6, 3)],
        "num_ranks": 2,
        "prefetch": 1,
        "reshard_after_forward": 2,
    },
    "cost.sharded_sent_bytes": {
        "shapes": [(4, 2), (3,)],
        "stage": 3,
        "num_ranks": 4,
        "reshard_after_forward": 2,
    },
    "cost.sharded_state": {"num_parameters": 100, "stage": 2, "num_ranks": 4},
    "cost.sharded_step_s": {
        "unit_sizes_bytes": [1000, 2000],
        "num_ranks": 2,
        "link": LINK,
        "forward_s": 0.1,
        "backward_s": 0.2,
        "prefetch": 1,
    },
    "cost.shared_numel": {"shapes": [(4, 2), (3,)], "num_ranks": 2},
    "cost.Saved": {"name": "x", "size_bytes": 4},
    "cost.StateBytes": {"parameters": 4, "gradients": 4, "optimizer": 8, "master": 0},
    "cost.activation_bytes": {"saved": [cost.Saved("x", 4)]},
    "take_along.launch_file": {"name": "ssh.sh"},
    "take_along.pod_environment": {"trainjob": "  numNodes: 2\n  numProcPerNode: 8\n", "node": 1},
    "take_along.read_sbatch": {"text": "#!/bin/bash\n#SBATCH --nodes=2\n"},
    "take_along.variables_for": {"symptom": "hangs later"},
    "cost.algorithms_of": {"collective": "all_reduce"},
    "cost.block_collectives": {"config": CONFIG, "batch_size": 2, "length": 8, "itemsize": 4},
    "cost.break_even_bandwidth_bytes_per_s": {
        "bucket_bytes": [1e6, 2e6],
        "num_ranks": 4,
        "backward_s": 0.1,
        "latency_s": 0.0,
    },
    "cost.bus_factor": {"collective": "all_reduce", "num_ranks": 4},
    "cost.cnn_layers": {"batch_size": 2, "image_size": (8, 8), "num_classes": 10, "channels": 1, "width": 4},
    "cost.collective_cost": {
        "collective": "all_reduce",
        "size_bytes": 1e6,
        "network": LINK,
        "num_ranks": 4,
        "algorithm": "ring",
    },
    "cost.collectives_sent_bytes": {"calls": CALLS, "num_ranks": 4},
    "cost.collectives_time_s": {"calls": CALLS, "network": LINK, "num_ranks": 4},
    "cost.conv_activations": {"layers": cost.cnn_layers(batch_size=2), "image_size": (8, 8), "pooled": False},
    "cost.ddp_buckets": {"tensor_bytes": [100, 200], "bucket_cap_bytes": 150, "first_bucket_bytes": 100},
    "cost.ddp_step": {
        "bucket_bytes": [1e6],
        "forward_s": 0.1,
        "backward_s": 0.2,
        "all_reduce_time_s": lambda size: 0.1,
        "optimizer_s": 0.0,
        "overlap": 1.0,
        "ready_shares": [1.0],
    },
    "cost.explained_activations": {"config": CONFIG, "batch_size": 2, "length": 8, "num_ranks": 2},
    "cost.FittedTimes": {
        "curve": cost.GrowingLatency(1e-6, 1e9, 4096.0),
        "corrections": ((4096.0, 1.1), (1e6, 0.9)),
    },
    "cost.expert_activations": {
        "width": 4,
        "hidden": 8,
        "num_experts": 4,
        "top_k": 2,
        "num_tokens": 6,
        "sent_rows": 10,
        "recv_rows": 9,
        "normalised": True,
        "itemsize": 4,
    },
    "cost.expert_gradients_sent_bytes": {
        "shared_numel": 10,
        "own_numel": 20,
        "num_replicas": 2,
        "ranks_of_replica": 2,
        "itemsize": 4,
    },
    "cost.expert_layer_time": {
        "counts": [[3, 1], [2, 4]],
        "width": 4,
        "row_s": 1e-3,
        "network": LINK,
        "itemsize": 4,
    },
    "cost.distinct_groups": {"num_experts": 8, "top_k": 2, "num_groups": 4},
    "cost.expert_parameters": {"width": 4, "hidden": 8, "num_experts": 4, "top_k": 2, "num_ranks": 2},
    "cost.expert_sent_bytes": {
        "counts": [[3, 1], [2, 4]],
        "width": 4,
        "itemsize": 4,
        "is_training": True,
        "input_grad": True,
    },
    "cost.experts_of_ranks": {"num_experts": 5, "num_ranks": 2},
    "cost.rows_between_ranks": {"counts": [[3, 1], [2, 4]]},
    "cost.fit_times": {"samples": [(1e4, 1e-3), (1e5, 2e-3), (1e6, 1e-2)]},
    "cost.fit_growing_latency": {"samples": [(1e4, 1e-3), (1e5, 2e-3), (1e6, 1e-2)]},
    "cost.flops": {"layers": LAYERS},
    "cost.hardware_flops": {"layers": LAYERS, "recomputed": LAYERS},
    "cost.gloo_time": {
        "collective": "all_reduce",
        "size_bytes": 1e6,
        "num_ranks": 2,
        "together": (TOGETHER,),
    },
    "cost.machine_spec": {"name": next(iter(cost.MACHINES))},
    "cost.mfu": {"num_flops": 1e9, "step_time_s": 1.0, "peak_flops_per_s": 1e10},
    "cost.model_state": {
        "num_parameters": 10,
        "optimizer": "adamw",
        "dtype": "float32",
        "gradient_dtype": "float32",
        "num_trainable": 10,
        "num_tensors": 2,
    },
    "cost.precision_state": {
        "num_parameters": 10,
        "precision": "float32",
        "optimizer": "adamw",
        "num_tensors": 2,
    },
    "cost.published_activation_bytes": {
        "length": 8,
        "batch_size": 2,
        "width": 8,
        "num_heads": 2,
        "num_ranks": 2,
    },
    "cost.rounds_of": {"collective": "all_reduce", "algorithm": "ring", "num_ranks": 4, "size_bytes": 1e6},
    "cost.scaling_curve": {
        "ranks": [1, 2],
        "bucket_bytes": [1e6],
        "forward_s": 0.1,
        "backward_s": 0.2,
        "all_reduce_time_s": lambda num_ranks, size: 0.1,
        "optimizer_s": 0.0,
        "overlap": 1.0,
        "kind": "strong",
    },
    "cost.simulate": {
        "schedule": SCHEDULE,
        "times": StageTimes(1.0, 1.0, 1.0),
        "link": LINK,
        "message_bytes": 8.0,
    },
    "cost.six_n_flops": {"num_parameters": 10, "num_tokens": 4},
    "cost.split_transformer_collectives": {"config": CONFIG, "batch_size": 2, "length": 8, "itemsize": 4},
    "cost.transformer_activations": {"config": CONFIG, "batch_size": 2, "length": 8},
    "cost.transformer_layers": {"config": CONFIG, "batch_size": 2, "length": 8},
    "cost.transformer_memory": {
        "config": CONFIG,
        "batch_size": 2,
        "length": 8,
        "optimizer": "adamw",
        "precision": "float32",
    },
    "cost.transformer_parameters": {"config": CONFIG},
    "data.TextWindows": {"tokens": torch.arange(40), "length": 4, "stride": 2},
    "data.generated_images": {"num_images": 4, "size": 8, "num_classes": 2, "channels": 1, "seed": 0},
    "data.PacedReads": {"num_items": 3, "read_times_s": [0.0, 0.001]},
    "data.loader": {
        "dataset": DATASET,
        "batch_size": 2,
        "seed": 0,
        "workers": 0,
        "prefetch_factor": 2,
        "timeout_s": 5.0,
    },
    "layouts.Link": {"latency_s": 1e-3, "bandwidth_bytes_per_s": 1e9},
    "meter.TimedReads": {"dataset": DATASET},
    "meter.bytes_text": {"size_bytes": 1e6},
    "meter.time_text": {"time_s": 1.0},
    "meter.expect": {
        "communication": Communication(2, ()),
        "sent_bytes": 0,
        "num_messages": 0,
        "only": [],
        "tolerance": 0.1,
    },
    "models.SmallCNN": {"num_classes": 10, "channels": 1, "width": 4},
    "models.VGG": {
        "convolutions": (1, 1),
        "num_classes": 3,
        "channels": 3,
        "width": 4,
        "hidden": 8,
        "image_size": 8,
    },
    "models.TransformerConfig": {
        "vocab_size": 16,
        "context_length": 8,
        "num_layers": 1,
        "width": 8,
        "num_heads": 2,
        "num_kv_heads": 2,
        "hidden": 16,
        "dropout": 0.1,
    },
    "models.parameter_count": {"model": MODEL},
    "models.pieces": {"model": SmallCNN(width=4)},
    "parallel.collectives.split_sizes": {"num_rows": 10, "num_parts": 4},
    "parallel.data.DistributedSampler": {
        "num_items_or_dataset": 10,
        "rank": 0,
        "world_size": 2,
        "seed": 0,
        "epoch": 0,
        "start": 0,
    },
    "parallel.data.GlobalBatches": {
        "num_items_or_dataset": 10,
        "rank": 0,
        "world_size": 2,
        "global_batch_size": 4,
        "seed": 0,
        "epoch": 0,
        "start": 0,
    },
    "parallel.experts.Experts": {"width": 4, "hidden": 8, "num_experts": 2},
    "parallel.experts.MixtureOfExperts": {
        "width": 4,
        "hidden": 8,
        "num_experts": 4,
        "top_k": 2,
        "normalised": True,
        "capacity_factor": 1.25,
    },
    "parallel.experts.SigmoidRouter": {"width": 4, "num_experts": 8, "top_k": 2, "num_nodes": 4, "max_nodes": 2},
    "parallel.experts.TopKRouter": {
        "width": 4,
        "num_experts": 4,
        "top_k": 2,
        "normalised": True,
        "capacity_factor": 1.25,
    },
    "parallel.experts.expert_capacity": {
        "num_tokens": 12,
        "num_experts": 4,
        "top_k": 2,
        "capacity_factor": 1.25,
    },
    "parallel.experts.node_limited_choice": {
        "scores": torch.arange(16.0).view(2, 8),
        "top_k": 2,
        "num_nodes": 4,
        "max_nodes": 2,
    },
    "parallel.model.cut": {"model": SmallCNN(width=4), "ranges": [range(0, 2), range(2, 4)]},
    "parallel.model.parameter_costs": {"model": SmallCNN(width=4)},
    "parallel.model.pieces_of": {"model": Transformer(CONFIG)},
    "parallel.model.split_evenly": {"costs": [1.0, 2.0, 3.0], "num_parts": 2},
    "parallel.model.tied_parameters": {"parts": [MODEL, MODEL]},
    "parallel.tensor.Shard": {"dim": 0},
    "parallel.tensor.change": {"source": Shard(0), "target": Replicate()},
    "parallel.tensor.gradient_placement": {"of": Replicate()},
    "parallel.tensor.local_product": {"x": Replicate(), "a": Replicate()},
    "parallel.tensor.matmul_plan": {"x": Replicate(), "a": Replicate(), "y": Replicate()},
    "parallel.tensor.parse_placement": {"text": "R"},
    "schedules.Schedule": {
        "name": "s",
        "num_micro_batches": 2,
        "rank_of_stage": (0, 1),
        "actions": SCHEDULE.actions,
    },
    "schedules.StageTimes": {
        "forward_s": 1.0,
        "input_s": 1.0,
        "weight_s": 1.0,
        "backward_s": 2.0,
        "overlapped_s": 2.0,
    },
    "schedules.check": {"schedule": SCHEDULE, "max_in_flight": 2},
    "schedules.from_csv": {"text": schedules.to_csv(SCHEDULE), "name": "s"},
    "schedules.from_text": {
        "text": str(SCHEDULE),
        "name": "s",
        "num_micro_batches": 2,
        "rank_of_stage": [0, 1],
    },
    "schedules.get_schedule": {"kind": "gpipe", "num_ranks": 2, "num_micro_batches": 2},
    "schedules.in_flight_counts": {"schedule": SCHEDULE},
    "schedules.list_schedule": {
        "times": [StageTimes(1.0, 1.0, 1.0), StageTimes(2.0, 1.0, 0.5)],
        "num_micro_batches": 2,
        "max_in_flight": 2,
    },
    "schedules.peak_in_flight": {"schedule": SCHEDULE},
    "schedules.peak_in_flight_by_stage": {"schedule": SCHEDULE},
    "schedules.placement": {"num_ranks": 2, "num_virtual_stages": 2, "style": "loop"},
    "schedules.to_csv": {"schedule": SCHEDULE},
    "schedules.validate": {"schedule": SCHEDULE, "max_in_flight": 2},
    "schedules.zero_bubble_auto": {
        "num_ranks": 2,
        "num_micro_batches": 2,
        "max_in_flight": 2,
        "times": StageTimes(1.0, 1.0, 1.0),
        "message_s": 0.1,
        "weight_share": 0.5,
    },
    "schedules.virtual_stages_of": {"kind": "interleaved", "num_virtual_stages": 2},
    **{
        f"schedules.{name}": {"num_ranks": 2, "num_micro_batches": 2}
        for name in (
            "naive",
            "gpipe",
            "one_f_one_b",
            "zero_bubble_h1",
            "zero_bubble_h2",
            "zero_bubble_v",
            "dual_pipe_v",
        )
    },
    **{
        f"schedules.{name}": {"num_ranks": 2, "num_micro_batches": 2, "num_virtual_stages": 2}
        for name in ("interleaved", "looped_bfs")
    },
    "cost.PassBytes": {"forward": 4, "backward": 8},
    "cost.all_to_all_attention_sent_bytes": {
        "config": CONFIG,
        "cut": CUT,
        "place": 0,
        "batch_size": 2,
        "itemsize": 4,
    },
    "cost.context_activations": {
        "config": CONFIG,
        "cut": CUT,
        "place": 0,
        "batch_size": 2,
        "way": "ring",
    },
    "cost.ring_attention_sent_bytes": {
        "config": CONFIG,
        "cut": CUT,
        "place": 0,
        "batch_size": 2,
        "itemsize": 4,
    },
    "cost.ring_attention_time": {
        "config": CONFIG,
        "cut": CUT,
        "link": LINK,
        "batch_size": 2,
        "flops_per_s": 1e9,
        "itemsize": 4,
        "is_causal": True,
        "is_backward": False,
    },
    "cost.ring_balance": {"cut": CUT, "is_causal": True},
    "cost.ring_lap_balance": {"cut": CUT, "is_causal": True},
    "cost.ring_in_flight_bytes": {"config": CONFIG, "cut": CUT, "batch_size": 2, "itemsize": 4},
    "cost.ring_pairs": {"cut": CUT, "is_causal": True},
    "parallel.context.document_mask": {"lengths": [5, 3], "is_causal": True, "device": None},
    "parallel.context.own_positions": {"cut": CUT, "group_rank": 0, "full": torch.zeros(2, 8), "dim": 1},
    "parallel.context.join_positions": {"cut": CUT, "parts": [torch.zeros(2, 4)] * 2, "dim": 1},
    "layouts.piece_of": {"mesh": Mesh.of(pp=2, tp=2), "rank": 1, "shape": (4, 6), "tp_dim": 1},
    "layouts.holders_of_pieces": {
        "mesh": Mesh.of(pp=2, tp=2),
        "shape": (4, 6),
        "tp_dim": 1,
        "stages": (0,),
    },
    "cost.pieces_of_rank": {"config": CONFIG, "mesh": Mesh.of(pp=2, tp=2), "rank": 1},
    "cost.holders_of_parameter": {
        "config": CONFIG,
        "mesh": Mesh.of(pp=2, tp=2),
        "name": "blocks.0.mlp.w_up.weight",
    },
    "cost.mesh_state": {
        "config": CONFIG,
        "mesh": Mesh.of(pp=2, tp=2),
        "rank": 1,
        "optimizer": "adamw",
        "dtype": "float32",
    },
    "cost.MeshStep": {
        "config": CONFIG,
        "mesh": Mesh.of(pp=2, tp=2),
        "batch_size": 8,
        "length": 4,
        "itemsize": 4,
        "sequence_parallel": False,
        "backend": "gloo",
    },
    "cost.bytes_by_link": {"mesh": Mesh.of(pp=2), "matrix": [[0, 4], [4, 0]]},
    "cost.mesh_step_time": {
        "step": cost.MeshStep(config=CONFIG, mesh=Mesh.of(pp=2), batch_size=8),
        "network": cost.Network.uniform(2, LINK),
        "forward_s": 1.0,
        "backward_s": 1.0,
        "call_s": 0.1,
        "separate_ports": False,
    },
    "cost.all_reduce_at_scale": {
        "size_bytes": 1e6,
        "machine": cost.machine_spec("8x H100"),
        "ranks": [8, 16],
        "ways": ["ring"],
    },
    "cost.all_reduce_point": {"way": "hierarchical", "size_bytes": 1e6, "network": NETWORK},
    "cost.hierarchical_sent_bytes": {
        "num_elements": 10,
        "itemsize": 4,
        "num_nodes": 2,
        "ranks_per_node": 3,
    },
    "cost.best_interval_s": {"write_s": 60.0, "mean_time_between_s": 1e4},
    "cost.daly_interval_s": {"write_s": 60.0, "mean_time_between_s": 1e4},
    "cost.young_interval_s": {"write_s": 60.0, "mean_time_between_s": 1e4},
    "cost.FailureRate": {"name": "ours", "num_failures": 3.0, "num_gpus": 64, "days": 30.0, "source": ""},
    "cost.failure_rate": {"name": "RSC-1"},
    "cost.failures_per_day": {"rate_per_gpu_day": 5e-4, "num_gpus": 1024},
    "cost.mean_time_between_failures_s": {"rate_per_gpu_day": 5e-4, "num_gpus": 1024},
    "cost.chance_of_no_failure": {"rate_per_gpu_day": 5e-4, "num_gpus": 1024, "time_s": 3600.0},
    "cost.FailingJob": {
        "mean_time_between_s": 1e4,
        "write_s": 100.0,
        "restart_s": 300.0,
        "exposed_share": 0.5,
        "repair_s": 3600.0,
        "num_spares": 1,
    },
    "cost.expected_goodput": {"job": JOB, "interval_s": 1e3},
    "cost.first_order_goodput": {"job": JOB, "interval_s": 1e3},
    "cost.simulate_goodput": {
        "job": JOB,
        "interval_s": 1e3,
        "duration_s": 1e5,
        "num_runs": 3,
        "seed": 0,
        "weibull_shape": 0.8,
    },
    "cost.StepCompute": {"layers": 8, "forward_s": 1e-3, "activation_bytes": 1e6, "gradient_bytes": 1e7},
    "cost.Cut": {"pp": 2, "dp": 2, "tp": 1, "micro_batches": 4, "buckets": 2},
    "cost.NodeShape": {"ranks_per_node": 2, "within": LINK, "between": LINK},
    "cost.ring_s": {"size": 4, "link": LINK, "size_bytes": 1e6},
    "cost.layout_step_s": {"work": WORK, "cut": cost.Cut(pp=2, micro_batches=4), "nodes": NODES},
    "cost.ScaledJob": {
        "config": CONFIG,
        "batch_size": 8,
        "forward_s": 0.1,
        "nodes": NODES,
        "memory_bytes": 1e9,
    },
    "parallel.mesh.regret": {"times_s": {"a": 1.0, "b": 2.0}, "bet": "b"},
    "layouts.DocumentCut": {"lengths": (5, 3), "owned": ((0, 1, 6, 7), (2, 3, 4, 5))},
    "layouts.SequenceCut": {"num_tokens": 8, "num_ranks": 2, "order": "zigzag"},
    "parallel.mesh.DataShare": {"dp_rank": 0, "count": 2},
    "parallel.mesh.seed_for_data": {"mesh": Mesh.of(pp=2, tp=2), "rank": 1, "seed": 0},
    "parallel.mesh.seed_of": {"mesh": Mesh.of(pp=2, tp=2), "rank": 1, "seed": 0},
    "layouts.Mesh": {"axes": ("pp", "tp"), "shape": (2, 2), "ranks_per_node": 2},
}

_RESULTS = "a result: the course makes it, and nobody else"
_RANKS = "takes a Rank or a Cluster, or is used where ranks are: it runs on ranks"
_TENSORS = "takes tensors or modules alone, and PyTorch has its own words for those"
_MACHINE = "reads this machine, or a disk"
# Of names that do not say it by their type hints (``why_elsewhere``).
ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(
        ["cost.ActivationTerm", "cost.AllReducePoint", "cost.BucketCost", "cost.CollectiveCost",
         "cost.ExpertLayerTime", "cost.ExpertParameters", "cost.GlooTime", "cost.Goodput", "cost.Round",
         "cost.SimulatedGoodput", "cost.ScalingPoint", "cost.RingTime", "cost.LinkBytes", "cost.MeshStepTime",
         "layouts.TilePair", "layouts.Piece", "cost.SplitCollective", "cost.StepTime", "data.Digits",
         "meter.Balance", "meter.Breach", "meter.Calibration", "meter.Call", "meter.Communication",
         "meter.Comparison", "meter.DeepTrace", "meter.Entry", "meter.History", "meter.Measurement", "meter.Span",
         "meter.StepSplit",
         "parallel.data.Bucket", "parallel.data.CheckpointError", "parallel.data.CopyCounter",
         "parallel.data.Divergence", "parallel.data.Race", "parallel.model.PartFailed", "parallel.mesh.Box",
         "parallel.mesh.PlanRun", "parallel.mesh.WatchedRank", "parallel.context.WatchedAttention",
         "parallel.experts.PendingExchange",
         "parallel.tensor.MatmulPlan", "parallel.tensor.Partial", "parallel.tensor.Replicate",
         "parallel.tensor.RedistributionStep", "schedules.Action", "schedules.Overlap", "schedules.ActionSpan",
         "schedules.Dependencies", "schedules.MessageSpan", "schedules.Problem", "schedules.Result",
         "schedules.ScheduleKind", "schedules.ScheduleTrace", "schedules.Transfer", "data.ByteTokenizer",
         "take_along.Agent", "take_along.DryRun", "take_along.Variable"], _RESULTS),
    **dict.fromkeys(
        ["meter.nccl_breaches", "meter.mean_split", "meter.split_step", "meter.measure", "meter.compare",
         "meter.MemoryLedger", "meter.Timeline",
         "parallel.model.RecvFromPrevious", "parallel.model.SendToNext", "parallel.model.TiedParameters",
         "parallel.tensor.OwnDropout", "parallel.tensor.own_random_numbers", "parallel.experts.interleaved",
         "parallel.experts.one_after_the_other", "parallel.experts.num_behind_computing",
         "parallel.collectives.Members"], _RANKS),
    **dict.fromkeys(
        ["parallel.context.attend", "parallel.context.attend_backward", "models.Attention", "models.BasicBlock",
         "models.Bottleneck", "models.Mlp", "models.ResNet", "models.Transformer", "models.TransformerBlock",
         "parallel.data.DataParallel", "parallel.data.assign_buckets", "parallel.data.gather",
         "parallel.data.parallel_apply", "parallel.data.replicate", "parallel.data.scatter",
         "parallel.data.memory_by_device", "parallel.experts.update_selection_bias",
         "parallel.experts.within_capacity", "parallel.experts.once_for_each", "parallel.model.OnDevices",
         "parallel.tensor.join_states"], _TENSORS),
    **dict.fromkeys(
        ["meter.calibrate", "data.digits", "data.documentation_text", "data.documentation_windows",
         "data.image_folder", "parallel.data.interpreter_lock", "parallel.data.load_checkpoint",
         "parallel.data.save_checkpoint", "take_along.dry_run_limit", "take_along.dry_run_sbatch",
         "take_along.dry_run_ssh", "take_along.his_script", "take_along.sick_links"], _MACHINE),
}  # fmt: skip
ROOMS = (
    "cost", "data", "meter", "models", "schedules", "parallel.collectives", "parallel.data", "parallel.experts",
    "parallel.model", "parallel.tensor", "parallel.context", "parallel.mesh", "layouts",
    "take_along",
)  # fmt: skip


_OF_RANKS = re.compile(r"\b(Rank|Cluster|Members|MeshGroups|OnMesh)\b")
_OF_TENSORS = re.compile(r"\b(Tensor|Module|Attention)\b")


def why_elsewhere(label: str) -> str:
    """Why a name is not called here, as far as the hints of its required parameters say so; else nothing."""
    try:
        parameters = inspect.signature(function_of(label)).parameters.values()
    except (ValueError, TypeError):
        return ""
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    hints = [str(p.annotation) for p in needed]
    if any(_OF_RANKS.search(hint) for hint in hints):
        return _RANKS
    return _TENSORS if hints and all(_OF_TENSORS.search(hint) for hint in hints) else ""


def function_of(label: str) -> Callable[..., Any]:
    room, _, name = label.rpartition(".")
    return getattr(importlib.import_module(f"course_lib.{room}"), name)
