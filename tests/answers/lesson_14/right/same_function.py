"""Mutants of lesson 14's solutions that are right answers, too: why nobody can tell them from the solution."""

from __future__ import annotations

__all__ = ["SAME_FUNCTION"]

_GRADIENTS = "A pipeline's step switches gradients on for itself, and after a call the ranks have theirs on again."
_ONCE = "It is called once on a rank in an attempt, and the next attempt sends the function anew."
_ORDER = "Neither line reads what the other makes."

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "14.one": {
        "7: `def step(self):` after `def whole_state(self):`": _ORDER,
        "1: `self.mesh = MESH` -> nothing": "A run's mesh names it in the report; nothing that is judged hangs on it.",
        "1: `self.mesh = MESH` after `self.model = OnMesh(me, MESH, task.model())`": _ORDER,
        "3: `self.optimizer = task.optimizer(self.model.parameters())` after "
        "`self.mine = self.model.data.deal(task.tokens, task.targets)`": _ORDER,
        "__init__: gradients switched off": _GRADIENTS,
        "__init__: its first result for ever": _ONCE,
        "step: gradients switched off": _GRADIENTS,
        "whole_state: gradients switched off": _GRADIENTS,
        "whole_state: its first result for ever": _ONCE,
    },
    "14.two": {
        "1: `0` -> `1`": "The second mesh of the planner's table keeps to the memory and the budget, too.",
        "assemble_second: gradients switched off": _GRADIENTS,
        "assemble_second: its first result for ever": _ONCE,
    },
    "14.three": {
        "1: `blocks = third.job.config.num_layers` after "
        "`even = (plan.mesh for plan in wide if blocks % plan.mesh.size('pp') == 0)`": "A generator reads it only when "
        "it runs, which is later.",
        "assemble_third: gradients switched off": _GRADIENTS,
        "assemble_third: its first result for ever": _ONCE,
    },
}
