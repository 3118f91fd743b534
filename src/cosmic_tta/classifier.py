"""Classifier: encoders, classes, a method and what it has learned, behind one call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypedDict, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cosmic_tta.core import Method, Prediction, Sample, Task
from cosmic_tta.encoders import ClipEncoder, Encoder, make_clip, make_encoder
from cosmic_tta.errors import InputError, PictureError
from cosmic_tta.methods import make_method
from cosmic_tta.pictures import MAX_PIXELS, Source, as_rgb, open_picture
from cosmic_tta.prompts import class_texts, text_features
from cosmic_tta.snapshot import load, save
from cosmic_tta.towers import task_with_tower, wants_tower
from cosmic_tta.views import Views

Picture = Source | Image.Image | NDArray[np.uint8]
DEFAULT_CLIP, DEFAULT_AUX = "mini:clip", "mini:dino"
PLAIN = ("a photo of a {}.",)


class Answer(TypedDict):
    """One class and how probable it is."""

    label: str
    score: float


class Classifier:
    """Names what is on pictures, and adapts to them while it does.

    Each picture enters the method's memory and is then scored. A picture is encoded by itself, so that its answer
    depends on the pictures before it and on nothing else: not on how they were grouped into calls.

    Args:
        classes: names of the classes.
        clip: a CLIP-like encoder or its name (`cosmic encoders`); the embedded mini model unless told.
        aux: a self-supervised encoder beside it, or its name; None for none. Unless told, the embedded one, if `clip`
            is the embedded one too.
        method: a method or its name (`cosmic methods`).
        templates: sentences that put a class name in place of `{}`.
        descriptions: more sentences for each class.
        views: views of each picture; the first is the plain one.
        seed: of the views.
        max_pixels: larger pictures are refused before they are decoded.
    """

    def __init__(
        self,
        classes: Sequence[str],
        *,
        clip: str | ClipEncoder = DEFAULT_CLIP,
        aux: str | Encoder | None = "",
        method: str | Method[Any] = "bayes_means",
        templates: Sequence[str] = PLAIN,
        descriptions: Mapping[str, Sequence[str]] | None = None,
        views: int = 1,
        seed: int = 0,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        if aux == "":
            aux = DEFAULT_AUX if clip == DEFAULT_CLIP else None
        self.views, self.max_pixels = Views(views, seed), max_pixels
        self.method: Method[Any] = make_method(method) if isinstance(method, str) else method
        self.clip = make_clip(clip) if isinstance(clip, str) else clip
        self.aux = make_encoder(aux, kind="image") if isinstance(aux, str) else aux
        texts = class_texts(classes, templates, descriptions)
        self.task = Task(
            tuple(classes),
            text_features(self.clip, texts),
            self.clip.logit_scale,
            None if self.aux is None else self.aux.dim,
            self.clip.name,
            "" if self.aux is None else self.aux.name,
        )
        if wants_tower(self.method):
            self.task = task_with_tower(self.task)
        self.state = self.method.init(self.task)

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, pictures: Picture, *, learn: bool = True, top: int | None = None
    ) -> list[Answer]: ...  # a string is a sequence of strings too, and one picture
    @overload
    def __call__(
        self, pictures: Sequence[Picture], *, learn: bool = True, top: int | None = None
    ) -> list[list[Answer]]: ...

    def __call__(self, pictures: Any, *, learn: bool = True, top: int | None = None) -> Any:
        """Answer with the classes, the most probable first: a list for one picture, a list of lists for several.

        Args:
            pictures: a path, the bytes of a file, a Pillow image, an array [height, width, 3] in eight bits; or a
                list of such.
            learn: let the pictures enter the memory; without, they are scored and nothing is learned.
            top: only so many classes.
        """
        if _is_one(pictures):
            return self.answers(self.predict(self.sample(pictures), learn=learn), top)
        samples = [self.sample(one) for one in pictures]  # one that cannot be read is told before any is learned
        return [self.answers(self.predict(sample, learn=learn), top) for sample in samples]

    def sample(self, picture: Picture) -> Sample:
        """Encode one picture."""
        image, key = self._decoded(picture)
        clip = self.clip.encode(self.views.of(image, key, self.clip.preprocessing))
        if self.aux is None:
            return Sample(clip)
        return Sample(clip, self.aux.encode(self.aux.preprocessing.pixels(image)[None])[0])

    def predict(self, sample: Sample, *, learn: bool = True) -> Prediction:
        """Score an encoded picture, and learn from it unless told not to."""
        return self.method.step(self.state, sample) if learn else self.method.peek(self.state, sample)

    def answers(self, prediction: Prediction, top: int | None = None) -> list[Answer]:
        """Name the classes of a prediction, the most probable first."""
        order = np.argsort(-prediction.scores, kind="stable")[:top]
        return [{"label": self.task.class_names[k], "score": float(prediction.scores[k])} for k in order]

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write what was learned; the file is there whole, or the one before it still is."""
        save(file, self.method, self.state)

    def load(self, file: str | os.PathLike[str]) -> None:
        """Go on from what was saved, by the same method, classes and encoders; else it is refused."""
        self.state = load(file, self.method, self.task)

    def _decoded(self, picture: Picture) -> tuple[Image.Image, str]:
        """Return a picture, and a key that tells it by what is on it, wherever it lies."""
        if isinstance(picture, (str, os.PathLike)):
            name = os.fspath(picture)
            try:
                picture = Path(picture).read_bytes()
            except OSError as error:
                raise PictureError(f"{name}: cannot be read: {error.strerror}.") from error
            return open_picture(picture, max_pixels=self.max_pixels, name=name), _digest(picture)
        if isinstance(picture, bytes):
            return open_picture(picture, max_pixels=self.max_pixels), _digest(picture)
        if isinstance(picture, Image.Image) and picture.width and picture.height:
            return as_rgb(picture), _digest(picture.tobytes())
        if isinstance(picture, np.ndarray) and picture.dtype == np.uint8 and picture.shape[2:] == (3,) and picture.size:
            return Image.fromarray(picture), _digest(picture.tobytes())
        form = f"{picture.dtype} {list(picture.shape)}" if isinstance(picture, np.ndarray) else type(picture).__name__
        raise InputError(
            f"a picture is a path, bytes, a Pillow image or an array uint8 [height, width, 3]; given {form}."
        )


def _is_one(pictures: Any) -> bool:
    return isinstance(pictures, (str, bytes, os.PathLike, Image.Image)) or (
        isinstance(pictures, np.ndarray) and pictures.ndim != 4
    )


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
