"""State of the process that a function may change and not restore: switches, hooks, random numbers, environment.

A run begins with what a fresh rank has, whatever the call before it did. That holds for random numbers too: a function
that does not seed draws the same numbers in every run. Cells of ``%%ranks`` are a notebook within the notebook: what
one of them sets lasts for the next, and is put aside while a function runs.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from course_lib.cluster.state.builtin_names import BuiltinNames
from course_lib.cluster.state.random_state import random_states
from course_lib.cluster.state.setting import Setting
from course_lib.cluster.state.settings_of_python import settings_of_python
from course_lib.cluster.state.settings_of_pytorch import settings_of_pytorch
from course_lib.cluster.state.settings_of_system import settings_of_system

__all__ = ["ProcessState"]


class ProcessState:
    """In the rank: remembers what a fresh rank has, and what the cells have made of it.

    ``without`` names settings to leave alone, where somebody else looks after them.
    """

    def __init__(self, *, without: Collection[str] = ()) -> None:
        self._builtins, self._builtins_of_cells = BuiltinNames(), dict[str, Any]()
        self._settings = tuple(setting for setting in _settings() if setting.name not in without)
        self._getters = [setting.get for setting in self._settings]
        self._base = self._capture()
        self._of_cells: dict[str, Any] | None = None
        self._random = random_states()
        self._random_of_cells = self._random
        self._in_cells, self._cell_begins, self._is_restored = False, False, True
        self._lasting: tuple[str, ...] = ()  # what the cells have set, as far as it is to be told

    def rebase(self) -> None:
        """The notebook has given this rank another folder, path and environment: these are the ones to keep."""
        now = {setting.name: setting.get() for setting in self._settings if setting.name in _OF_THE_NOTEBOOK}
        self._base |= now
        if self._of_cells is not None:
            self._of_cells |= now

    def enter_run(self) -> bool:
        """A function is about to run: what the cells have set waits aside. True where there were cells."""
        was_in_cells, self._in_cells = self._in_cells, False
        if was_in_cells:
            self._of_cells, self._random_of_cells = self._capture(), random_states()
            self._lasting = self._restore(self._base)
        for state in self._random:  # to put them costs less than to look whether they have changed
            state.restore()
        return was_in_cells

    def enter_cells(self) -> None:
        """A cell is about to run: where the last one left off."""
        if not self._in_cells:
            self._restore(self._of_cells or self._base)
            for state in self._random_of_cells:
                state.restore()
        self._in_cells = self._cell_begins = True
        self._builtins.restore(self._builtins_of_cells)

    def tidy(self) -> tuple[str, ...]:
        """After a call: put back what a function has changed, and say what that was. Cells keep theirs.

        Python's own names are put back after a cell too, until the next one: our own code needs them.
        """
        found = self._builtins.restore_originals()
        if self._in_cells:
            if self._cell_begins:
                self._builtins_of_cells, self._cell_begins = found, False
            return ()
        return (*self._builtins.in_words(found), *self._restore(self._base))

    @property
    def is_restored(self) -> bool:
        """Whether everything could be put back so far."""
        return self._is_restored

    def expect_restored(self) -> None:
        """Raise where something that the cells have left cannot be put aside for a function."""
        if not self._is_restored:
            raise RuntimeError(
                "the cells of this rank have left something that cannot be put aside for a function: they "
                f"{', '.join(self._lasting) or 'left it'}. Put it back in a cell (leave the block that was entered), "
                "or begin with new ranks: cluster.renew()"
            )

    def _capture(self) -> dict[str, Any]:
        return {setting.name: setting.get() for setting in self._settings}

    def _restore(self, wanted: dict[str, Any]) -> tuple[str, ...]:
        try:
            if [get() for get in self._getters] == list(wanted.values()):  # as nearly always
                return ()
        except Exception:  # one cannot be read, or not be compared: one by one
            pass
        lines = []
        for setting in self._settings:
            what = ""
            try:
                now = setting.get()
                if now is wanted[setting.name] or now == wanted[setting.name]:
                    continue
                what = setting.describe(now)
                setting.restore(wanted[setting.name])
            except Exception:  # the process is not what it was, and cannot be made so
                self._is_restored = False
                what = what or setting.name
            if what:
                lines.append(f"left {what}")
        return tuple(lines)


_OF_THE_NOTEBOOK = ("the environment", "the working folder", "sys.path")


def _settings() -> tuple[Setting, ...]:
    return (*settings_of_pytorch(), *settings_of_python(), *settings_of_system())
