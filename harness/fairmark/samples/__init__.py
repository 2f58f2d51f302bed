"""Samples: content loaded, digested and rendered before a run."""
