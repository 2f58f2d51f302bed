"""Runs of systems in the driver's own process: four shapes of plugins under the same policies."""
