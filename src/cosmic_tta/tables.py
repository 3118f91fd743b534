"""A table of plain data as people and papers read it: rows for a terminal, markdown, CSV, LaTeX.

What was tuned on labels says so in its column's name, `oracle`; LaTeX stamps such a column with a dagger too, and
explains it under the table.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping

from cosmic_tta.charts import Cell, Table

ABSENT = "–"
STAMP = "oracle"
TOLD = "† oracle: tuned on the labels of the test stream; not to be compared with the other columns."
ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "β": r"$\beta$", "α": r"$\alpha$", "λ": r"$\lambda$", "×": r"$\times$", "·": r"$\cdot$",
    "–": "--", "−": "$-$", "†": r"$\dagger$", "→": r"$\to$", "≥": r"$\geq$", "≤": r"$\leq$", "…": r"\ldots{}",
    "₁": "$_1$", "₂": "$_2$", "₃": "$_3$",
}  # fmt: skip


def is_oracle(column: str) -> bool:
    """Whether a column holds what was tuned on labels."""
    return STAMP in column.lower()


def shown(cell: Cell, digits: int = 2) -> str:
    """Return a cell as it is read: floats to two digits, more of small ones; nothing as a dash.

    >>> [shown(cell) for cell in (81.2946, 16, 0.00417, "+1.2", None, float("nan"))]
    ['81.29', '16', '0.0042', '+1.2', '–', '–']
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ABSENT
    if isinstance(cell, float):
        small = 0 < abs(cell) < 10**-digits * 10
        return f"{cell:.2g}" if small else f"{round(cell, digits) + 0.0:.{digits}f}"  # + 0.0: never -0.00
    return str(cell)


def rows(table: Table) -> list[tuple[str, ...]]:
    """Return the cells as text, for a terminal."""
    return [tuple(map(shown, row)) for row in table.rows]


def markdown(table: Table) -> str:
    """Return a table in markdown, its title above, its note below."""
    lines = [table.columns, tuple("---" for _ in table.columns), *rows(table)]
    drawn = ["| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines]
    return "\n".join([f"**{table.title}**", "", *drawn, *(["", table.note] if table.note else [])])


def as_csv(table: Table) -> str:
    """Return a table as CSV, numbers as they are; an absent one is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if shown(cell) == ABSENT else cell for cell in row] for row in table.rows)
    return out.getvalue()


def escaped(text: str) -> str:
    r"""Return text that LaTeX prints as it is.

    >>> print(escaped("93.76 ± 0.1 %, aux_shots"))
    93.76 $\pm$ 0.1 \%, aux\_shots
    """
    return "".join(ESCAPES.get(letter, letter) for letter in text)


def latex(table: Table) -> str:
    """Return a table for a paper: booktabs, escaped; oracle columns are stamped and explained."""
    text = rows(table)
    columns = list(zip(*text, strict=True)) if text else [()] * len(table.columns)
    sides = "".join("r" if cells and all(map(_numeric, cells)) else "l" for cells in columns)
    heads = [escaped(name) + (r"$^\dagger$" if is_oracle(name) else "") for name in table.columns]
    notes = [note for note in (table.note, TOLD if any(map(is_oracle, table.columns)) else "") if note]
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escaped(table.title)}}}",
        rf"  \label{{tab:{table.name}}}",
        rf"  \begin{{tabular}}{{{sides}}}",
        r"    \toprule",
        f"    {' & '.join(heads)} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(map(escaped, row))} \\\\" for row in text),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\smallskip\footnotesize {escaped(note)}" for note in notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _numeric(cell: str) -> bool:
    return cell[:1] in "+-–0123456789"


FORMS: Mapping[str, Callable[[Table], str]] = {"md": markdown, "csv": as_csv, "tex": latex}
