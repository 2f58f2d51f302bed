"""fairmark: a conformance harness for inference systems.

This module is the whole API for plugin authors: the SUT shapes, the events they yield, and `hookimpl`.
"""

from __future__ import annotations

from fairmark.errors import EvidenceError, FairmarkError, InputError, SutError
from fairmark.samples.sample import Sample
from fairmark.sut.api import (
    SUT,
    AsyncSUT,
    BatchSUT,
    CallbackSUT,
    Chunk,
    Done,
    Endpoint,
    Event,
    Failed,
    Query,
    QueryBlock,
    Sink,
    SyncSUT,
    Usage,
    WireSUT,
)
from fairmark.sut.hooks import hookimpl
from fairmark.sut.sim import SimSUT, Simulation

__version__ = "0.1.0"

__all__ = [
    "SUT",
    "AsyncSUT",
    "BatchSUT",
    "CallbackSUT",
    "Chunk",
    "Done",
    "Endpoint",
    "Event",
    "EvidenceError",
    "Failed",
    "FairmarkError",
    "InputError",
    "Query",
    "QueryBlock",
    "Sample",
    "SimSUT",
    "Simulation",
    "Sink",
    "SutError",
    "SyncSUT",
    "Usage",
    "WireSUT",
    "__version__",
    "hookimpl",
]
