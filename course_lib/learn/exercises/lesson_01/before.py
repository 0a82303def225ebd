"""What an answer met, and in words what it changed of that: a model, tensors, the switch of gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["Before", "changed_tensors"]


class Before:
    """A model as it was handed in. ``changes(...)`` says in words how it differs now; nothing: empty."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._modes = {name: module.training for name, module in model.named_modules()}
        self._learns = {name: p.requires_grad for name, p in model.named_parameters()}
        self._weights = {name: p.detach().clone() for name, p in model.named_parameters()}
        self._buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        self._grads = {name: _copy(p.grad) for name, p in model.named_parameters()}
        self._records = torch.is_grad_enabled()

    def changes(
        self, *, weights: bool = True, grads: bool = True, may_be_in_evaluation: bool = False
    ) -> list[str]:
        """Sentences on all that has changed, but for what the exercise lets an answer change."""
        told = [self._of_modes(may_be_in_evaluation), self._of_flags(), self._of_buffers()]
        told += [self._of_weights() if weights else "", self._of_grads() if grads else ""]
        if torch.is_grad_enabled() != self._records:
            now = "off" if self._records else "on"
            told.append(
                f"the recording of gradients was left switched {now}: whatever runs next finds it so; "
                "a `with` block puts it back"
            )
        return [sentence for sentence in told if sentence]

    def _of_modes(self, may_be_in_evaluation: bool) -> str:
        now = {name: module.training for name, module in self._model.named_modules()}
        if may_be_in_evaluation and not any(now.values()):
            return ""
        for name, was in self._modes.items():
            if now.get(name) != was:
                which = f"`{name}`" if name else "the model"
                return f"{which} was left in {_mode(not was)} mode; it came in {_mode(was)} mode"
        return ""

    def _of_flags(self) -> str:
        for name, parameter in self._model.named_parameters():
            if self._learns[name] != parameter.requires_grad:
                return f"`{name}` was left with requires_grad={parameter.requires_grad}; it came with {self._learns[name]}"
        return ""

    def _of_buffers(self) -> str:
        for name, buffer in self._model.named_buffers():
            if not _same(self._buffers[name], buffer):
                return f"the buffer `{name}` changed; a layer in training mode does that when it runs"
        return ""

    def _of_weights(self) -> str:
        for name, parameter in self._model.named_parameters():
            if not _same(self._weights[name], parameter):
                return f"the parameter `{name}` changed"
        return ""

    def _of_grads(self) -> str:
        for name, parameter in self._model.named_parameters():
            if not _same(self._grads[name], parameter.grad):
                return f"the `.grad` of `{name}` changed; nobody asked for it"
        return ""


def changed_tensors(before: Sequence[tuple[str, Tensor]], now: Sequence[Tensor]) -> str:
    """The first of these tensors that is not what it was, by its name; empty when all are."""
    for (name, was), tensor in zip(before, now, strict=True):
        if not _same(was, tensor):
            return f"{name} changed while your function ran; it belongs to the caller"
        if tensor.requires_grad and not was.requires_grad:
            return f"{name} was left with requires_grad=True"
    return ""


def _mode(training: bool) -> str:
    return "training" if training else "evaluation"


def _copy(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().clone()


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is None and other is None
    same_kind = (one.shape, one.dtype) == (other.shape, other.dtype)
    return same_kind and torch.equal(one.detach(), other.detach())
