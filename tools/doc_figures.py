"""Write the data-flow diagram of every method to docs/methods/figures: python tools/doc_figures.py.

A diagram is a list of boxes on a grid and of arrows between them. The SVG has no font, script or link of its own.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "methods" / "figures"
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 156, 56, 28, 22, 12
FONT, LINE, TIP = 15, 20.5, 1.9  # TIP: between an arrow's tip and its box
COLOURS = {  # fill and border; the text is dark on all of them, in a light page and in a dark one
    "input": ("#dbeafe", "#3b82f6"),
    "compute": ("#f1f5f9", "#64748b"),
    "memory": ("#fef3c7", "#d97706"),
    "output": ("#dcfce7", "#16a34a"),
}
ARROW = "#7c8798"


class Box(NamedTuple):
    """A box: its kind, its place on the grid (a row may be a half), and its lines of text."""

    kind: str
    column: float
    row: float
    text: str

    @property
    def left(self) -> float:
        return MARGIN + self.column * (WIDTH + GAP_X)

    @property
    def top(self) -> float:
        return MARGIN + self.row * (HEIGHT + GAP_Y)


class Figure(NamedTuple):
    """A diagram: a title for screen readers, boxes by name, arrows between names."""

    title: str
    boxes: dict[str, Box]
    arrows: str  # "a>b b>c"


def box(kind: str, column: float, row: float, text: str) -> Box:
    return Box(kind, column, row, text)


ZERO_SHOT = Figure(
    "Zero-shot: image feature and class texts to logits to scores",
    {
        "image": box("input", 0, 0, "image feature w"),
        "text": box("input", 0, 1, "class texts t|K rows"),
        "logits": box("compute", 1, 0.5, "logits|s · (w · tₖ)"),
        "scores": box("output", 2, 0.5, "softmax|scores"),
    },
    "image>logits text>logits logits>scores",
)
TDA = Figure(
    "TDA: a positive cache adds to the logits, a negative cache subtracts from them",
    {
        "views": box("input", 0, 1, "views of the image"),
        "sure": box("compute", 1, 1, "confident views|mean, entropy h"),
        "positive": box("memory", 2, 0, "positive cache|3 slots per class"),
        "negative": box("memory", 2, 2, "negative cache|0.2 < h/log2 K < 0.5"),
        "logits": box("compute", 2, 1, "zero-shot logits z"),
        "sum": box("compute", 3, 1, "z + A⁺ − A⁻"),
        "scores": box("output", 4, 1, "softmax|scores"),
    },
    "views>sure sure>positive sure>negative sure>logits positive>sum negative>sum logits>sum sum>scores",
)
DMN = Figure(
    "DMN: class centres attend to the image; their similarity is added to zero-shot",
    {
        "views": box("input", 0, 0.5, "views of the image"),
        "label": box("compute", 1, 0, "pseudo-label|and its entropy"),
        "zero": box("compute", 1, 1, "zero-shot p"),
        "memory": box("memory", 2, 0, "memory|8 slots per class"),
        "centre": box("compute", 3, 0, "attention to w|centres cₖ"),
        "sum": box("output", 4, 0.5, "p + λ · m|m = softmax(s w·cₖ)"),
    },
    "views>label views>zero label>memory memory>centre centre>sum zero>sum",
)
TIP_ADAPTER = Figure(
    "Tip-Adapter: labelled keys add to the zero-shot logits",
    {
        "image": box("input", 0, 0.5, "image feature w"),
        "support": box("memory", 1, 0, "labelled keys|of the support"),
        "near": box("compute", 2, 0, "affinity|exp(−β(1 − w·xᵢ))"),
        "logits": box("compute", 2, 1, "zero-shot logits z"),
        "sum": box("compute", 3, 0.5, "z + α · A"),
        "scores": box("output", 4, 0.5, "softmax|scores"),
    },
    "image>support support>near image>logits near>sum logits>sum sum>scores",
)
TIP_ADAPTER_F = Figure(
    "Tip-Adapter-F: keys trained before the stream, then used as in Tip-Adapter",
    {
        "shots": box("input", 0, 0, "labelled shots"),
        "train": box("compute", 1, 0, "AdamW on the|cross-entropy"),
        "keys": box("memory", 2, 0, "trained keys|checkpoint"),
        "image": box("input", 0, 1, "image feature w"),
        "logits": box("compute", 2, 1, "zero-shot logits z"),
        "sum": box("compute", 3, 0.5, "z + α · A"),
        "scores": box("output", 4, 0.5, "softmax|scores"),
    },
    "shots>train train>keys image>logits keys>sum logits>sum sum>scores",
)
TPT = Figure(
    "TPT: confident views tune the context for one image",
    {
        "views": box("input", 0, 0, "views of one image"),
        "context": box("memory", 0, 1, "first context|“a photo of a”"),
        "sure": box("compute", 1, 0, "confident views|a tenth"),
        "tower": box("compute", 1, 1, "text tower|class texts T(c)"),
        "loss": box("compute", 2, 0.5, "entropy of the|mean prediction"),
        "step": box("compute", 3, 0.5, "AdamW step|new context c′"),
        "scores": box("output", 4, 0.5, "softmax(s T(c′)·w)|then forget c′"),
    },
    "views>sure context>tower sure>loss tower>loss loss>step step>scores",
)
DIFFTPT = Figure(
    "DiffTPT: generated views are filtered by similarity and entropy, then tune the context",
    {
        "image": box("input", 0, 0.5, "image"),
        "crops": box("compute", 1, 0, "random views"),
        "generated": box("compute", 1, 1, "generated views|diffusion model"),
        "alike": box("compute", 2, 1, "80 % most similar|to the image"),
        "sure": box("compute", 3, 0.5, "30 % of least|entropy"),
        "scores": box("output", 4, 0.5, "four TPT steps|scores"),
    },
    "image>crops image>generated generated>alike crops>sure alike>sure sure>scores",
)
COOP = Figure(
    "CoOp: labelled shots train the context before the stream",
    {
        "shots": box("input", 0, 0, "labelled shots"),
        "train": box("compute", 1, 0, "SGD through the|text tower"),
        "context": box("memory", 2, 0, "context c|checkpoint"),
        "texts": box("compute", 3, 0, "class texts T(c)|computed once"),
        "image": box("input", 2, 1, "image feature w"),
        "scores": box("output", 4, 0.5, "softmax(s T(c)·w)|scores"),
    },
    "shots>train train>context context>texts texts>scores image>scores",
)
COCOOP = Figure(
    "CoCoOp: a small network moves the learned context for each image",
    {
        "image": box("input", 0, 1, "image feature w"),
        "network": box("memory", 1, 1, "trained network|π(w)"),
        "context": box("memory", 1, 0, "trained context c"),
        "moved": box("compute", 2, 0.5, "c + π(w)"),
        "texts": box("compute", 3, 0.5, "text tower|texts of this image"),
        "scores": box("output", 4, 0.5, "softmax|scores"),
    },
    "image>network network>moved context>moved moved>texts texts>scores",
)
COSMIC = Figure(
    "COSMIC: two caches, two class graphs, cliques, inlier classes, fused scores",
    {
        "views": box("input", 0, 0.5, "CLIP views"),
        "aux": box("input", 0, 2, "auxiliary feature"),
        "label": box("compute", 1, 0.5, "pseudo-label|and its entropy"),
        "clip_cache": box("memory", 2, 1, "CLIP cache"),
        "aux_cache": box("memory", 2, 2, "auxiliary cache"),
        "css": box("compute", 3, 1, "CSS graph, cliques|texts and centres"),
        "afv": box("compute", 3, 2, "AFV graph, cliques|centres"),
        "zero": box("compute", 4, 0, "zero-shot"),
        "inlier_css": box("compute", 4, 1, "inlier classes|scores"),
        "inlier_afv": box("compute", 4, 2, "inlier classes|scores"),
        "fused": box("output", 5, 1, "fusion|scores"),
    },
    "views>label label>zero label>clip_cache label>aux_cache aux>aux_cache clip_cache>css aux_cache>afv css>inlier_css "
    "afv>inlier_afv zero>fused inlier_css>fused inlier_afv>fused",
)
BAYES_MEANS = Figure(
    "bayes_means: zero-shot prior times the likelihood of each space; soft labels update class sums",
    {
        "image": box("input", 0, 1, "CLIP feature|auxiliary feature"),
        "zero": box("compute", 1, 0, "zero-shot prior|+ class shares"),
        "standard": box("compute", 1, 1, "standardise|per space"),
        "like": box("compute", 2, 1, "log-likelihood ℓ|under each class"),
        "scores": box("output", 3, 0.5, "softmax|scores = soft label"),
        "sums": box("memory", 3, 2, "class sums, counts|over the window"),
        "sweep": box("compute", 4, 2, "sweeps relabel|the window"),
    },
    "image>zero image>standard standard>like zero>scores like>scores scores>sums sums>like sums>sweep sweep>sums",
)
FIGURES = {
    "zero_shot": ZERO_SHOT, "tda": TDA, "dmn": DMN, "tip_adapter": TIP_ADAPTER, "tip_adapter_f": TIP_ADAPTER_F,
    "tpt": TPT, "difftpt": DIFFTPT, "coop": COOP, "cocoop": COCOOP, "cosmic": COSMIC, "bayes_means": BAYES_MEANS,
}  # fmt: skip


def path(a: Box, b: Box) -> str:
    """Return an arrow's path: from right to left where b stands further right, else between top and bottom."""
    if b.column > a.column:
        x0, y0, x1, y1 = a.left + WIDTH, a.top + HEIGHT / 2, b.left - TIP, b.top + HEIGHT / 2
        bend = (x1 - x0) / 2
        return f"M{x0:g} {y0:g} C{x0 + bend:g} {y0:g} {x1 - bend:g} {y1:g} {x1:g} {y1:g}"
    if b.column == a.column:
        x, down = a.left + WIDTH / 2, b.top > a.top
        return f"M{x:g} {a.top + HEIGHT if down else a.top:g} L{x:g} {b.top - 3 if down else b.top + HEIGHT + 3:g}"
    # Back to the left: around the lower edges.
    x0, x1, y0, y1 = a.left + WIDTH / 2, b.left + WIDTH / 2, a.top + HEIGHT, b.top + HEIGHT + 3
    low = max(y0, y1) + 14
    return f"M{x0:g} {y0:g} C{x0:g} {low:g} {x1:g} {low:g} {x1:g} {y1:g}"


