"""What a sequence learns from the store: which frames are published."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.sequences import SequenceActivities
from contracts import SequenceBatch
from store import LocalStore, layout
from tests.client.published_frame import publish_frame
from tests.test_contracts import request


def test_only_a_whole_manifest_of_the_very_frame_counts(tmp_path: Path) -> None:
    """A damaged one, and one of another frame, are left for the frame itself to complain about."""
    store, template = LocalStore(tmp_path / "store"), request()
    frames = {number: template.model_copy(update={"frame_number": number}) for number in range(1, 5)}
    publish_frame(store, frames[1], tmp_path)
    store.put_new(layout.manifest(frames[2].job_id), b"{")
    whole, _ = store.get(layout.manifest(frames[1].job_id))
    store.put_new(layout.manifest(frames[3].job_id), whole)
    activities = SequenceActivities(store, Mock(spec=Client), "w")
    batch = SequenceBatch(template=template, numbers=tuple(frames))
    assert ActivityEnvironment().run(activities.published_frames, batch) == [1]
