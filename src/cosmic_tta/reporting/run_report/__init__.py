"""The sections of a report page about saved runs: accuracy, confusion, fusion weights, class graphs, changed cases.

Imports `evaluation` (to read runs) and the rest of `reporting`; the command line imports it. Labels come from the
evaluator's saved runs, for counting and colouring only.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosmic_tta.evaluation.run_folder import SavedRun
from cosmic_tta.reporting.chart_data import ResultSet
from cosmic_tta.reporting.run_report.accuracy import accuracy_section
from cosmic_tta.reporting.run_report.changed_cases import changed_cases_section
from cosmic_tta.reporting.run_report.confusion import confusion_section
from cosmic_tta.reporting.run_report.fusion_weights import fusion_weights_section
from cosmic_tta.reporting.run_report.graphs import graphs_section
from cosmic_tta.reporting.run_report.selection import group_by_pack

__all__ = ["report_sections"]


def report_sections(runs: Sequence[SavedRun]) -> list[ResultSet]:
    """Return the sections of a report page: accuracy of all runs, then four sections per pack.

    Args:
        runs: Saved runs, as `read_runs` returns them; at least one.

    Returns:
        The sections; one without any table, chart or reason is left out.

    Raises:
        InputError: scikit-learn is not installed.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from cosmic_tta import make_method
        >>> from cosmic_tta.evaluation.evaluator import run_evaluation
        >>> from cosmic_tta.evaluation.run_folder import RunFolder, RunRecorder, read_runs
        >>> from cosmic_tta.features.synthetic import superclass_pack
        >>> pack = superclass_pack(0, images=40, dim=16)
        >>> with TemporaryDirectory() as path:
        ...     folder, recorder = RunFolder.begin(path), RunRecorder()
        ...     folder.add(run_evaluation(make_method("zero_shot"), pack, watch=recorder), recorder)
        ...     folder.finish()
        ...     sections = report_sections(read_runs(path))
        >>> [section.title for section in sections]
        ['Results', 'Confusion and calibration']
    """
    sections = [accuracy_section(runs)]
    packs = group_by_pack(runs)
    for pack, group in packs.items():
        suffix = f": {pack}" if len(packs) > 1 else ""
        sections += [
            confusion_section(group, suffix),
            fusion_weights_section(group, suffix),
            graphs_section(group, suffix),
            changed_cases_section(group, suffix),
        ]
    return [section for section in sections if section.charts or section.tables or section.missing]
