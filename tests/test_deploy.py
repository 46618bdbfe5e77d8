"""The container files, as far as they can be checked without a container engine: their form, and that what
they name is there and works outside of containers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.testing import WorkflowEnvironment

from settings import Settings
from tests.system.farm import free_port
from tests.system.metrics import scrape, total
from workflows import attributes, policies

ROOT = Path(__file__).resolve().parents[1]
COMPOSE_TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = YAML(typ="safe").load(COMPOSE_TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()

WORKERS = ("control-worker", "tile-worker", "isolated-worker")
WATCHERS = ("prometheus", "grafana")
ONE_SHOT = ("temporal-schema", "temporal-namespace", "client")


def commands_of(dockerfile: str) -> list[tuple[str, str]]:
    """(instruction, arguments) of each line, continued lines joined."""
    joined = re.sub(r"\\\n", " ", dockerfile)
    lines = [
        line.strip() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def seconds(duration: str) -> float:
    """Of a compose duration such as 1m30s."""
    parts = re.findall(r"(\d+)([smh])", duration)
    assert "".join(n + unit for n, unit in parts) == duration
    return float(sum(int(n) * {"s": 1, "m": 60, "h": 3600}[unit] for n, unit in parts))


def bind_mounts() -> Iterator[str]:
    for service in SERVICES.values():
        yield from (volume.split(":")[0] for volume in service.get("volumes", []) if volume.startswith("."))


def test_compose_file_follows_the_compose_specification(tmp_path: Path) -> None:
    validate = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]

    def check(path: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*validate, str(path)], capture_output=True, text=True, check=False)

    done = check(ROOT / "docker-compose.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    # The check can fail: a misspelt key is refused.
    misspelt = tmp_path / "docker-compose.yml"
    misspelt.write_text(COMPOSE_TEXT.replace("restart:", "restarts:"))
    assert check(misspelt).returncode != 0


def test_the_farm_is_complete() -> None:
    assert set(SERVICES) == {*WORKERS, *ONE_SHOT, "postgres", "temporal", "temporal-ui", "s3", *WATCHERS}
    for name, service in SERVICES.items():
        if name in ONE_SHOT:
            assert service.get("restart", "no") != "unless-stopped", name
        else:
            assert service["restart"] == "unless-stopped", name
    for name in ("postgres", "temporal", "s3", "prometheus"):
        assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


def test_images_are_pinned_and_are_the_servers_that_the_tests_use() -> None:
    images = {name: service["image"] for name, service in SERVICES.items() if "build" not in service}
    for image in images.values():
        assert re.search(r":v?\d+\.\d+", image), f"{image} is not pinned to a version"
    assert re.search(r"^FROM python:3\.\d+-", DOCKERFILE, re.MULTILINE)
    command = [str(Path(sys.executable).with_name("temporal")), "--version"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    tested = re.search(r"Server ([\d.]+), UI ([\d.]+)", version)
    assert tested is not None
    assert images["temporal"] == f"temporalio/server:{tested[1]}"
    assert images["temporal-schema"] == images["temporal-namespace"] == f"temporalio/admin-tools:{tested[1]}"
    assert images["temporal-ui"] == f"temporalio/ui:{tested[2]}"


def test_ports_are_open_to_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_services_wait_for_what_they_need() -> None:
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            assert needed in SERVICES, name
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed], f"{name} waits for {needed} for ever"
            if how["condition"] == "service_completed_successfully":
                assert needed in ONE_SHOT, f"{name} waits for {needed} for ever"
    assert (
        SERVICES["temporal"]["depends_on"]["temporal-schema"]["condition"] == "service_completed_successfully"
    )
    for name in WORKERS:
        assert "temporal-namespace" in SERVICES[name]["depends_on"], name


def test_what_must_last_is_in_named_volumes() -> None:
    used = {v.split(":")[0] for s in SERVICES.values() for v in s.get("volumes", []) if v[0] not in "./"}
    assert used == set(COMPOSE["volumes"]) == {"postgres", "s3", *WATCHERS}


def test_frames_are_kept_by_the_s3_server() -> None:
    command = SERVICES["s3"]["command"]
    bucket = next(word.partition("=")[2] for word in command if word.startswith("-bucket="))
    port = next(word.partition("=")[2] for word in command if word.startswith("-s3.port="))
    for name in (*WORKERS, "client"):
        environment = SERVICES[name]["environment"]
        assert environment["TESSERA_STORE"].startswith(f"s3://{bucket}/")
        assert environment["AWS_ENDPOINT_URL"] == f"http://s3:{port}"
        assert SERVICES[name]["depends_on"]["s3"]["condition"] == "service_healthy"
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            assert environment[key] == SERVICES["s3"]["environment"][key]
    # The options are those of the server that the store's tests run against.
    tested = (ROOT / "tests/store/s3_server.py").read_text()
    for word in command[1:]:
        assert word.partition("=")[0].lstrip("-") in tested, word


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_has_time_to_drain(name: str) -> None:
    grace = seconds(SERVICES[name]["stop_grace_period"])
    assert grace >= policies.GRACEFUL_SHUTDOWN.total_seconds() + 5
    assert SERVICES[name]["init"] is True


@pytest.mark.parametrize("name", WORKERS)
def test_a_workers_command_works(name: str) -> None:
    program, *arguments = SERVICES[name]["command"]
    assert program == "python"
    # Arguments are checked from left to right, so a wrong one fails before the help is shown.
    command = [sys.executable, *arguments, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_clients_command_is_installed() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert SERVICES["client"]["entrypoint"] == ["tessera"]
    assert "tessera" in scripts
    assert '["tessera", "--help"]' in DOCKERFILE


def test_settings_of_the_farm_exist() -> None:
    for name in (*WORKERS, "client"):
        environment = SERVICES[name]["environment"]
        ours = {key.removeprefix("TESSERA_").lower() for key in environment if key.startswith("TESSERA_")}
        assert ours <= set(Settings.model_fields), name
        assert environment["TEMPORAL_ADDRESS"].split(":")[0] in SERVICES


def test_variables_are_explained_and_no_secret_is_written_down() -> None:
    example = (ROOT / "deploy/env.example").read_text()
    explained = set(re.findall(r"^(\w+)=", example, re.MULTILINE))
    assert set(re.findall(r"\$\{(\w+)", COMPOSE_TEXT)) == explained
    secret = re.compile(r"PASSWORD|PWD|SECRET|ACCESS_KEY")
    for service in SERVICES.values():
        for key, value in service.get("environment", {}).items():
            assert not secret.search(key) or value.startswith("${"), f"{key} is written down"


def test_mounted_and_copied_files_are_there() -> None:
    assert [source for source in bind_mounts() if not (ROOT / source).exists()] == []
    for _, arguments in [c for c in commands_of(DOCKERFILE) if c[0] == "COPY"]:
        *sources, _ = arguments.split()
        assert [source for source in sources if not (ROOT / source).exists()] == []
    scripts = [
        s for service in SERVICES.values() for s in service.get("command", []) if s.startswith("/deploy/")
    ]
    scripts.append(SERVICES["temporal"]["environment"]["DYNAMIC_CONFIG_FILE_PATH"])
    assert len(scripts) == 3
    for script in scripts:
        assert (ROOT / "deploy/temporal" / Path(script).name).is_file()


def mounted(service: str, inside: str) -> Path:
    """Where a path of a container is in this repository. Raises where no bind mount has it."""
    volumes: list[str] = SERVICES[service]["volumes"]
    for volume in volumes:
        outside, target, *_ = volume.split(":")
        if outside.startswith("./") and Path(inside).is_relative_to(target):
            return ROOT / outside / Path(inside).relative_to(target)
    raise AssertionError(f"{service} has no {inside}")


def test_prometheus_scrapes_every_worker() -> None:
    option = next(w for w in SERVICES["prometheus"]["command"] if w.startswith("--config.file="))
    file = mounted("prometheus", option.partition("=")[2])
    config = YAML(typ="safe").load(file.read_text())
    assert [(file.parent / rules).is_file() for rules in config["rule_files"]] == [True]
    scraped = {}
    for job in config["scrape_configs"]:
        (source,) = job["dns_sd_configs"]
        for name in source["names"]:
            scraped[name] = source["port"]
    assert set(scraped) == set(WORKERS)
    for name, port in scraped.items():
        assert SERVICES[name]["environment"]["TESSERA_METRICS_ADDRESS"] == f"0.0.0.0:{port}"
        assert "ports" not in SERVICES[name]  # the metrics are for Prometheus alone
    # Every job of the workers is one that the alert about workers that are gone looks at.
    alerts = (file.parent / config["rule_files"][0]).read_text()
    jobs = "|".join(job["job_name"] for job in config["scrape_configs"])
    assert f'up{{job=~"{jobs}"}}' in alerts


def test_grafana_starts_with_the_dashboard() -> None:
    provisioning = mounted("grafana", "/etc/grafana/provisioning")
    (source,) = YAML(typ="safe").load((provisioning / "datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    host, port = re.fullmatch(r"http://([\w-]+):(\d+)", source["url"]).groups()  # type: ignore[union-attr]
    assert f"127.0.0.1:{port}:{port}" in SERVICES[host]["ports"]
    (provider,) = YAML(typ="safe").load((provisioning / "dashboards/tessera.yml").read_text())["providers"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert Path(home).parent == Path(provider["options"]["path"])
    panels = json.loads(mounted("grafana", home).read_text())["panels"]
    used = {t["datasource"]["uid"] for panel in panels for t in panel.get("targets", [])}
    assert used == {source["uid"]}


def test_the_image_holds_every_package_and_no_secret() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    needed = {package.split(".")[0] for package in setuptools["packages"]} | {"README.md"}
    assert needed.isdisjoint(ignored)
    assert {".git", ".env", ".venv", ".tessera"} <= set(ignored)


def test_every_package_is_installed() -> None:
    """A folder that pyproject forgets would be missing from the image, and from nowhere else."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    top = {"workflows", "activities", "tracer", "store", "telemetry", "client"}
    found = {
        p.parent.relative_to(ROOT).as_posix() for name in top for p in (ROOT / name).rglob("__init__.py")
    }
    assert {path.replace("/", ".") for path in found} == set(setuptools["packages"])


