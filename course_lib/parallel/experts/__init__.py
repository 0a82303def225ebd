"""Lesson 10, experts: layers of which each token uses a few, and each rank holds some.

Read ``router.py`` (which experts a token goes to), ``capacity.py`` (and which it misses when they are full),
``balance.py`` (how they are kept equally busy), ``feed_forward.py`` (the experts), ``layer.py`` (all of it on one
device); then ``exchange.py`` (rows that travel), ``dispatch.py`` (there and back) and ``expert_parallel.py``, which
puts them together, as ``given_experts.py`` does for experts of any kind. ``gradients.py`` says who averages what,
``paced.py`` shows what imbalance costs, ``in_flight.py`` starts an exchange and waits later. Then two rooms:
``once/`` sends a row once to each rank or node, for many small experts, and ``overlap/`` lets exchanges hide behind
another micro-batch.

Production code uses Megatron-LM, torchtitan or DeepEP; PyTorch itself has the grouped matrix product and
``all_to_all_single``, and no such layer.
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "DeduplicatedExperts": "once.once_parallel",
    "Dispatch": "dispatch",
    "ExpertParallel": "expert_parallel",
    "Experts": "feed_forward",
    "GivenExperts": "given_experts",
    "MixtureOfExperts": "layer",
    "NodeGroups": "once.once_parallel",
    "PacedExperts": "paced",
    "PacedStep": "overlap.paced_step",
    "PendingExchange": "in_flight",
    "Routing": "router",
    "SigmoidRouter": "once.sigmoid_router",
    "SteppedLayer": "overlap.two_micro_batches",
    "TopKRouter": "router",
    "average_gradients": "gradients",
    "count_choices": "balance",
    "exchange_rows": "exchange",
    "expert_capacity": "capacity",
    "hop": "once.deduplicated",
    "interleaved": "overlap.two_micro_batches",
    "load_balancing_loss": "balance",
    "node_limited_choice": "once.node_limited",
    "num_behind_computing": "in_flight",
    "once_for_each": "once.deduplicated",
    "one_after_the_other": "overlap.two_micro_batches",
    "run_experts": "paced",
    "start_exchange": "in_flight",
    "update_selection_bias": "balance",
    "within_capacity": "capacity",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
