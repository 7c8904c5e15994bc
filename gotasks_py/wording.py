"""Saying things to people."""

from __future__ import annotations

from datetime import timedelta


def span(value: timedelta) -> str:
    """Show a length of time in its largest unit."""
    seconds = value.total_seconds()
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s" if abs(seconds) >= 1 or not seconds else f"{seconds * 1000:.0f} ms"
