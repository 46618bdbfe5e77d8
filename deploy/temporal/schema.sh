#!/bin/sh
# Creates or updates Temporal's two databases. Safe to run again: each step does what is missing.
# Reads SQL_PLUGIN, SQL_HOST, SQL_PORT, SQL_USER and SQL_PASSWORD.
set -eu

for part in temporal visibility; do
    case $part in
        temporal) database=temporal ;;
        visibility) database=temporal_visibility ;;
    esac
    temporal-sql-tool --db "$database" create-database
    temporal-sql-tool --db "$database" setup-schema -v 0.0
    temporal-sql-tool --db "$database" update-schema -d "/etc/temporal/schema/postgresql/v12/$part/versioned"
done
