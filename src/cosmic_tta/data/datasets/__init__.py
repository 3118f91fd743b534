"""Data sets: the fifteen of the COSMIC paper, and images of your own in folders, tables and archives.

The sources, from most to least specific: `registry`, `published`, `layouts` and `mat_layouts` read published data
sets; `image_folder`, `tabular`, `arrow` and `webdataset` read anyone's; `embedded` has the photographs of the package.
`open_source` recognises which of them a path is.
"""

from cosmic_tta.data.datasets.base import Dataset, Item
from cosmic_tta.data.datasets.few_shot import few_shot
from cosmic_tta.data.datasets.open_source import load_dataset, open_source
from cosmic_tta.data.datasets.registry import CATALOGUE, published

__all__ = ["CATALOGUE", "Dataset", "Item", "few_shot", "load_dataset", "open_source", "published"]
