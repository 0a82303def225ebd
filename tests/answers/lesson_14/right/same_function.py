"""Mutants of lesson 14's solutions that are right answers, too: why nobody can tell them from the solution."""

from __future__ import annotations

__all__ = ["SAME_FUNCTION"]

_GRADIENTS = "A pipeline's step switches gradients on for itself, and after a call the ranks have theirs on again."
_ONCE = "It is called once on a rank in an attempt, and the next attempt sends the function anew."
_ORDER = "Neither line reads what the other makes."

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "14.one": {
        "7: `def step(self):` after `def whole_state(self):`": _ORDER,
        "__init__: gradients switched off": _GRADIENTS,
        "__init__: its first result for ever": _ONCE,
        "step: gradients switched off": _GRADIENTS,
        "whole_state: gradients switched off": _GRADIENTS,
        "whole_state: its first result for ever": _ONCE,
    },
    "14.two": {
        "assemble_second: gradients switched off": _GRADIENTS,
        "assemble_second: its first result for ever": _ONCE,
    },
    "14.three": {
        "assemble_third: gradients switched off": _GRADIENTS,
        "assemble_third: its first result for ever": _ONCE,
    },
}
