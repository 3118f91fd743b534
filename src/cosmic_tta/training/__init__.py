"""Few-shot training of methods, and the files of its checkpoints.

Imports `core`, `features` and `methods`. `sessions`, `evaluation` and the packages above may import it.
"""

from cosmic_tta.methods.components.training import Checkpoint
from cosmic_tta.training.checkpoint_file import read as read_checkpoint
from cosmic_tta.training.checkpoint_file import write as write_checkpoint
from cosmic_tta.training.trainer import EpochResult, TrainingConfig, draw_shots, train, train_to_end

__all__ = [
    "Checkpoint",
    "EpochResult",
    "TrainingConfig",
    "draw_shots",
    "read_checkpoint",
    "train",
    "train_to_end",
    "write_checkpoint",
]
