"""The Celery application that `bench.overhead` starts a worker of."""

from __future__ import annotations

import os

from celery import Celery
from celery.signals import worker_process_init

from bench.peer_tile import render_peer_tile
from bench.peers_running import REDIS

app = Celery("bench", broker=os.environ[REDIS], backend=os.environ[REDIS])
app.conf.task_acks_late = True  # a tile of a worker that dies is given to another, as it is with us
app.task(name="render")(render_peer_tile)


@worker_process_init.connect  # type: ignore[untyped-decorator]
def ready(**_: object) -> None:
    render_peer_tile("", -1)
