"""Changed builtins (``print``, ``len``): a function may replace them for all of its process.

Our code needs them too, also the code that puts things back. So they come first, by a function that uses none of them.
"""

from __future__ import annotations

import builtins
from typing import Any

__all__ = ["BuiltinNames"]

_NAMES = vars(builtins)


class BuiltinNames:
    """What they were when this was made."""

    def __init__(self) -> None:
        self._clean = _NAMES.copy()

    def restore_originals(self) -> dict[str, Any]:
        """Put back the originals; all names as they were until now, or nothing where none had changed.

        Only methods of dictionaries are called here: whatever else has a name may be another now.
        """
        if self._clean == _NAMES:
            return {}
        found = _NAMES.copy()
        _NAMES.update(self._clean)
        for name in found:
            if name not in self._clean:
                del _NAMES[name]
        return found

    def restore(self, names: dict[str, Any]) -> None:
        """Have these stand there again, an answer of ``restore_originals``."""
        if names:
            _NAMES.update(names)
            for name in self._clean:
                if name not in names:
                    _NAMES.pop(name, None)

    def in_words(self, found: dict[str, Any]) -> tuple[str, ...]:
        """ "left builtins.print replaced by its own"; ``_`` is a shell's last result."""
        changed = [name for name in sorted(found) if name != "_" and found[name] is not self._clean.get(name, found)]
        gone = [name for name in sorted(self._clean) if found and name not in found]
        lines = [f"left {_some(changed)} replaced by its own"] if changed else []
        return (*lines, *([f"left {_some(gone)} taken away"] if gone else []))


def _some(names: list[str]) -> str:
    return ", ".join(f"builtins.{name}" for name in names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")
