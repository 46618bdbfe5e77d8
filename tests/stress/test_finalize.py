"""The short form: some finalizers of one frame under kills and stops, on both back ends."""

from __future__ import annotations

import pytest

from tests.stress.finalize import stress
from tests.stress.processes import fresh_store


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_racing_finalizers_publish_one_manifest(kind: str) -> None:
    with fresh_store(kind) as url:
        outcome, shown = stress(kind, url, finalizers=16, seed=3)
    assert outcome.wrong == [], shown
    assert outcome.killed + outcome.stopped > 0, shown
    assert all(read.whole for read in outcome.reads), shown
