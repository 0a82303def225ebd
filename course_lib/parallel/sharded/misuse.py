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
    "torch.nn.utils.clip_grad_norm_ would clip by the norm of the rows that this rank keeps, every rank by another. "
    "Use clip_gradients(model, max_norm) of course_lib.parallel.sharded, between backward() and step()."
)
COPIED = (
    "a sharded model cannot be copied or pickled (copy, deepcopy, torch.save of the model itself): its hooks would go "
    "on filling the original, and a file would hold the rows of one rank. Save full_state_dict(), which is that of "
    "the plain model, or use save_sharded; for a second model make the plain one anew, wrap it, and give it "
    "load_full_state_dict(first.full_state_dict())."
)
REPLACED = (
    "{name} is not the shard any more that this rank kept: something has replaced it, as model.to() does between some "
    "devices, and load_state_dict(assign=True). Move and convert a model first, and shard it then."
)
ADDED = (
    "{name} was added to a module of {unit} after the model was sharded: its gradient would stay on this rank. Add "
    "parameters first, and shard the model then."
)
MISSING = (
    "{names} got no gradient in this backward, on this rank. If another rank has one, ranks would not agree about it. "
    "Use every parameter in the loss, or pass find_unused_parameters=True."
)
ASKED_FOR_SHARDS = (
    "this backward was asked for gradients of single parameters of {unit}, by autograd.grad or backward(inputs=...). "
    "Those of a sharded model come by messages, of a unit at a time, into .grad: call backward() and read .grad. "
    "Gradients of inputs alone can be asked for."
)
CREATE_GRAPH = (
    "create_graph=True does not work: a backward through this backward would need the weights whole once more, and "
    "they are let go. Differentiate twice by the plain model, on a batch of its own."
)
OTHER_UNITS = (
    "ranks have used different units since they last agreed, or in another order; this one: {passed}. All ranks take "
    "part in every all-gather, and the next one in line is taken for the same unit: what was computed mixes rows of "
    "different weights. Call the same units in the same order on all ranks; where a rank does not need one, "
    "multiply its output by 0."
)