def svg(figure: Figure) -> str:
    """Return the diagram as SVG text."""
    width = max(one.left for one in figure.boxes.values()) + WIDTH + MARGIN
    height = max(one.top for one in figure.boxes.values()) + HEIGHT + MARGIN + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="{FONT}" text-anchor="middle">',
        f"<title>{escape(figure.title)}</title>",
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{ARROW}"/></marker></defs>',
        f'<g fill="none" stroke="{ARROW}" stroke-width="1.6">',
    ]
    for arrow in figure.arrows.split():
        start, end = (figure.boxes[name] for name in arrow.split(">"))
        lines.append(f'<path d="{path(start, end)}" marker-end="url(#tip)"/>')
    lines.append("</g>")
    for one in figure.boxes.values():
        fill, border = COLOURS[one.kind]
        lines.append(
            f'<rect x="{one.left:g}" y="{one.top:g}" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{fill}" '
            f'stroke="{border}" stroke-width="1.4"/>'
        )
        rows = one.text.split("|")
        for number, row in enumerate(rows):
            y = one.top + HEIGHT / 2 + 6 + (number - (len(rows) - 1) / 2) * LINE
            lines.append(f'<text x="{one.left + WIDTH / 2:g}" y="{y:g}" fill="#0f172a">{escape(row)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    """Write every diagram."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, figure in FIGURES.items():
        (FOLDER / f"{name}.svg").write_text(svg(figure), encoding="utf-8")


if __name__ == "__main__":
    main()
