from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from cosmic_tta import Cosmic, Tda, ZeroShot
from cosmic_tta.comparison import COLUMNS, details, differences, losses, results
from cosmic_tta.errors import InputError
from cosmic_tta.evaluate import Progress, evaluate, score
from cosmic_tta.packs import FeaturePack
from cosmic_tta.report import Report, as_rows, from_json
from cosmic_tta.streams import STREAMS
from cosmic_tta.tables import markdown


def test_evaluation_is_an_iterator_that_one_may_leave(pack: FeaturePack) -> None:
    steps = evaluate(Cosmic(), pack, order="given")
    first, second = next(steps), next(steps)
    assert (first.done, second.done, first.total) == (1, 2, 120)
    assert (first.index, second.index) == (0, 1)
    assert first.acc1 in (0.0, 1.0)


def test_the_last_progress_is_the_report(pack: FeaturePack) -> None:
    seen: list[Progress] = []
    run = score(Cosmic(), pack, seed=4, watch=seen.append)
    assert seen[-1].acc1 == pytest.approx(run.report.metrics["acc1"])
    assert seen[-1].zero_shot_acc1 == pytest.approx(run.report.metrics["zero_shot_acc1"])
    assert [step.index for step in seen] == run.order.tolist()


@pytest.mark.parametrize("order", STREAMS)
def test_every_kind_of_stream_is_scored_on_the_steps_that_count(pack: FeaturePack, order: str) -> None:
    seen: list[Progress] = []
    run = score(Tda(), pack, order=order, seed=2, watch=seen.append)
    assert run.labels is not None
    assert run.hits is not None
    right = run.scores.argmax(axis=1) == run.labels
    assert run.report.metrics["acc1"] == pytest.approx(right[run.counted].mean())
    assert run.report.metrics["acc1"] == pytest.approx(seen[-1].acc1)
    assert run.report.metrics["zero_shot_acc1"] == pytest.approx(run.hits.zero_shot.mean())
    assert (run.report.n, run.report.counted) == (len(run.order), int(run.counted.sum()))
    assert run.report.metrics["gain_low"] <= run.report.metrics["gain"] <= run.report.metrics["gain_high"]
    assert ("auroc" in run.report.metrics) == (order == "open-set")
    assert run.curve(10**6)[-1] == pytest.approx(run.report.metrics["acc1"])


def test_no_label_reaches_a_method(pack: FeaturePack) -> None:
    assert pack.labels is not None
    one, two = (score(Tda(), replace(pack, labels=labels)) for labels in (pack.labels, pack.labels[::-1]))
    np.testing.assert_array_equal(one.scores, two.scores)
    assert one.report.metrics != two.report.metrics


def test_unknown_images_are_scored_but_do_not_count(pack: FeaturePack) -> None:
    run = score(ZeroShot(), pack, order="open-set")
    assert run.labels is not None
    assert run.scores.shape == (120, 15)
    assert (run.labels[~run.known] == -1).all()
    confidence = run.scores.max(axis=1)
    first, second = confidence[run.known][:, None], confidence[~run.known][None]
    assert run.report.metrics["auroc"] == pytest.approx(((first > second) + 0.5 * (first == second)).mean())


def test_without_labels_predictions_are_made_and_metrics_absent(pack: FeaturePack) -> None:
    run = score(ZeroShot(), replace(pack, labels=None), limit=10)
    assert run.report.metrics == {}
    assert run.hits is None
    assert run.curve().tolist() == []
    assert run.scores.shape == (10, 20)
    (table,) = results([run.report])
    assert (table.title, table.rows[0][1]) == ("generated-20: 10 images, shuffle, seed 0", "–")


def test_reports_go_to_json_and_back(pack: FeaturePack) -> None:
    reports = [score(method, pack, seed=seed).report for method in (ZeroShot(), Cosmic(shots=4)) for seed in (0, 1)]
    assert from_json(json.dumps(as_rows(reports))) == reports
    assert reports[2].params["shots"] == 4
    assert reports[2].software["numpy"] == np.__version__
    for text in ("{", "[{}]", "3"):
        with pytest.raises(InputError, match="no list of reports"):
            from_json(text)


