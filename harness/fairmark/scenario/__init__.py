"""Scenario files: one TOML file is the whole experiment."""
