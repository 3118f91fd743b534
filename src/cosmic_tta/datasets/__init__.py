"""Data sets: the fifteen of the paper as rows of data, and anyone's own pictures, over a few kinds of loader."""

from cosmic_tta.datasets.base import Dataset, Item
from cosmic_tta.datasets.catalogue import CATALOGUE, published
from cosmic_tta.datasets.few_shot import few_shot
from cosmic_tta.datasets.sources import load_dataset, open_source

__all__ = ["CATALOGUE", "Dataset", "Item", "few_shot", "load_dataset", "open_source", "published"]
