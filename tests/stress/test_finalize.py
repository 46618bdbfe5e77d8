"""The short form: some finalizers of one frame under kills and stops, on both back ends."""

from __future__ import annotations

import pytest

from tests.stress.finalize import stress
from tests.stress.processes import fresh_store


# A killed holder costs the others up to two seconds on S3, whose clock has whole seconds.
@pytest.mark.parametrize(("kind", "finalizers"), [("local", 16), ("s3", 10)])
def test_racing_finalizers_publish_one_manifest(kind: str, finalizers: int) -> None:
    with fresh_store(kind) as url:
        outcome, shown = stress(kind, url, finalizers, seed=3)
    assert outcome.wrong == [], shown
    assert outcome.killed + outcome.stopped > 0, shown
    assert all(read.whole for read in outcome.reads), shown
