"""Folders that tests read."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # the repository
SUPPORT = Path(__file__).resolve().parent
SHARED = ROOT.parent / "shared"  # golden/, packs/ and paper/, where they are at hand
