"""The weights that a run begins with: its own draw, a file's, or torchvision's by their name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from .keeping import read_checkpoint
from .settings import SettingsError

__all__ = ["begin_with"]


def begin_with(model: nn.Module, weights: str, layers: int) -> str:
    """Load ``weights`` into a ResNet; returns a sentence for the log.

    The classifier is taken over where it has as many classes as this one, and is drawn anew otherwise.
    ``SettingsError`` where there are no such weights, or they do not fit.
    """
    path = Path(weights)
    state = read_checkpoint(path.read_bytes(), path) if path.is_file() else _of_torchvision(weights, layers)
    state = state.get("model", state)  # a file of an earlier run has more in it
    own = model.state_dict()
    head = [name for name in own if name.startswith("fc.")]
    is_new = any(name not in state or state[name].shape != own[name].shape for name in head)
    if is_new:
        state = {**state, **{name: own[name] for name in head}}
    for name, tensor in own.items():
        there = tuple(state[name].shape) if name in state else "nothing"
        if there != tuple(tensor.shape):
            raise SettingsError(
                f"--weights {weights} does not fit: {name} is {tuple(tensor.shape)} here, {there} there. "
                "--layers, --width and --image-size (64 and more, or less) must be those it was trained with."
            )
    model.load_state_dict({name: state[name] for name in own})
    return f"Begins with {weights}" + (", and a new classifier." if is_new else ".")


def _of_torchvision(name: str, layers: int) -> dict[str, Any]:
    try:
        from torchvision.models import get_model_weights
    except (ImportError, RuntimeError) as error:  # the second where it was built for another torch
        raise SettingsError(
            f"--weights {name}: there is no such file, and torchvision, which has weights by name, cannot be "
            f"imported ({error})."
        ) from error
    known = get_model_weights(f"resnet{layers}")
    if name not in known.__members__:
        raise SettingsError(
            f"--weights {name}: there is no such file, and torchvision has {', '.join(known.__members__)} for {layers} "
            "layers."
        )
    return dict(known[name].get_state_dict(progress=False))
