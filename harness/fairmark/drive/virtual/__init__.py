"""Runs on a virtual clock: the same policies, against simulated systems, in no time."""
