"""A table as text: rows for a terminal, markdown, CSV and LaTeX.

A column with values that were tuned on labels has `oracle` in its name. LaTeX also marks it with a dagger and
explains the dagger below the table.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping

from cosmic_tta.reporting.chart_data import Cell, Table

ABSENT = "–"
ORACLE = "oracle"
ORACLE_NOTE = "† oracle: tuned on the labels of the test stream; not comparable with the other columns."
LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "β": r"$\beta$", "α": r"$\alpha$", "λ": r"$\lambda$", "×": r"$\times$", "·": r"$\cdot$",
    "–": "--", "−": "$-$", "†": r"$\dagger$", "→": r"$\to$", "≥": r"$\geq$", "≤": r"$\leq$", "…": r"\ldots{}",
    "₁": "$_1$", "₂": "$_2$", "₃": "$_3$",
}  # fmt: skip


def counted(number: int, one: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "pack"), counted(1200, "pack")
    ('1 pack', '1,200 packs')
    """
    return f"{number:,} {one}{'s' * (number != 1)}"


def is_oracle_column(column: str) -> bool:
    """Return whether a column holds values that were tuned on labels."""
    return ORACLE in column.lower()


def format_cell(cell: Cell, digits: int = 2) -> str:
    """Return a cell as text: floats with two decimals, small ones with two significant digits, None as a dash.

    >>> [format_cell(cell) for cell in (81.2946, 16, 0.00417, "+1.2", None, float("nan"))]
    ['81.29', '16', '0.0042', '+1.2', '–', '–']
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ABSENT
    if isinstance(cell, float):
        small = 0 < abs(cell) < 10**-digits * 10
        return f"{cell:.2g}" if small else f"{round(cell, digits) + 0.0:.{digits}f}"  # + 0.0: never -0.00
    return str(cell)


def text_rows(table: Table) -> list[tuple[str, ...]]:
    """Return the cells of a table as text."""
    return [tuple(map(format_cell, row)) for row in table.rows]


def markdown(table: Table) -> str:
    """Return a table as markdown, with its title above and its note below.

    Args:
        table: The table.

    Returns:
        The markdown text.

    Examples:
        >>> print(markdown(Table("accuracy", "Accuracy", ("method", "top-1 (%)"), [("TDA", 61.352)])))
        **Accuracy**
        <BLANKLINE>
        | method | top-1 (%) |
        | --- | --- |
        | TDA | 61.35 |
    """
    lines = [table.columns, tuple("---" for _ in table.columns), *text_rows(table)]
    rows = ["| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines]
    return "\n".join([f"**{table.title}**", "", *rows, *(["", table.note] if table.note else [])])


def as_csv(table: Table) -> str:
    """Return a table as CSV. Numbers keep all their digits; an absent value is empty.

    Args:
        table: The table.

    Returns:
        The CSV text, with column names in the first line.

    Examples:
        >>> print(as_csv(Table("accuracy", "Accuracy", ("method", "top-1 (%)"), [("TDA", 61.352), ("x", None)])))
        method,top-1 (%)
        TDA,61.352
        x,
        <BLANKLINE>
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if format_cell(cell) == ABSENT else cell for cell in row] for row in table.rows)
    return out.getvalue()


def escape_latex(text: str) -> str:
    r"""Return text that LaTeX prints as it is.

    >>> print(escape_latex("93.76 ± 0.1 %, aux_shots"))
    93.76 $\pm$ 0.1 \%, aux\_shots
    """
    return "".join(LATEX_ESCAPES.get(letter, letter) for letter in text)


def latex(table: Table) -> str:
    r"""Return a table as LaTeX with booktabs rules; oracle columns have a dagger and an explanation.

    Args:
        table: The table.

    Returns:
        A `table` environment, with the label `tab:<name>`.

    Examples:
        >>> text = latex(Table("accuracy", "Accuracy", ("method", "top-1 (%)"), [("TDA", 61.352)]))
        >>> print(text.splitlines()[8].strip())
        TDA & 61.35 \\
    """
    text = text_rows(table)
    columns = list(zip(*text, strict=True)) if text else [()] * len(table.columns)
    alignment = "".join("r" if cells and all(map(_is_number, cells)) else "l" for cells in columns)
    heads = [escape_latex(name) + (r"$^\dagger$" if is_oracle_column(name) else "") for name in table.columns]
    notes = [note for note in (table.note, ORACLE_NOTE if any(map(is_oracle_column, table.columns)) else "") if note]
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(table.title)}}}",
        rf"  \label{{tab:{table.name}}}",
        rf"  \begin{{tabular}}{{{alignment}}}",
        r"    \toprule",
        f"    {' & '.join(heads)} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(map(escape_latex, row))} \\\\" for row in text),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\smallskip\footnotesize {escape_latex(note)}" for note in notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _is_number(cell: str) -> bool:
    return cell[:1] in "+-–0123456789"


TABLE_FORMATS: Mapping[str, Callable[[Table], str]] = {"md": markdown, "csv": as_csv, "tex": latex}
