from __future__ import annotations

from dataclasses import replace

from cosmic_tta.reporting.plotting.matplotlib_images import draw_images
from tests.support.sample_charts import CHARTS, PIXELS


def test_every_image_has_its_caption() -> None:
    figure = draw_images(CHARTS["images"])
    assert len(figure.axes) == 2
    texts = [text.get_text() for text in figure.texts]
    assert texts == ["Images", "head", "and more", "other", "", "Seen."]


def test_images_are_in_rows_that_do_not_overlap() -> None:
    chart = replace(CHARTS["images"], images=[(PIXELS, f"image {number}\n" + "words " * 20) for number in range(5)])
    boxes = [axes.get_position() for axes in draw_images(replace(chart, images_per_row=2)).axes]
    assert len({round(box.y0, 6) for box in boxes}) == 3
    assert boxes[0].x1 <= boxes[1].x0
    assert boxes[2].y1 < boxes[0].y0
    assert all(box.y0 >= 0 and box.y1 <= 1 for box in boxes)


def test_a_gallery_without_images_is_drawn() -> None:
    assert draw_images(replace(CHARTS["images"], images=[])).axes == []
