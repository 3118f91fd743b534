"""Classifier: encoders, classes, a method and its state behind one call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypedDict, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cosmic_tta.core.errors import ImageError, InputError
from cosmic_tta.core.method import Method
from cosmic_tta.core.types import Prediction, Sample, Task
from cosmic_tta.data.images.augment import RandomViews
from cosmic_tta.data.images.decode import MAX_PIXELS, Source, as_rgb, open_image
from cosmic_tta.data.prompts import class_sentences
from cosmic_tta.encoders import ClipEncoder, Encoder, make_clip, make_encoder
from cosmic_tta.features.class_texts import text_features
from cosmic_tta.features.text_towers import attach_task_tower, needs_prompt_tower
from cosmic_tta.methods import make_method
from cosmic_tta.sessions.state_file import load, save

ImageInput = Source | Image.Image | NDArray[np.uint8]
DEFAULT_CLIP, DEFAULT_AUX = "mini:clip", "mini:dino"
DEFAULT_TEMPLATES = ("a photo of a {}.",)


class ClassScore(TypedDict):
    """One class and its probability.

    Example:
        >>> from cosmic_tta.classifier import ClassScore
        >>> ClassScore(label="cat", score=0.9)
        {'label': 'cat', 'score': 0.9}
    """

    label: str
    score: float


UNKNOWN = "unknown"  # the answer for an image that is of none of the classes


class Classifier:
    """Classifies images and adapts to them.

    Each image enters the memory of the method and is then scored. Images are encoded one by one, so that an answer
    depends on the images before it and not on how calls group them.

    Args:
        classes: names of the classes.
        clip: a CLIP-like encoder or its name (`cosmic encoders`). Default: the embedded mini model.
        aux: a self-supervised encoder or its name; None for none. Default: the embedded one if `clip` is embedded
            too, else none.
        method: a method or its name (`cosmic methods`).
        templates: sentences with `{}` in place of the class name.
        descriptions: more sentences per class.
        views: number of views per image; the first one is the plain image.
        seed: of the views.
        max_pixels: larger images are refused before they are decoded.
        unknown: answers `unknown` first where `Prediction.unknown` is above this number, for example 0.5; None never.

    Raises:
        InputError: no classes, a template without `{}`, a class name that the mini model does not know, or a threshold
            `unknown` that is not from 0 to 1.
        UnknownNameError: no encoder or method has that name.

    Example:
        >>> from cosmic_tta import Classifier
        >>> from cosmic_tta.data.datasets.embedded import photographs
        >>> images = [item.read() for item in photographs().items[:3]]
        >>> classify = Classifier(["cat", "dog", "ship"])
        >>> [len(scores) for scores in classify(images, top=2)]
        [2, 2, 2]
        >>> sorted(classify(images[0], top=1)[0])
        ['label', 'score']
        >>> classify.state.seen
        4
    """

    def __init__(
        self,
        classes: Sequence[str],
        *,
        clip: str | ClipEncoder = DEFAULT_CLIP,
        aux: str | Encoder | None = "",
        method: str | Method[Any] = "bayes_means",
        templates: Sequence[str] = DEFAULT_TEMPLATES,
        descriptions: Mapping[str, Sequence[str]] | None = None,
        views: int = 1,
        seed: int = 0,
        max_pixels: int = MAX_PIXELS,
        unknown: float | None = None,
    ) -> None:
        if unknown is not None and not 0 <= unknown <= 1:
            raise InputError(f"unknown must be a number from 0 to 1, or None; given {unknown!r}.")
        if unknown is not None and UNKNOWN in classes:
            raise InputError(f"a class is named {UNKNOWN!r}, which is the answer for images of no class; rename it.")
        self.unknown = unknown
        if aux == "":
            aux = DEFAULT_AUX if clip == DEFAULT_CLIP else None
        self.views, self.max_pixels = RandomViews(views, seed), max_pixels
        self.method: Method[Any] = make_method(method) if isinstance(method, str) else method
        self.clip = make_clip(clip) if isinstance(clip, str) else clip
        self.aux = make_encoder(aux, kind="image") if isinstance(aux, str) else aux
        texts = class_sentences(classes, templates, descriptions)
        self.task = Task(
            tuple(classes),
            text_features(self.clip, texts),
            self.clip.logit_scale,
            None if self.aux is None else self.aux.dim,
            self.clip.name,
            "" if self.aux is None else self.aux.name,
        )
        if needs_prompt_tower(self.method):
            self.task = attach_task_tower(self.task)
        self.state = self.method.init(self.task)

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, images: ImageInput, *, learn: bool = True, top: int | None = None
    ) -> list[ClassScore]: ...  # the overlap: a string is one image, and a sequence of strings
    @overload
    def __call__(
        self, images: Sequence[ImageInput], *, learn: bool = True, top: int | None = None
    ) -> list[list[ClassScore]]: ...

    def __call__(self, images: Any, *, learn: bool = True, top: int | None = None) -> Any:
        """Classify one image or several.

        Args:
            images: a path, the bytes of a file, a Pillow image or a uint8 array [height, width, 3]; or a list of
                these.
            learn: whether to learn from the images.
            top: number of classes to return; None for all.

        Returns:
            Classes with their probabilities, the most probable first: a list for one image, a list of lists for
            several.

        Raises:
            ImageError: an image cannot be read; nothing was learned.
            InputError: an argument is no image.
        """
        if _is_single_image(images):
            return self.class_scores(self.predict(self.sample(images), learn=learn), top)
        samples = [self.sample(image) for image in images]  # all are read before any is learned from
        return [self.class_scores(self.predict(sample, learn=learn), top) for sample in samples]

    def sample(self, image: ImageInput) -> Sample:
        """Encode one image."""
        decoded, key = self._decoded(image)
        clip = self.clip.encode(self.views.of(decoded, key, self.clip.preprocessing))
        if self.aux is None:
            return Sample(clip)
        return Sample(clip, self.aux.encode(self.aux.preprocessing.pixels(decoded)[None])[0])

    def predict(self, sample: Sample, *, learn: bool = True) -> Prediction:
        """Score an encoded image, and learn from it if `learn` is set."""
        return self.method.step(self.state, sample) if learn else self.method.peek(self.state, sample)

    def class_scores(self, prediction: Prediction, top: int | None = None) -> list[ClassScore]:
        """Return the classes of a prediction with their probabilities, the most probable first.

        Before them stands `unknown` if the image is rejected.
        """
        order = np.argsort(-prediction.scores, kind="stable")
        found: list[ClassScore] = [
            {"label": self.task.class_names[k], "score": float(prediction.scores[k])} for k in order
        ]
        if self.unknown is not None and prediction.unknown > self.unknown:
            found.insert(0, {"label": UNKNOWN, "score": prediction.unknown})
        return found[:top]

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the state of the method to a file; see `cosmic_tta.sessions.save`."""
        save(file, self.method, self.state)

    def load(self, file: str | os.PathLike[str]) -> None:
        """Load a state that `save` wrote with the same method, classes and encoders."""
        self.state = load(file, self.method, self.task)

    def _decoded(self, image: ImageInput) -> tuple[Image.Image, str]:
        """Return an image in RGB, and a key that depends on its content alone."""
        if isinstance(image, (str, os.PathLike)):
            name = os.fspath(image)
            try:
                image = Path(image).read_bytes()
            except OSError as error:
                raise ImageError(f"{name}: cannot be read: {error.strerror}.") from error
            return open_image(image, max_pixels=self.max_pixels, name=name), _digest(image)
        if isinstance(image, bytes):
            return open_image(image, max_pixels=self.max_pixels), _digest(image)
        if isinstance(image, Image.Image) and image.width and image.height:
            return as_rgb(image), _digest(image.tobytes())
        if isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.shape[2:] == (3,) and image.size:
            return Image.fromarray(image), _digest(image.tobytes())
        form = f"{image.dtype} {list(image.shape)}" if isinstance(image, np.ndarray) else type(image).__name__
        raise InputError(
            f"an image is a path, bytes, a Pillow image or an array uint8 [height, width, 3]; given {form}."
        )


def _is_single_image(images: Any) -> bool:
    return isinstance(images, (str, bytes, os.PathLike, Image.Image)) or (
        isinstance(images, np.ndarray) and images.ndim != 4
    )


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
