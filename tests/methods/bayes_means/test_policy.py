from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta.core.arrays import Array, as_float32
from cosmic_tta.core.errors import SnapshotError
from cosmic_tta.methods.bayes_means.policy import CALM, LEAST_NEED, PATIENCE, SURE, AdaptationPolicy, DisagreementRate
from cosmic_tta.methods.bayes_means.zero_shot_bias import BELIEVED, CHANCE, HEARING, SUSPECTED, BiasTest, ZeroShotBias

APART = 0.2
EVEN, UNEVEN = as_float32([100, 100, 100, 100]), as_float32([350, 20, 15, 15])


def favour(errors: float, number: int = 400) -> ZeroShotBias:
    """What a witness says that speaks for a shift by so many standard errors."""
    made = ZeroShotBias.empty(4, aux=False)
    made.number = number
    made.clip.scatter = 1 - CHANCE
    made.clip.pull = errors
    return made


def verdicts(differed: float, mass: Array = EVEN) -> DisagreementRate:
    """What class means would say that differ from zero-shot in such a share of 400 samples."""
    return DisagreementRate(mass, 400 * differed, 400.0)


def caution(
    errors: float, *, differed: float = 0.05, mass: Array = EVEN, free: float = 1.0, sure: float = 0.9
) -> AdaptationPolicy:
    return verdicts(differed, mass).caution(favour(errors), mass, free, APART, sure)


def test_without_reason_nothing_is_held_back() -> None:
    assert AdaptationPolicy() == (0, 1, 0, 0, 1, 1, 1)
    suspected = caution(SUSPECTED)
    assert (suspected.need, suspected.spared, suspected.told) == (1, 1, 1)


def test_where_no_shift_is_suspected_means_that_seldom_differ_yield() -> None:
    needs = [caution(errors).need for errors in (0.0, 0.5, 1.0, 1.5, SUSPECTED)]
    assert needs == sorted(needs)
    assert needs[0] == caution(-5.0).need == pytest.approx(0.5**CALM)  # a quarter of `apart`, half of what is asked
    assert needs[-1] == 1
    assert caution(0.0, differed=0.01).need == LEAST_NEED
    assert caution(0.0, differed=APART / 2).need == 1, "means that differ often are needed"


@pytest.mark.parametrize("number", [8, HEARING])
def test_nothing_is_made_of_the_silence_of_witnesses_that_were_not_heard(number: int) -> None:
    early = verdicts(0.01).caution(favour(0.0, number), EVEN, 1.0, APART, 0.9)
    assert early.need == 1
    assert verdicts(0.01).caution(favour(0.0, 2 * HEARING), EVEN, 1.0, APART, 0.9).need == LEAST_NEED


def test_an_uneven_stream_is_told_from_a_shift() -> None:
    uneven, shifted = caution(1.0, mass=UNEVEN), caution(BELIEVED[1], mass=UNEVEN)
    assert uneven.seeming == uneven.uneven == 1
    assert uneven.need < 0.05
    assert shifted.seeming == shifted.uneven == 0
    assert shifted.shift == shifted.need == shifted.spared == shifted.told == 1


def test_either_sum_tells_of_an_uneven_stream() -> None:
    for said, zero_shot in ((UNEVEN, EVEN), (EVEN, UNEVEN)):
        assert verdicts(0.05, said).caution(favour(1.0), zero_shot, 1.0, APART, 0.9).seeming == 1
    assert caution(1.0).seeming == 0


def test_the_more_auxiliary_features_know_the_less_means_yield() -> None:
    knowing = favour(SUSPECTED)
    knowing.aux = BiasTest.empty(4)
    knowing.clip.pull *= 2**0.5  # two witnesses share it
    needs = []
    for known in (0.1, 0.4, 0.9):
        knowing.aux.told = known * knowing.number * np.log(4)
        needs.append(verdicts(0.15, UNEVEN).caution(knowing, UNEVEN, 1.0, APART, 0.9).need)
    assert needs == sorted(needs)
    assert needs[0] == LEAST_NEED
    assert needs[-1] == pytest.approx(0.75 ** (2 / knowing.known()))


def test_a_correlated_stream_only_seems_uneven() -> None:
    correlated = caution(1.0, mass=UNEVEN, free=0.0)
    assert (correlated.seeming, correlated.uneven, correlated.need) == (1, 0, 1)


def test_frequencies_count_where_zero_shot_is_sure_and_no_shift_is_suspected() -> None:
    sure, unsure = (caution(0.0, mass=UNEVEN, sure=level) for level in SURE[::-1])
    assert sure.told == pytest.approx(1)
    assert unsure.told == pytest.approx(unsure.spared) == pytest.approx(LEAST_NEED)
    half = caution(0.0, mass=UNEVEN, sure=sum(SURE) / 2)
    assert half.told == pytest.approx((sure.told + unsure.told) / 2)
    suspected = caution(SUSPECTED, mass=UNEVEN)
    assert suspected.told == suspected.spared < 0.05


def test_caution_thrown_away_leaves_what_is_believed() -> None:
    careful = caution(1.0, mass=UNEVEN)
    free = careful.thrown_away()
    assert (free.uneven, free.need, free.spared, free.told) == (0, 1, 1, 1)
    assert free[:3] == careful[:3]


def test_verdicts_are_counted() -> None:
    counted = DisagreementRate.start(4, APART)
    assert counted.differed / counted.judged == pytest.approx(APART)
    zero_shot = as_float32([3, 0, 0, 0])
    counted.count(zero_shot, zero_shot)
    counted.count(zero_shot[::-1], zero_shot)
    assert counted.judged == PATIENCE * 4 + 2
    assert counted.differed == pytest.approx(PATIENCE * 4 * APART + 1)
    assert float(counted.mass.sum()) == pytest.approx(2)
    assert counted.mass[0] == pytest.approx(counted.mass[3])


def test_verdicts_are_carried_over_to_other_classes() -> None:
    remapped = verdicts(0.1, UNEVEN).remapped(np.array([3, -1, 0]))
    assert remapped.mass.tolist() == [15, 0, 350]
    assert (remapped.differed, remapped.judged) == (40, 400)


def test_counts_that_cannot_be_are_refused() -> None:
    verdicts(1.0).validate()
    with pytest.raises(SnapshotError, match="counted what cannot be"):
        verdicts(1.1).validate()
    with pytest.raises(SnapshotError, match="counted what cannot be"):
        DisagreementRate(EVEN, 0.0, 0.0).validate()
