"""Reads what a worker serves to Prometheus."""

from __future__ import annotations

import re
import urllib.request
from typing import NamedTuple

_LINE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def scrape(port: int) -> list[Sample]:
    """The samples at a worker's port; empty while it does not serve yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return parse(answer.read().decode())
    except OSError:
        return []


def parse(text: str) -> list[Sample]:
    samples = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            found = _LINE.fullmatch(line)
            assert found, line
            labels = dict(_LABEL.findall(found["labels"] or ""))
            samples.append(Sample(found["name"], labels, float(found["value"])))
    return samples


def total(samples: list[Sample], name: str, **labels: str) -> float:
    """The sum over all series of this name with these labels."""
    return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())