def test_a_table_averages_seeds_and_names_what_was_changed(pack: FeaturePack) -> None:
    reports = [score(method, pack, seed=seed).report for method in (ZeroShot(), Cosmic(shots=4)) for seed in (0, 1)]
    (table,) = results(reports)
    rows = table.rows
    assert table.title == "generated-20: 120 images, shuffle, seeds 0, 1"
    assert [row[0] for row in rows] == ["zero_shot", "cosmic shots=4"]
    assert all("±" in str(row[1]) for row in rows)
    text = markdown(table)
    assert text.splitlines()[2] == f"| {' | '.join(COLUMNS)} |"
    assert text.count("\n") == 5


def made_up(method: str, order: str, seed: int, acc1: float | None = None, **more: float) -> Report:
    metrics = more if acc1 is None else {"acc1": acc1, "zero_shot_acc1": 0.5, **more}
    return Report("made up", method, "default", {}, order, "given", seed, 9, metrics, 1.0, 2.0, {}, {})


def test_older_reports_are_read() -> None:
    (row,) = as_rows([made_up("tda", "shuffle", 0, 0.5)])
    del row["note"], row["counted"]
    (read,) = from_json(json.dumps([row]))
    assert (read.counted, read.note) == (None, "")
    with pytest.raises(InputError, match="must have the fields"):
        from_json(json.dumps([row | {"colour": "red"}]))


def test_the_loss_against_shuffled() -> None:
    reports = [made_up("tda", "shuffle", seed, 0.8 + seed / 100) for seed in (0, 1, 2)]
    reports += [made_up("tda", "class-sequential", seed, 0.6) for seed in (0, 1)]
    reports += [made_up("tda", "dirichlet:0.01", 7, 0.6), made_up("dmn", "shuffle", 0, 0.5)]
    reports += [made_up("tda", "poisoned", 0, 0.1), made_up("dmn", "class-sequential", 0, 0.55)]
    (table,) = losses(reports)
    assert table.title == "made up: loss against shuffled"
    assert table.columns == ("method", "shuffle", "class-sequential", "dirichlet:0.01")
    assert table.rows == [("tda", "81.00", "+20.50", "–"), ("dmn", "50.00", "-5.00", "–")]  # of the seeds both have
    assert losses(reports[:3]) == []
    assert losses(reports[3:6]) == []
    assert "| tda | 81.00 | +20.50 | – |" in markdown(table)


def test_details_tell_the_rare_unasked_and_the_rest_if_asked() -> None:
    plain = [made_up("tda", "shuffle", seed, seed / 100, nll=1.5) for seed in range(20)]
    (table,) = details(plain)
    assert (table.columns, table.rows) == (("method", "worst tenth"), [("tda", "0.50")])
    assert details(plain[:19]) == []
    (table,) = details(plain[:2], every=True)
    assert (table.columns, table.rows) == (("method", "NLL", "MB"), [("tda", "1.500", "2.00")])
    (table,) = details([made_up("tda", "open-set", 0, 0.5, auroc=0.75), made_up("dmn", "open-set", 0, 0.5)])
    assert table.rows == [("tda", "75.00"), ("dmn", "–")]


def test_differences_between_methods_have_intervals(pack: FeaturePack) -> None:
    runs = [score(method, pack, seed=seed) for method in (Tda(), ZeroShot(), Cosmic()) for seed in (0, 1)]
    outcomes = [(run.report, run.hits) for run in runs if run.hits is not None]
    (table,) = differences(outcomes)
    assert table.columns == ("method", "against zero-shot", "against tda")
    assert [row[0] for row in table.rows] == ["tda", "cosmic"]
    assert table.rows[0][2] == "–"
    gain = np.mean([run.report.metrics["gain"] for run in runs[4:]])
    assert str(table.rows[1][1]).startswith(f"{100 * gain:+.2f} [")
    assert differences(outcomes[:2]) == []  # one method alone
    (table,) = differences(outcomes[2:])
    assert table.columns == ("method", "against zero-shot")
