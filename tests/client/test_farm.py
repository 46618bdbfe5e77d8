"""The embedded farm, with real processes: whatever is killed, nothing lingers and the next command works."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client.farm import clients_lock, farm, farm_client, farm_file, farm_lock, running_farm
from client.leftovers import SERVER, end_leftover_server, leftover, write_pid
from client.server import remembered_ports
from settings import Settings

ROOT = Path(__file__).parents[2]
PATIENCE = 150.0
"""Seconds after which what has not happened is a failure; workers may have to compile their kernels."""
RECORD = {"address": "127.0.0.1:1", "ui": "http://127.0.0.1:2", "pid": 3, "while_used": True}


def poll(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {PATIENCE} s")


class Embedded:
    """A folder in which commands run without a configured Temporal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
        self.env |= {"TESSERA_STATE_DIR": str(self.state)}
        self.env.pop("PYTHONPATH", None)
        for name in ("worker", "settings", "workflows", "starter"):  # a user's own files of the same names
            (folder / f"{name}.py").write_text("raise SystemExit('a file of the working folder was run')")

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(ROOT / "starter.py"), *words],
            cwd=self.folder,
            env=self.env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *words: str, code: int = 0) -> tuple[str, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, (process.returncode, out, err)
        return out, err

    def record(self) -> dict[str, Any]:
        """farm.json, when the farm is ready."""
        found: dict[str, Any] = poll(lambda: running_farm(self.state), "a farm is ready")._asdict()
        return found

    def processes(self) -> list[int]:
        """Every process of this folder's farm and its clients: they have its name in their environment."""
        marker = f"TESSERA_STATE_DIR={self.state}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:  # it ended meanwhile
                continue
            if marker in environment.split(b"\0"):
                found.append(int(folder.name))
        return found

    def server(self) -> int:
        return int((self.state / "server.pid").read_text())


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Embedded]:
    if not Path("/proc/self/environ").exists():
        pytest.skip("finds its processes by /proc")
    folder = tmp_path / "a folder – ü 🎬"
    folder.mkdir()
    embedded = Embedded(folder)
    try:
        yield embedded
    finally:
        for pid in embedded.processes():
            kill(pid)


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def submit_words(embedded: Embedded, samples: int = 1) -> list[str]:
    (embedded.folder / "a.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    return ["submit", "a.obj", "--size", "16x16", "--spp", str(samples)]


def wait_for_percent(watcher: subprocess.Popen[str]) -> None:
    """Until its first line of progress."""
    assert watcher.stderr is not None
    while "%" not in (line := watcher.stderr.readline()):
        assert line, "it ended before it watched"


@pytest.mark.system
def test_a_dev_farm_survives_its_server_and_is_succeeded(embedded: Embedded) -> None:
    first = embedded.start("dev")
    record = embedded.record()
    assert (record["pid"], record["while_used"]) == (first.pid, False)
    assert "'frame-none': no such job in the local farm of" in embedded.run("status", "frame-none", code=2)[1]

    old_server = embedded.server()
    kill(old_server)
    poll(lambda: embedded.server() != old_server, "another server is started")
    assert json.loads(embedded.run("list", "--json")[0]) == {"sequences": [], "frames": []}
    assert embedded.record()["address"] == record["address"]

    second = embedded.start("dev")
    assert second.stderr is not None
    assert "runs here already" in second.stderr.readline()
    first.terminate()
    assert first.wait(PATIENCE) == 0
    poll(lambda: embedded.record()["pid"] == second.pid, "the second takes its place")
    assert embedded.record()["address"] == record["address"]

    second.send_signal(signal.SIGINT)
    assert second.wait(PATIENCE) == 0
    assert embedded.processes() == []
    assert not farm_file(embedded.state).exists()


@pytest.mark.system
def test_a_killed_supervisor_takes_its_server_along_and_a_watcher_starts_another(embedded: Embedded) -> None:
    supervisor = embedded.start("dev")
    record, server = embedded.record(), embedded.server()
    job = embedded.run(*submit_words(embedded, samples=1_000_000))[0].strip()
    embedded.run("pause", job)  # so that there is something to watch for as long as it takes
    watcher = embedded.start("watch", job)
    wait_for_percent(watcher)
    supervisor.kill()
    supervisor.wait()
    poll(lambda: server not in embedded.processes(), "the server is gone")
    poll(lambda: embedded.record()["pid"] != supervisor.pid, "another farm is started")
    assert (embedded.record()["address"], embedded.record()["while_used"]) == (record["address"], True)
    embedded.run("cancel", job)
    _, err = watcher.communicate(timeout=PATIENCE)
    assert watcher.returncode == 4, err
    poll(lambda: not embedded.processes(), "a farm that nobody uses is gone")


@pytest.mark.system
def test_clients_that_start_at_the_same_time_share_one_farm(embedded: Embedded) -> None:
    words = submit_words(embedded)
    clients = [embedded.start(*words) for _ in range(3)]
    results = [client.communicate(timeout=PATIENCE) for client in clients]
    assert [client.returncode for client in clients] == [0, 0, 0]
    assert len({out for out, _ in results}) == 1
    assert all("start `tessera dev`" in err for _, err in results)

    watcher = embedded.start("watch", results[0][0].strip())
    wait_for_percent(watcher)
    watcher.send_signal(signal.SIGINT)
    err = watcher.communicate(timeout=PATIENCE)[1]
    assert watcher.returncode in (0, 130), err  # the frame is small: it may be done by now
    if watcher.returncode == 130:
        assert "the same command continues" in err
    poll(lambda: not embedded.processes(), "a farm that nobody uses is gone")


@pytest.mark.system
def test_a_farm_that_cannot_start_says_why(embedded: Embedded) -> None:
    (embedded.state / "temporal.db").mkdir(parents=True)  # the database cannot be opened
    out, err = embedded.run(*submit_words(embedded), "--json", code=69)
    assert json.loads(out)["error"]["exit_code"] == 69
    assert "server.log" in err
    assert embedded.processes() == []


# --- without processes ---------------------------------------------------------------------------


def test_a_farm_is_running_only_while_its_lock_is_held(tmp_path: Path) -> None:
    assert running_farm(tmp_path) is None
    farm_file(tmp_path).write_text(json.dumps(RECORD))
    with open(farm_lock(tmp_path), "a") as lock:
        assert running_farm(tmp_path) is None  # what a killed farm left
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = running_farm(tmp_path)
        assert found is not None and found._asdict() == RECORD
        farm_file(tmp_path).write_text("{")
        assert running_farm(tmp_path) is None
    farm_file(tmp_path).write_text(json.dumps(RECORD))
    assert running_farm(tmp_path) is None


async def test_a_farm_that_is_killed_while_it_starts_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    held = farm_lock(tmp_path).open("a")

    def spawn(log_path: Path) -> subprocess.Popen[bytes]:
        log_path.touch()
        if started:  # the second one gets there
            fcntl.flock(held, fcntl.LOCK_EX)
            farm_file(tmp_path).write_text(json.dumps(RECORD))
        code = "import os, time; time.sleep(600)" if started else "import os; os.kill(os.getpid(), 9)"
        started.append(subprocess.Popen([sys.executable, "-c", code]))
        return started[-1]

    monkeypatch.setattr("client.farm._spawn", spawn)
    try:
        record = await asyncio.wait_for(farm(Settings(state_dir=tmp_path)), 60)
        assert record._asdict() == RECORD and len(started) == 2
    finally:
        held.close()
        for process in started:
            process.kill()
            process.wait()


async def test_a_newcomer_waits_while_an_unused_farm_shuts_down(tmp_path: Path) -> None:
    entered = asyncio.Event()

    async def client() -> None:
        async with farm_client(Settings(state_dir=tmp_path)):
            entered.set()

    with clients_lock(tmp_path).open("a") as held_by_the_farm:
        fcntl.flock(held_by_the_farm, fcntl.LOCK_EX)
        newcomer = asyncio.create_task(client())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(entered.wait(), 0.3)
    await asyncio.wait_for(newcomer, 10)
    assert entered.is_set()


async def test_many_clients_at_once(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path)
    async with farm_client(settings), farm_client(settings):
        with clients_lock(tmp_path).open("a") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_ports_are_remembered_unless_another_program_has_them(tmp_path: Path) -> None:
    ports = remembered_ports(tmp_path)
    assert remembered_ports(tmp_path) == ports
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports[0]))
        other.listen()
        assert remembered_ports(tmp_path) != ports
    (tmp_path / "ports.json").write_text('{"port": 1')
    assert all(port > 1024 for port in remembered_ports(tmp_path))


def test_only_the_farms_own_leftovers_are_ended(tmp_path: Path) -> None:
    end_leftover_server(tmp_path)  # nothing there
    code = "import time; print(flush=True); time.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", code, "start-dev", str(tmp_path)],
        start_new_session=True,
        stdout=subprocess.PIPE,
    ) as ours:
        assert ours.stdout is not None
        ours.stdout.readline()
        write_pid(tmp_path, SERVER, os.getpid())  # its number is another process's by now: ours, the test's
        end_leftover_server(tmp_path)
        write_pid(tmp_path, SERVER, ours.pid)
        assert leftover(tmp_path, SERVER) == ours.pid
        end_leftover_server(tmp_path)  # returns also while nobody has waited for the dead process
        assert ours.wait(10) == -signal.SIGKILL
    assert leftover(tmp_path, SERVER) is None
