"""What goes wrong with a sharded model, and the sentence for each. See ``parallel/data/ddp_errors.py`` for those of all
wrappers."""

from __future__ import annotations

__all__ = [
    "ADDED",
    "ASKED_FOR_SHARDS",
    "AVERAGED_BY",
    "CLIPPED",
    "COPIED",
    "CREATE_GRAPH",
    "INSTEAD",
    "MISSING",
    "OTHER_UNITS",
    "REPLACED",
]

AVERAGED_BY = "FullySharded(me, module, group=..., replicas=...), which averages by itself"
INSTEAD = (
    "Call the model, or the unit, and not a part of it; or enter `with unsharded(model):`, where all weights are "
    "whole. The rows themselves, for an optimizer say, are those of model.parameters() and named_parameters()."
)
CLIPPED = (
    "torch.nn.utils.clip_grad_norm_ would clip by the norm of this rank's rows, and each rank has another norm. Use "
    "clip_gradients(model, max_norm) of course_lib.parallel.sharded, between backward() and step()."
)
COPIED = (
    "a sharded model cannot be copied or pickled (copy, deepcopy, torch.save of the model itself). The copy's hooks "
    "would fill the original, and a file would hold one rank's rows. Save full_state_dict(), which is the plain "
    "model's, or use save_sharded. For a second model wrap a new plain one, and call its "
    "load_full_state_dict(first.full_state_dict())."
)
REPLACED = (
    "{name} is no longer the shard that this rank kept. Something has replaced it, as model.to() does between some "
    "devices, or load_state_dict(assign=True). Move and convert a model before you shard it."
)
ADDED = (
    "{name} was added to a module of {unit} after the model was sharded: its gradient would stay on this rank. Add "
    "parameters before you shard the model."
)
MISSING = (
    "{names} got no gradient in this backward, on this rank. If another rank has one, the ranks would disagree about "
    "it. Use every parameter in the loss, or pass find_unused_parameters=True."
)
ASKED_FOR_SHARDS = (
    "autograd.grad or backward(inputs=...) asked for gradients of single parameters of {unit}. A sharded model gets "
    "its gradients by messages, one unit at a time, into .grad. Call backward() and read .grad. You can ask for "
    "gradients of inputs alone."
)
CREATE_GRAPH = (
    "create_graph=True does not work: a backward through this backward would need whole weights again, and they are "
    "freed. Differentiate the plain model twice, on a batch of its own."
)
OTHER_UNITS = (
    "since the last check ranks have used different units, or another order of them; this rank: {passed}. All ranks "
    "take part in every all-gather, in order. So the results mix rows of different weights. Call the same units in "
    "the same order on all ranks. If a rank does not need a unit, multiply its output by 0."
)
