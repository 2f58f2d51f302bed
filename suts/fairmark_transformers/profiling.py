"""torch.profiler around what the model's thread does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairmark_transformers.batching import Batcher

__all__ = ["profiled"]


@contextmanager
def profiled(batcher: Batcher, folder: Path) -> Iterator[None]:
    """Profile the batches of ``batcher`` and leave one trace in ``folder``.

    The profiler sees the thread that starts it, so it is started and stopped in the model's.
    """
    from torch.profiler import ProfilerActivity, profile, supported_activities

    wanted = {ProfilerActivity.CPU, ProfilerActivity.CUDA} & supported_activities()
    profiler = profile(activities=sorted(wanted, key=str))
    batcher.call(profiler.start)
    try:
        yield
    finally:
        batcher.call(profiler.stop)
    profiler.export_chrome_trace(str(folder / "torch.json.gz"))
