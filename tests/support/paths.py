"""Folders that tests read."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # the repository
SUPPORT = Path(__file__).resolve().parent
SHARED = ROOT.parent / "shared"  # recorded answers and real packs, where they are at hand
