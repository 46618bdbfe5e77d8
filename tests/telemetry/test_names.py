"""The names of our metrics: by Prometheus' conventions, and each one explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from settings import Settings
from telemetry.metrics import BUCKETS
from worker import ROLES, nth_metrics_address

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [ROOT / "telemetry", ROOT / "workflows"]


def declared() -> set[str]:
    """Every name that the sources give a meter, as they write it."""
    texts = [path.read_text() for folder in SOURCES for path in folder.glob("*.py")]
    return {name for text in texts for name in re.findall(r'"(tessera_\w+)"', text)}


def test_names_follow_the_conventions() -> None:
    names = declared()
    assert len(names) > 25
    for name in names:
        assert re.fullmatch(r"[a-z][a-z_]*[a-z]", name), name
        assert not name.endswith("_total"), f"{name}: the exporter adds it"
        measures = re.search(r"_(duration|age|memory|free|cache)_", name)
        assert not measures or name.endswith(("_seconds", "_bytes")), f"{name} has no unit"


def test_every_metric_is_explained() -> None:
    page = (ROOT / "docs/telemetry.md").read_text().replace("`, `_", "`, `tessera_samples_")
    explained = {name.removesuffix("_total") for name in re.findall(r"tessera_\w+", page)}
    assert declared() - explained == set()
    assert explained - declared() == set(), "explained, and gone"


def test_buckets_rise_and_cover_what_is_measured() -> None:
    for name, bounds in BUCKETS.items():
        assert list(bounds) == sorted(set(bounds)), name
        assert bounds[-1] >= 20, name  # a store call is given up after 20 s


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_workers_of_one_supervisor_have_ports_of_their_own(host: str) -> None:
    settings = Settings(metrics_address=f"{host}:9464")
    given = [nth_metrics_address(settings, number)["TESSERA_METRICS_ADDRESS"] for number in range(len(ROLES))]
    assert given == [f"{host}:9464", f"{host}:9465", f"{host}:9466"]
    assert nth_metrics_address(Settings(), 1) == {}