def test_the_image_runs_as_a_user_and_warms_the_kernels_as_that_user() -> None:
    names = [name for name, _ in commands_of(DOCKERFILE)]
    assert names.count("USER") == 1
    after = commands_of(DOCKERFILE)[names.index("USER") :]
    assert after[0] == ("USER", "$UID")
    warm = next(arguments for name, arguments in after if name == "RUN")
    assert "warm()" in warm
    assert after[-1][0] == "CMD"
    assert after[-1][1].startswith("[")  # a shell in between would keep SIGTERM for itself


@pytest.mark.parametrize(
    ("shell", "path"),
    [("bash", ".ci/run"), *(("sh", str(p.relative_to(ROOT))) for p in sorted(ROOT.glob("deploy/**/*.sh")))],
)
def test_a_script_parses(shell: str, path: str) -> None:
    done = subprocess.run([shell, "-n", path], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.system
async def test_the_control_service_starts_against_a_bare_server_and_leaves_on_sigterm() -> None:
    service = SERVICES["control-worker"]
    temporal = shutil.which("temporal", path=str(Path(sys.executable).parent))
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=temporal) as server:
        address = server.client.service_client.config.target_host
        port = free_port()  # the service's own may be taken on this machine
        environment = {
            **os.environ,
            **service["environment"],
            "TEMPORAL_ADDRESS": address,
            "TESSERA_METRICS_ADDRESS": f"127.0.0.1:{port}",
        }
        worker = await asyncio.create_subprocess_exec(
            sys.executable, *service["command"][1:], cwd=ROOT, env=environment, stderr=asyncio.subprocess.PIPE
        )
        assert worker.stderr is not None
        try:
            async with asyncio.timeout(60):
                while b"polling" not in (line := await worker.stderr.readline()):
                    assert line, "the worker left before it polled"
            # The frames' search attributes are there: without them no frame could start.
            listed = await server.client.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace="default")
            )
            assert {key.name for key in attributes.ALL} <= set(listed.custom_attributes)
            async with asyncio.timeout(60):  # what the alerts about queues and dead letters look at
                while not total(scrape(port), "tessera_backlog_polls_total", result="ok"):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            worker.send_signal(signal.SIGTERM)
            async with asyncio.timeout(seconds(service["stop_grace_period"])):
                await worker.communicate()
            assert worker.returncode == 0
        finally:
            if worker.returncode is None:
                worker.kill()
                await worker.wait()
