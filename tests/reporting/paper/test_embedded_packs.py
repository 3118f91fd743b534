from __future__ import annotations

import numpy as np

from cosmic_tta.reporting.paper.embedded_packs import embedded_pack, embedded_views


def test_embedded_photographs_have_views() -> None:
    pack = embedded_views(6, 3)
    assert pack.clip.shape[:2] == (6, 3)
    np.testing.assert_allclose(pack.clip[:, 0], embedded_pack(6).clip[:, 0], atol=1e-5)
    assert np.abs(pack.clip[:, 1] - pack.clip[:, 0]).max() > 1e-3


def test_a_pack_is_computed_once() -> None:
    assert embedded_pack(6) is embedded_pack(6)
    assert embedded_views(6, 3) is embedded_views(6, 3)
