"""COSMIC's presets as data: the settings of the paper, and those of the authors' published program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A preset lists every parameter it depends on, so that it does not change with the defaults.
PAPER: Mapping[str, Any] = {
    "confident": 0.1,
    "stored": "plain",
    "shots": 8,
    "aux_shots": 8,
    "centre": "attention",
    "aux_centre": "mean",
    "attention_beta": 5.5,
    "text_slot": False,
    "aux_label": "clip",
    "aux_cache": False,
    "unit_aux_centres": True,
    "graph": "threshold",
    "threshold": 0.85,
    "aux_threshold": 0.2,
    "growth": 1e-5,
    "order": 2,
    "common": 1,
    "rebuild": "always",
    "ratio": 0.2,
    "rounding": "ceil",
    "cosine": True,
    "score": "softmax",
    "empty_scores": False,
    "fusion": "fixed",
    "weights": (1.0, 1.0, 1.0),
}
OFFICIAL: Mapping[str, Any] = {
    "confident": 0.1,
    "stored": "confident",
    "shots": 8,
    "aux_shots": 8,
    "centre": "attention",
    "aux_centre": "mean",
    "attention_beta": 5.5,
    "text_slot": True,
    "aux_label": "joint",
    "aux_cache": True,
    "unit_aux_centres": False,
    "graph": "degree",
    "degree": 4.0,
    "aux_degree": 5.0,
    "order": 2,
    "common": 2,
    "rebuild": "scheduled",
    "rebuild_every": 100,
    "ratio": 0.2,
    "rounding": "floor",
    "cosine": False,
    "score": "exponential",
    "alpha": 2.0,
    "beta": 5.0,
    "empty_scores": True,
    "fusion": "fixed",
    "weights": (1.0, 1.0, 1.0),
}
