"""The one place that reads the environment and the settings file, and connects to Temporal.

Values: command line flag over environment (TESSERA_*) over file (tessera.toml) over the defaults here.
Temporal's own settings (TEMPORAL_ADDRESS, TLS, API key, profiles) are read by temporalio.envconfig.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig
from temporalio.runtime import LogForwardingConfig, LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig

from telemetry.metrics import BUCKETS
from telemetry.traces import start_traces
from tracer.limits import Limits

if TYPE_CHECKING:
    from temporalio.contrib.opentelemetry import TracingInterceptor


class Settings(BaseSettings):
    """Settings of one process. Every field is TESSERA_<NAME> in the environment."""

    model_config = SettingsConfigDict(
        env_prefix="TESSERA_",
        env_nested_delimiter="__",
        toml_file="tessera.toml",
        extra="forbid",
        frozen=True,
    )

    state_dir: Path = Path(".tessera")
    """Where the embedded farm keeps its database, its logs and, by default, the store."""
    store: str = ""
    """The artifact store: a folder or s3://bucket/prefix. Default: "store" in state_dir."""
    project: str = "default"
    slots: Annotated[int, Field(ge=1)] = os.cpu_count() or 1
    """Tiles that one worker process renders at the same time, one thread each."""
    checkpoint_seconds: Annotated[float, Field(gt=0)] = 5.0
    """How often a tile's film is written to the store; what a killed worker loses at most."""
    cached_scenes: Annotated[int, Field(ge=1)] = 2
    """Prepared scenes that a worker keeps in memory."""
    limits: Limits = Limits()
    """What a scene may ask for: TESSERA_LIMITS__TRIANGLES and so on. A scene beyond a limit is refused as
    scene_unsupported when its frame is prepared."""
    metrics_address: str | None = None
    """host:port on which a worker serves Prometheus metrics; none by default. A supervisor of several
    workers gives each the next port."""

    @property
    def store_url(self) -> str:
        return self.store or str(self.state_dir / "store")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))


def temporal_address() -> str | None:
    """The configured Temporal address; None means the embedded farm."""
    return ClientConfig.load_client_connect_config().get("target_host")


def tracing(service: str) -> TracingInterceptor | None:
    """Starts traces under this process's name, if OpenTelemetry's own variables name a receiver; what a
    client takes then. All other variables are read by OpenTelemetry itself."""
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    off = off or os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "none"
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return None if off or not any(os.environ.get(name) for name in names) else start_traces(service)


async def connect(
    address: str | None = None, *, metrics_address: str | None = None, service: str = "tessera"
) -> Client:
    """Connect to `address`, or to the configured Temporal service. service: this process's name in traces.

    Raises RuntimeError (from temporalio) when it cannot be reached.
    """
    interceptor = tracing(service)
    config = ClientConfig.load_client_connect_config()
    if address is not None:
        config["target_host"] = address
    return await Client.connect(
        **config,
        data_converter=pydantic_data_converter,
        runtime=_runtime(metrics_address),
        interceptors=[interceptor] if interceptor else [],
    )


@cache
def _runtime(metrics_address: str | None) -> Runtime:
    """One a process and address: a second one could not serve on the same port."""
    # Core writes its warnings to stdout unless they are forwarded, and stdout belongs to --json.
    logs = LoggingConfig(
        filter="temporalio=warn,temporal_sdk_core=warn,temporal_client=error",
        forwarding=LogForwardingConfig(logger=logging.getLogger("temporalio.core")),
    )
    metrics = None
    if metrics_address:
        metrics = PrometheusConfig(
            bind_address=metrics_address,
            counters_total_suffix=True,
            unit_suffix=True,
            durations_as_seconds=True,
            histogram_bucket_overrides=BUCKETS,
        )
    # Prometheus names the process by its job and instance.
    return Runtime(telemetry=TelemetryConfig(logging=logs, metrics=metrics, attach_service_name=False))
