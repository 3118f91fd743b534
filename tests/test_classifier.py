from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cosmic_tta import ZeroShot, make_method
from cosmic_tta.classifier import Classifier
from cosmic_tta.core.errors import CosmicError, ImageError, InputError, SnapshotError
from cosmic_tta.data.datasets.embedded import photographs
from tests.support.tiny import TinyEncoder, class_folders, image

pytestmark = pytest.mark.pathless

CLASSES = ("cat", "dog", "ship")


def classifier(**settings: object) -> Classifier:
    given: dict[str, object] = {"clip": TinyEncoder(), "aux": TinyEncoder(5, 12, "tiny:aux")}
    return Classifier(CLASSES, **(given | settings))  # type: ignore[arg-type]


def test_one_image_gives_a_list_and_several_a_list_of_lists(tmp_path: Path) -> None:
    image(1).save(tmp_path / "a.png")
    classify = classifier()
    one = classify(tmp_path / "a.png")
    assert sorted(answer["label"] for answer in one) == sorted(CLASSES)
    scores = [answer["score"] for answer in one]
    assert scores == sorted(scores, reverse=True)
    assert sum(scores) == pytest.approx(1, abs=1e-5)
    several = classify([tmp_path / "a.png", image(2)], top=2)
    assert [len(answers) for answers in several] == [2, 2]


def test_an_image_may_be_given_in_any_form(tmp_path: Path) -> None:
    image(1).save(tmp_path / "a.png")
    forms: list[Any] = [tmp_path / "a.png", str(tmp_path / "a.png"), (tmp_path / "a.png").read_bytes(), image(1)]
    answers = [classifier(views=1)(form, learn=False) for form in [*forms, np.asarray(image(1))]]
    assert all(answer == answers[0] for answer in answers)


def test_answers_do_not_depend_on_how_images_are_grouped() -> None:
    stream = [image(number) for number in range(12)]
    together, apart = classifier(views=3), classifier(views=3)
    grouped = together(stream[:5]) + together(stream[5:])
    assert grouped == [apart(one) for one in stream]


def test_without_learning_nothing_changes() -> None:
    classify = classifier()
    classify([image(number) for number in range(5)])
    first, again = classify(image(9), learn=False), classify(image(9), learn=False)
    assert first == again
    assert classify(image(9)) != first or classify(image(9), learn=False) != first


def test_a_saved_state_goes_on(tmp_path: Path) -> None:
    stream = [image(number) for number in range(10)]
    whole, first, second = classifier(), classifier(), classifier()
    expected = whole(stream)
    got = first(stream[:6])
    first.save(tmp_path / "state")
    second.load(tmp_path / "state")
    assert got + second(stream[6:]) == expected
    others = Classifier(("cat", "dog", "tree"), clip=TinyEncoder(), aux=TinyEncoder(5, 12, "tiny:aux"))
    with pytest.raises(SnapshotError, match="tree"):
        others.load(tmp_path / "state")
    with pytest.raises(SnapshotError, match="encoder"):
        classifier(clip=TinyEncoder(8, 16, "tiny:other")).load(tmp_path / "state")
    others(stream[:1])  # a refused file leaves it as it was


def test_an_unreadable_image_is_reported_before_anything_is_learned(tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"nothing")
    classify, twin = classifier(), classifier()
    with pytest.raises(ImageError, match=r"bad.jpg: is not an image"):
        classify([image(1), tmp_path / "bad.jpg"])
    assert classify(image(2)) == twin(image(2))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (3, "an image is a path, bytes, a Pillow image or an array .* given int"),
        (np.zeros((4, 4)), r"given float64 \[4, 4\]"),
        (np.zeros((4, 4, 4), np.uint8), r"given uint8 \[4, 4, 4\]"),
        (np.zeros((0, 4, 3), np.uint8), r"given uint8 \[0, 4, 3\]"),
        (Image.new("RGB", (0, 3)), "given Image"),
    ],
)
def test_values_that_are_no_image(wrong: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        classifier()([wrong])  # type: ignore[list-item]


def test_settings_are_checked_when_it_is_made() -> None:
    with pytest.raises(CosmicError, match="class_names"):
        Classifier([], clip=TinyEncoder())
    with pytest.raises(CosmicError, match="unknown method"):
        classifier(method="cosmos")
    with pytest.raises(CosmicError, match="no {}"):
        classifier(templates=("a photo",))
    assert classifier(method=ZeroShot()).method == make_method("zero_shot")
    assert Classifier(CLASSES, clip=TinyEncoder()).aux is None  # no embedded encoder beside one of the user's


def test_the_embedded_pair_classifies_its_photographs() -> None:
    dataset = photographs()
    assert len(dataset) == 2000
    classify = Classifier(dataset.class_names)
    assert (classify.clip.name, classify.aux and classify.aux.name) == ("mini:clip", "mini:dino")
    items = dataset.items[:100]
    found = classify([item.read() for item in items], top=1)
    right = sum(
        answers[0]["label"] == dataset.class_names[item.label or 0] for answers, item in zip(found, items, strict=True)
    )
    assert right > 70


def test_a_word_that_the_mini_model_does_not_know() -> None:
    with pytest.raises(InputError, match=r"does not know the word 'zebra'; its classes are airplane, .* hf:openai"):
        Classifier(["cat", "zebra"])
    Classifier(["kitten", "a lorry", "Puppies"])


def test_folders_of_images(tmp_path: Path) -> None:
    files = sorted(class_folders(tmp_path / "in", ("a", "b"), 3).rglob("*.jpg"))
    assert len(classifier()(files)) == 6


def test_an_image_of_none_of_the_classes_is_answered_unknown() -> None:
    stream, plain = [image(number) for number in range(12)], classifier()
    shares = [plain.predict(plain.sample(picture)).unknown for picture in stream]
    limit = float(np.median(shares))
    assert min(shares) <= limit < max(shares)
    for answers, share in zip(classifier(unknown=limit)(stream, top=2), shares, strict=True):
        assert len(answers) == 2
        assert (answers[0] == {"label": "unknown", "score": share}) == (share > limit)
    assert all(answers[0]["label"] in CLASSES for answers in classifier(unknown=1.0)(stream))


def test_rejected_images_are_learned_all_the_same() -> None:
    one, other = classifier(), classifier(unknown=0.0)
    stream = [image(number) for number in range(6)]
    one(stream), other(stream)
    assert one(image(9), learn=False) == [each for each in other(image(9), learn=False) if each["label"] != "unknown"]


@pytest.mark.parametrize("unknown", [-0.1, 1.1, float("nan")])
def test_a_limit_of_unknown_that_is_no_share_is_refused(unknown: float) -> None:
    with pytest.raises(InputError, match="unknown must be a number from 0 to 1"):
        classifier(unknown=unknown)


def test_a_class_of_the_name_unknown_and_a_limit_are_refused() -> None:
    with pytest.raises(InputError, match="unknown"):
        Classifier(("cat", "unknown"), clip=TinyEncoder(), unknown=0.5)
