"""The alert rules against recorded series, and the names that rules and dashboard use."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "deploy/prometheus/alerts.yml"
RULE_TESTS = ROOT / "deploy/prometheus/alerts_test.yml"
DASHBOARD = ROOT / "deploy/grafana/dashboards/tessera.json"

_METRIC = re.compile(r"\b(?:tessera|temporal)_\w+")


def rules() -> list[dict[str, Any]]:
    groups = YAML(typ="safe").load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from (target["expr"] for panel in panels() for target in panel.get("targets", []))


def metrics_in(expression: str) -> set[str]:
    """Names of our metrics and the SDK's."""
    without_strings = re.sub(r'"[^"]*"', '""', expression)
    return set(_METRIC.findall(without_strings))


def used_metrics() -> set[str]:
    return {name for expression in expressions() for name in metrics_in(expression)}


def promtool(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian's package prometheus has it)")
    return subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_alerts_fire_when_they_should_and_only_then() -> None:
    done = promtool("test", "rules", RULE_TESTS.name, folder=RULE_TESTS.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_rule_that_never_fires_is_noticed(tmp_path: Path) -> None:
    for file in (RULES, RULE_TESTS):
        shutil.copy(file, tmp_path)
    broken = RULES.read_text().replace('tessera_frames{state="dead_lettered"}', 'tessera_frames{state="x"}')
    (tmp_path / RULES.name).write_text(broken)
    done = promtool("test", "rules", RULE_TESTS.name, folder=tmp_path)
    assert done.returncode != 0
    assert "TesseraDeadLetters" in done.stdout + done.stderr


def test_every_rule_fires_in_a_test_and_says_what_to_do() -> None:
    recorded = RULE_TESTS.read_text()
    for rule in rules():
        assert f'{{alertname="{rule["alert"]}"}}' in recorded, rule["alert"]
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"] and rule["annotations"]["description"]


def test_prometheus_accepts_its_configuration() -> None:
    done = promtool("check", "config", "prometheus.yml", folder=RULES.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_understands_every_panel(tmp_path: Path) -> None:
    """As recording rules, which promtool parses."""
    found = [target["expr"] for panel in panels() for target in panel.get("targets", [])]
    assert len(found) > 30
    named = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "1m")}
        for number, expression in enumerate(found)
    ]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": named}]}))
    done = promtool("check", "rules", "rules.yml", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_do_not_overlap_and_are_explained() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["type"] == "row" or panel["description"], panel["title"]
    assert len({panel["id"] for panel in panels()}) == len(panels())
