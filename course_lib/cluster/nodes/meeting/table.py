"""What the ranks of a team have said to find each other, and who waits for what. In the notebook's process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["MeetingTable"]

Reply = Callable[[Any], None]


class MeetingTable:
    """Keys and values as in PyTorch's stores. A question is answered at once, or when what it waits for is there."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._waiting: list[tuple[str, tuple[str, ...], Reply]] = []
        self._lock = threading.Lock()

    def ask(self, what: str, details: tuple[Any, ...], reply: Reply) -> None:
        """Do ``what``, a method of ``LineStore``, and give ``reply`` its result, now or later, by whichever thread.

        What cannot be done is answered by a ``RuntimeError``.
        """
        with self._lock:
            if what in ("get", "multi_get", "wait"):
                self._waiting.append((what, details, reply))
                answers = []
            else:
                answers = [(reply, self._done(what, details))]
            ready = [one for one in self._waiting if self._check(*one[1])]
            self._waiting = [one for one in self._waiting if one not in ready]
            answers += [(to, self._value(asked, keys)) for asked, keys, to in ready]
        for to, value in answers:
            to(value)

    def _value(self, asked: str, keys: tuple[str, ...]) -> Any:
        values = [self._values[key] for key in keys]
        return {"get": values[:1], "multi_get": [values]}.get(asked, [None])[0]

    def _done(self, what: str, details: tuple[Any, ...]) -> Any:
        try:
            return getattr(self, f"_{what}")(*details)
        except Exception as error:
            return RuntimeError(f"{what} of {details[0]!r}: {error}")

    def _set(self, key: str, value: bytes) -> None:
        self._values[key] = value

    def _check(self, *keys: str) -> bool:
        return all(key in self._values for key in keys)

    def _add(self, key: str, number: int) -> int:
        total = int(self._values.get(key, b"0")) + number
        self._values[key] = str(total).encode()
        return total

    def _compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """What the value is then; a key without one is set where nothing was expected."""
        if self._values.get(key, b"") != expected:
            return self._values.get(key, expected)
        self._values[key] = desired
        return desired

    def _delete_key(self, key: str) -> bool:
        return self._values.pop(key, None) is not None

    def _num_keys(self) -> int:
        return len(self._values)
