"""Bytes and seconds as a person reads them: three digits and the unit that fits."""

from __future__ import annotations

from course_lib.base.checked import checked

__all__ = ["bytes_text", "time_text"]

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


@checked
def bytes_text(size_bytes: float) -> str:
    """``1536`` becomes ``"1.5 KiB"``; a KiB is 1024 bytes. Whole bytes stay whole."""
    size, power = float(size_bytes), 0
    while abs(size) >= 1023.5 and power < len(_BYTE_UNITS) - 1:
        size, power = size / 1024, power + 1
    digits = f"{size:.0f}" if power == 0 else _three_digits(size)
    return f"{digits} {_BYTE_UNITS[power]}"


@checked
def time_text(time_s: float) -> str:
    """``0.0021`` becomes ``"2.1 ms"``; below a microsecond it is given in ns."""
    for scale, unit in _TIME_UNITS:
        if abs(time_s) >= scale * 0.9995:
            return f"{_three_digits(time_s / scale)} {unit}"
    return f"{_three_digits(time_s * 1e9)} ns"


def _three_digits(value: float) -> str:
    """Three significant digits, without the trailing zeros that promise more than was asked."""
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
