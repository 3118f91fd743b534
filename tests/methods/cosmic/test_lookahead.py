"""Lookups of a block: bit-equal to one sample at a time, whatever changes within the block."""

from __future__ import annotations

import numpy as np
import pytest

from cosmic_tta import make_method
from cosmic_tta.core.arrays import Array, as_float32, dots, unit
from cosmic_tta.core.kernel import COMPILED
from cosmic_tta.features.pack import FeaturePack
from cosmic_tta.features.synthetic import superclass_pack
from cosmic_tta.methods.cosmic.lookahead import BlockLookahead, CachedLookups

RNG = np.random.default_rng(0)


def rows(count: int) -> Array:
    return unit(as_float32(RNG.standard_normal((count, 6))))


def test_an_updated_entry_and_an_invalidated_name_are_looked_up_again() -> None:
    memory, lookups = rows(5), CachedLookups(rows(4))
    calls = []

    def lookup(queries: Array) -> Array:
        calls.append(len(queries))
        return dots(memory, queries)

    for position, query in enumerate(lookups.queries):
        lookups.position = position
        if position == 1:
            memory[2] = rows(1)[0]
            lookups.update("memory", 2, memory[2])
        if position == 2:
            memory[:] = rows(5)
            lookups.invalidate("memory")
        np.testing.assert_array_equal(lookups.get("memory", lookup), dots(memory, query[None])[0])
    # One call for the block; after the invalidation, one for a single query, then one for the rest.
    assert calls == ([4, 1, 1] if COMPILED is not None else [1, 1, 1, 1])


def test_an_update_of_a_name_that_is_not_known_does_nothing() -> None:
    memory, lookups = rows(3), CachedLookups(rows(2))
    lookups.update("memory", 0, memory[0])
    np.testing.assert_array_equal(
        lookups.get("memory", lambda queries: dots(memory, queries)), dots(memory, lookups.queries[:1])[0]
    )


@pytest.mark.parametrize("number", [1, 3])
def test_a_block_yields_its_samples_with_their_text_products(pack: FeaturePack, number: int) -> None:
    task, samples = pack.task(), [pack.sample(index) for index in range(number)]
    lookahead = BlockLookahead(task, samples)
    for position, (sample, text_dots) in enumerate(lookahead):
        assert sample is samples[position]
        assert lookahead.clip.position == position
        assert lookahead.aux is not None
        assert lookahead.aux.position == position
        np.testing.assert_array_equal(text_dots, dots(task.unit_text, sample.clip))


def test_a_long_block_with_full_caches_equals_one_by_one() -> None:
    pack = superclass_pack(seed=3, images=400, superclasses=4, members=3, views=2, dim=40, aux_dim=24)
    samples = [pack.sample(index) for index in range(len(pack))]
    for spec in ("cosmic@official", "cosmic", "cosmic@paper"):
        method = make_method(spec, shots=2, aux_shots=2, rebuild_every=7)
        block, single = method.init(pack.task()), method.init(pack.task())
        together = method.steps(block, samples)
        for sample, answer in zip(samples, together, strict=True):
            alone = method.step(single, sample)
            for name, part in alone.parts.items():
                np.testing.assert_array_equal(answer.parts[name], part, err_msg=f"{spec} {name}")
