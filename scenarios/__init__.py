"""Scenario files shipped with fairmark; read with importlib.resources."""
