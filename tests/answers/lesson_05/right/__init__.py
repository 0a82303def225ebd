"""Right answers of other styles, which the judges of this lesson accept, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from answers.lesson_05.right import clip, layer, load, optimizer, orders, unit, wrapped

__all__ = ["MEANS_NOTHING", "RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {
    "05.optimizer": optimizer.ANSWERS,
    "05.unit": unit.UNITS,
    "05.layer": layer.ANSWERS,
    "05.order": orders.ALL,
    "05.clip": clip.ANSWERS,
    "05.load": load.ANSWERS,
    "05.wrapped": wrapped.ANSWERS,
}

MEANS_NOTHING: dict[str, dict[str, str]] = {
    "05.load": load.MEANS_NOTHING,
}

_CPU = "On ranks that compute on the CPU it is there already; where ranks have GPUs, the check refuses it."
_EPSILON = "It is there to divide by no zero; a tensor divides by zero as well, and the clamp makes 1 of what comes."
_SWITCHES_BACK = "Autograd turns gradients off for it, and puts the switch back itself."

_A_FLAG = "What is limited is bytes, with room for a flag or two; a step may send several messages, and wait for all."
_OWN_THREAD = "The thread is the course's own, which the report of what is left leaves out; a person's is told."

MEANS_NOTHING: dict[str, dict[str, str]] = {
    "05.optimizer": {
        "fails-on-one-rank": "Nothing is shared out there, and the pages have four ranks.",
        "an-extra-all-reduce": _A_FLAG,
        "an-extra-barrier": _A_FLAG,
        "an-extra-broadcast": _A_FLAG,
        "leaves-a-thread": _OWN_THREAD,
    },
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "05.optimizer": {
        "13: `gradients = packed([parameter.grad for parameter in self.parameters], self.me.world_size)` after "
        "`self.own.grad = torch.empty_like(self.own)`": "Neither line reads what the other makes.",
        "16: `self.own.grad /= self.me.world_size` -> a new name for a new value": "AdamW reads `self.own.grad`; a new "
        "tensor there is as good as the old one.",
        "17: `self.adamw.step()` after `weights = torch.empty_like(gradients)`": "AdamW changes neither size "
        "nor type of what is read there.",
        "19: `self.own.detach()` -> `self.own`": "Under `no_grad` an all-gather reads the same numbers of both.",
        "step: gradients switched off": "`@torch.no_grad()` turns them off as well, and puts the switch back itself.",
    },
    "05.unit": {
        "forward: gradients switched off": _SWITCHES_BACK,
        "backward: gradients switched off": _SWITCHES_BACK,
        "2: `dist.all_gather(list(weight.chunk(dist.get_world_size())), shard)` after "
        "`ctx.save_for_backward(x, shard)`": "What is saved is what came, and nothing writes to it.",
        "14: `grad_x = grad @ weight` after `rows = torch.empty_like(shard)`": "Neither line reads what the "
        "other makes.",
    },
    "05.order": orders.SAME,
    "05.load": load.SAME,
    "05.clip": {
        "2: `torch.zeros((), device=me.device)` -> `torch.zeros(())`": _CPU,
        "5: `norm + 1e-06` -> `norm`": _EPSILON,
        "5: `1e-06` -> `2e-06`": _EPSILON,
        "5: `norm + 1e-06` -> `norm - 1e-06`": "Only a norm between zero and a millionth would tell.",
        "clip: gradients switched off": "It runs under `torch.no_grad()`, which puts the switch back.",
    },
}
