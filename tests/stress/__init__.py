"""Stress of what has to hold under kills and stops. Each module is a command with a long form
(`python -m tests.stress.lease --help`); the tests here run a short one."""
