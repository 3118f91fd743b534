"""Images, data sets, class names and prompts: everything before an encoder.

This package imports `core`. All packages but `core` and `methods` may import it.

Examples:
    >>> from cosmic_tta.data import class_sentences, open_source
    >>> dataset = open_source("mini")  # the photographs of the package
    >>> len(dataset), dataset.class_names[:3]
    (2000, ('airplane', 'automobile', 'bird'))
    >>> class_sentences(dataset.class_names, dataset.templates)[0]
    ['a photo of a airplane.']
"""

from cosmic_tta.data.class_names import ClassNames, read_class_names
from cosmic_tta.data.datasets import CATALOGUE, Dataset, Item, few_shot, load_dataset, open_source, published
from cosmic_tta.data.images.augment import GeneratedViews, RandomViews
from cosmic_tta.data.images.corrupt import Corruption
from cosmic_tta.data.images.decode import open_image
from cosmic_tta.data.images.preprocess import Preprocessing
from cosmic_tta.data.prompts import class_sentences, find_templates, read_descriptions

__all__ = [
    "CATALOGUE",
    "ClassNames",
    "Corruption",
    "Dataset",
    "GeneratedViews",
    "Item",
    "Preprocessing",
    "RandomViews",
    "class_sentences",
    "few_shot",
    "find_templates",
    "load_dataset",
    "open_image",
    "open_source",
    "published",
    "read_class_names",
    "read_descriptions",
]
