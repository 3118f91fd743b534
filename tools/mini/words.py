"""The vocabulary of the embedded text tower, and the sentences that it is trained on."""

from __future__ import annotations

import torch
from photographs import CLASSES
from torch import Tensor

SYNONYMS = {
    "airplane": ("airplane", "plane", "aeroplane", "jet", "aircraft"),
    "automobile": ("automobile", "car"),
    "bird": ("bird",),
    "cat": ("cat", "kitten"),
    "deer": ("deer", "stag"),
    "dog": ("dog", "puppy"),
    "frog": ("frog", "toad"),
    "horse": ("horse", "pony"),
    "ship": ("ship", "boat", "vessel"),
    "truck": ("truck", "lorry"),
}
TEMPLATES = (
    "{}",
    "a {}",
    "the {}",
    "a photo of a {}",
    "a photo of the {}",
    "a photo of one {}",
    "a picture of a {}",
    "an image of a {}",
    "a small photo of a {}",
    "a large photo of the {}",
    "a bad photo of a {}",
    "a good photo of the {}",
    "a blurry photo of a {}",
    "a dark photo of the {}",
    "a bright photo of a {}",
    "a noisy photo of a {}",
    "a foggy photo of the {}",
    "a pixelated photo of a {}",
    "a low resolution photo of the {}",
    "a close up of a {}",
    "a photo of a small {}",
    "a photo of a large {}",
    "a photo of my {}",
    "this is a {}",
    "there is a {} in the scene",
    "itap of a {}",
    "art of the {}",
)
PLURALS = {"aircraft": "aircraft", "deer": "deer", "puppy": "puppies", "pony": "ponies", "lorry": "lorries"}
MAX_WORDS = 12


def vocabulary() -> list[str]:
    """Return every word; its index is its number, and index 0 is padding."""
    nouns = {form for group in SYNONYMS.values() for noun in group for form in forms(noun)}
    others = {word for template in TEMPLATES for word in template.replace("{}", "").split()}
    return ["", *sorted(nouns | others)]


def forms(noun: str) -> tuple[str, str]:
    """Return a noun and its plural."""
    return noun, PLURALS.get(noun, noun + "s")


def numbers(sentence: str, known: dict[str, int]) -> list[int]:
    """Return the numbers of a sentence's words, padded with zeros."""
    found = [known[word] for word in sentence.split()]
    return found + [0] * (MAX_WORDS - len(found))


def sample(known: dict[str, int], random: torch.Generator) -> Tensor:
    """Return a random sentence of each class: [10, MAX_WORDS]."""

    def one(choices: tuple[str, ...]) -> str:
        return choices[int(torch.randint(len(choices), (1,), generator=random))]

    rows = [numbers(one(TEMPLATES).format(one(forms(one(SYNONYMS[name])))), known) for name in CLASSES]
    return torch.tensor(rows)


def plain(known: dict[str, int]) -> Tensor:
    """Return the sentences for zero-shot accuracy: [10, MAX_WORDS]."""
    return torch.tensor([numbers(f"a photo of a {name}", known) for name in CLASSES])
