"""Feature packs: encoded data sets, how they are extracted, joined and read.

This package imports `core`, `data` and `encoders`. `training`, `sessions`, `evaluation` and all packages above them
may import it.

Examples:
    >>> from cosmic_tta.features import superclass_pack
    >>> superclass_pack(seed=0, images=100).summary
    '100 images, 20 classes, 8 views 128 wide, auxiliary features 96 wide, labels'
"""

from typing import TYPE_CHECKING, Any

from cosmic_tta.features.class_texts import text_features
from cosmic_tta.features.pack import FeaturePack, check_pack
from cosmic_tta.features.pack_ops import join, subset
from cosmic_tta.features.synthetic import superclass_pack

if TYPE_CHECKING:
    from cosmic_tta.features.extraction.extract import Extraction, extract

__all__ = [
    "Extraction",
    "FeaturePack",
    "check_pack",
    "extract",
    "join",
    "subset",
    "superclass_pack",
    "text_features",
]


def __getattr__(name: str) -> Any:
    """Import the extraction on demand: packs need NumPy alone, an extraction needs Pillow."""
    if name in ("Extraction", "extract"):
        from cosmic_tta.features.extraction import extract as module

        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
