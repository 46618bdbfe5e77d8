"""The short form: some forty hand-overs under kills and stops, on both back ends."""

from __future__ import annotations

import pytest

from tests.stress.lease import LEASES, stress
from tests.stress.processes import fresh_store


@pytest.mark.parametrize("kind", sorted(LEASES))
def test_kills_and_stops_never_make_two_holders(kind: str) -> None:
    with fresh_store(kind) as url:
        crew, shown = stress(kind, url, handovers=40, seed=3)
    assert crew.wrong() == [], shown
    assert crew.kills_of_holders + crew.stops_of_holders > 0, shown
    assert any(not wait.after_release for wait in crew.witness.waits), shown
