"""03.load: saved weights whose names may carry a wrapper's prefix."""

from __future__ import annotations

from answer_table import Row


def names_compared_first(model, saved):
    if saved.keys() != model.state_dict().keys():
        saved = {name.removeprefix("module."): tensor for name, tensor in saved.items()}
    model.load_state_dict(saved)


def strips_where_a_name_is_unknown(model, saved):
    own = model.state_dict().keys()
    if any(name not in own for name in saved):
        saved = {name.removeprefix("module."): tensor for name, tensor in saved.items()}
    model.load_state_dict(saved)


def keeps_what_was_saved(model, saved, seen=[]):  # noqa: B006
    seen.extend(saved.values())
    names_compared_first(model, saved)


def new_gradients(model, saved):
    names_compared_first(model, saved)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad = parameter.grad.clone()


ROWS = [
    Row(answer=names_compared_first, verdict="passed", why="the definition"),
    Row(answer=strips_where_a_name_is_unknown, verdict="passed", why="a name that is unknown decides, as in PyTorch"),
    Row(
        answer=keeps_what_was_saved,
        verdict="not yet",
        words=("still holds a tensor that it was given",),
        why="the file stays in memory beside the model",
    ),
    Row(
        answer=new_gradients,
        verdict="not yet",
        words=("the .grad of a parameter is another tensor",),
        why="whoever holds the gradients, as an optimizer's buckets do, holds old ones",
    ),
]
