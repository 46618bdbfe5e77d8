"""The Kubernetes files: their form, by the schemas of Kubernetes, and that they fit the workers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
from ruamel.yaml import YAML

from settings import Settings
from worker import DRAIN_SECONDS, ROLES
from workflows import queues

FOLDER = Path(__file__).resolve().parents[1] / "deploy/kubernetes"
OBJECTS: list[dict[str, Any]] = [
    made for file in sorted(FOLDER.glob("*.yaml")) for made in YAML(typ="safe").load_all(file.read_text())
]
VERSION = kubernetes_validate.latest_version()


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {made["metadata"]["name"]: made for made in OBJECTS if made["kind"] == kind}


DEPLOYMENTS = named("Deployment")


def container(role: str) -> dict[str, Any]:
    (only,) = DEPLOYMENTS[f"tessera-{role}"]["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


@pytest.mark.parametrize("made", OBJECTS, ids=lambda made: f"{made['kind']}-{made['metadata']['name']}")
def test_an_object_follows_the_schema(made: dict[str, Any]) -> None:
    if made["kind"] == "ScaledObject":
        return  # KEDA's own; its fields are checked below
    kubernetes_validate.validate(made, VERSION, strict=True)
    misspelt = made | {"specs": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(misspelt, VERSION, strict=True)


def test_every_role_has_a_deployment_that_runs_it() -> None:
    assert set(DEPLOYMENTS) == {f"tessera-{role}" for role in ROLES}
    for role in ROLES:
        assert container(role)["command"] == ["python", "-m", "worker", "--role", role]


@pytest.mark.parametrize("role", ROLES)
def test_a_pod_has_time_to_drain_and_is_locked_down(role: str) -> None:
    spec = DEPLOYMENTS[f"tessera-{role}"]["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] >= DRAIN_SECONDS + 5
    assert spec["shareProcessNamespace"] is True
    assert spec["securityContext"]["runAsNonRoot"] is True
    worker = container(role)
    assert worker["securityContext"]["readOnlyRootFilesystem"] is True
    assert worker["securityContext"]["allowPrivilegeEscalation"] is False
    assert set(worker["resources"]["limits"]) == {"cpu", "memory"}
    empty = {volume["name"] for volume in spec["volumes"] if "emptyDir" in volume}
    mounted = {mount["mountPath"]: mount["name"] for mount in worker["volumeMounts"]}
    assert set(mounted) == {"/tmp"}
    assert set(mounted.values()) <= empty


@pytest.mark.parametrize("role", ROLES)
def test_settings_exist_and_no_secret_is_written_down(role: str) -> None:
    written = {v["name"]: v["value"] for v in container(role)["env"]} | named("ConfigMap")["tessera"]["data"]
    ours = {name.removeprefix("TESSERA_").lower() for name in written if name.startswith("TESSERA_")}
    assert ours <= set(Settings.model_fields)
    assert [name for name in written if re.search("KEY|SECRET|PASSWORD", name)] == []


def test_budgets_cover_pods_that_are_there() -> None:
    labels = [made["spec"]["template"]["metadata"]["labels"] for made in DEPLOYMENTS.values()]
    for budget in named("PodDisruptionBudget").values():
        assert budget["spec"]["selector"]["matchLabels"] in labels


def test_tile_workers_scale_by_the_work_of_one_engine() -> None:
    spec = named("ScaledObject")["tessera-tiles"]["spec"]
    assert set(spec) == {
        "scaleTargetRef",
        "pollingInterval",
        "cooldownPeriod",
        "minReplicaCount",
        "maxReplicaCount",
        "triggers",
    }
    assert spec["scaleTargetRef"]["name"] in DEPLOYMENTS
    assert "replicas" not in DEPLOYMENTS["tessera-tiles"]["spec"]  # two that set it would fight
    assert spec["minReplicaCount"] >= 1
    (trigger,) = spec["triggers"]
    assert trigger["type"] == "prometheus"
    assert set(trigger["metadata"]) == {"serverAddress", "query", "threshold"}
    used = set(re.findall(r'task_queue="([^"]+)"', trigger["metadata"]["query"]))
    assert used == {queues.tiles("ENGINE")}
    slots = next(v["value"] for v in container("tiles")["env"] if v["name"] == "TESSERA_SLOTS")
    assert trigger["metadata"]["threshold"] == slots == container("tiles")["resources"]["limits"]["cpu"]
