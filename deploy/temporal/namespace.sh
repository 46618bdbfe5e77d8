#!/bin/sh
# Creates the namespace, once the server answers. Reads TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE.
# Finished frames stay in the Web UI for the retention; published pictures stay until somebody removes them.
set -eu

until temporal operator cluster health >/dev/null 2>&1; do
    sleep 1
done
temporal operator namespace describe -n "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
    temporal operator namespace create -n "$TEMPORAL_NAMESPACE" --retention 30d
