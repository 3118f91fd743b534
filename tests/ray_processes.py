"""The processes of a cluster that a test started, so that it can kill one of them and no other."""

from __future__ import annotations

from pathlib import Path


def descendants(process: int) -> list[int]:
    """All processes that a process started, and those that they started."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                told = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(told[1]), []).append(int(entry.name))
    found, rest = [], [process]
    while rest:
        children = parents.get(rest.pop(), [])
        found += children
        rest += children
    return found


def workers(process: int, doing: str = "") -> list[int]:
    """Those of them that are Ray's workers, at a task of this name."""
    named = {one: _title(one) for one in descendants(process)}
    return [one for one, title in named.items() if title.startswith("ray::") and doing in title]


def _title(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
