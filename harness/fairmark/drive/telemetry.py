"""The server's own gauges, read once a second beside a run from the Prometheus page that servers keep.

A thread of the coordinator does it, which has no part in issuing: the workers are processes of their own.
Whether a server has such a page is found by asking for it once.
"""

from __future__ import annotations

import http.client
import math
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic, monotonic_ns
from types import TracebackType
from typing import Any, Final

from fairmark.evidence.gauges import GaugeLog
from fairmark.sut.api import Endpoint

__all__ = ["METRICS_PATH", "NAMES", "Telemetry", "read_gauges"]

METRICS_PATH: Final = "/metrics"
_INTERVAL_S: Final = 1.0
_TIMEOUT_S: Final = 2.0
_MAX_BYTES: Final = 4 << 20
_LABELS: Final = r'\{(?:[^"}]|"(?:[^"\\]|\\.)*+")*+\}'
_SERIES: Final = re.compile(
    rf"([A-Za-z_:][A-Za-z0-9_:]*+)(?:[ \t]*+{_LABELS}[ \t]*+|[ \t]++)(\S++)", re.DOTALL
)
"""Name, labels, whose quoted values may hold anything, and value; an exemplar or a time may follow."""

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "vllm:num_requests_running": ("requests_running",),
    "vllm:num_requests_waiting": ("requests_waiting",),
    "vllm:kv_cache_usage_perc": ("kv_cache_usage",),
    "vllm:num_preemptions_total": ("preemptions",),
    "vllm:prompt_tokens_total": ("input_tokens",),
    "vllm:prefix_cache_hits_total": ("prefix_cache_hit_tokens",),
    "vllm:generation_tokens_total": ("output_tokens",),
    "llamacpp:requests_processing": ("requests_running",),
    "llamacpp:requests_deferred": ("requests_waiting",),
    # llama.cpp leaves the cached tokens out of the first of these.
    "llamacpp:prompt_tokens_total": ("input_tokens",),
    "llamacpp:prompt_tokens_cached_total": ("input_tokens", "prefix_cache_hit_tokens"),
    "llamacpp:tokens_predicted_total": ("output_tokens",),
}
"""What servers call their figures, and what those are called in the table ``telemetry``."""


def read_gauges(page: str) -> dict[str, float]:
    """The figures on a page in Prometheus' text format that have a name in `NAMES`.

    Counts of several engines behind one page are added up; of their cache usages the largest is taken.
    """
    found: dict[str, list[float]] = {}
    for name, value in _series(page):
        for ours in NAMES.get(name, ()):
            found.setdefault(ours, []).append(value)
    return {name: max(values) if name == "kv_cache_usage" else sum(values) for name, values in found.items()}


def _series(page: str) -> Iterator[tuple[str, float]]:
    # Not splitlines: a label's value may hold what else ends a line in Unicode.
    for line in page.split("\n"):
        found = _SERIES.match(line)
        if found is None:
            continue
        try:
            value = float(found[2])
        except ValueError:
            continue
        if math.isfinite(value):
            yield found[1], value


class Telemetry:
    """Looks at every server of a run, as a context manager.

    Args:
        endpoints: of the run; those on one host and port are one server.
        folder: the live store.
    """

    def __init__(self, endpoints: Sequence[Endpoint], folder: Path) -> None:
        servers = {(e.host, e.port): e for e in endpoints}
        self._pages = [_Page(f"server-{n}", endpoint) for n, endpoint in enumerate(servers.values())]
        self._log = GaugeLog(folder)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="fairmark-telemetry", daemon=True)

    def __enter__(self) -> Telemetry:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        # A server that dribbles its page must not hold up the end of the run. The thread closes the log.
        self._thread.join(2 * _TIMEOUT_S)

    @property
    def summary(self) -> list[dict[str, Any]]:
        """For each server how often it was read, how often that failed, and what was wrong last."""
        return [page.summary for page in self._pages]

    def _look(self) -> None:
        pages = list(self._pages)
        began_s, looks = monotonic(), 0
        while pages and not self._ended.wait(began_s + looks * _INTERVAL_S - monotonic()):
            pages = [page for page in pages if self._go_on(page)]
            looks = int((monotonic() - began_s) / _INTERVAL_S) + 1
        for page in self._pages:
            page.close()
        self._log.close()

    def _go_on(self, page: _Page) -> bool:
        """`_keep`, but what nobody foresaw ends the looking at this page and is in the summary.

        By its type alone: a message may hold what was sent, and that may be secret.
        """
        try:
            return self._keep(page)
        except Exception as error:  # noqa: BLE001  # a look at gauges never ends a run
            page.fail(type(error).__name__)
            return False

    def _keep(self, page: _Page) -> bool:
        """Read a page and keep what it says.

        Returns:
            Whether to look at it again: a server that has no such page, or none with a known figure, is asked
            once.
        """
        gauges, now = page.read(), monotonic_ns()
        if self._ended.is_set():
            return False
        if not gauges:
            return page.reads > 0
        try:
            self._log.append(page.source, now, gauges)
        except OSError as error:
            # The log holds whole lines only, and there is no space for another.
            page.detail = error.strerror
            self._ended.set()
        else:
            page.reads += 1
        return True


class _Page:
    """The page of one server."""

    def __init__(self, source: str, endpoint: Endpoint) -> None:
        self.source = source
        self.detail: str | None = None
        self._headers = {"Accept": "text/plain", **endpoint.headers, **endpoint.secret_headers}
        connect = http.client.HTTPSConnection if endpoint.tls else http.client.HTTPConnection
        self._connection = connect(endpoint.host, endpoint.port, timeout=_TIMEOUT_S)
        self.reads = 0
        self._failures = 0

    @property
    def summary(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "reads": self.reads,
            "failures": self._failures,
            "detail": self.detail,
        }

    def read(self) -> dict[str, float]:
        """Its figures; empty when it cannot be read or has none."""
        try:
            gauges = read_gauges(self._fetch())
        except (OSError, http.client.HTTPException) as error:
            self.fail(str(error) or type(error).__name__)
            return {}
        if not gauges:
            self.detail = f"no known figure at {METRICS_PATH}"
        return gauges

    def fail(self, detail: str) -> None:
        """Count a look that failed, and why."""
        self.close()
        self._failures += 1
        self.detail = detail

    def _fetch(self) -> str:
        self._connection.request("GET", METRICS_PATH, headers=self._headers)
        response = self._connection.getresponse()
        body = response.read(_MAX_BYTES)
        if response.status != 200:
            raise http.client.HTTPException(f"HTTP {response.status}")
        if len(body) >= _MAX_BYTES:
            raise http.client.HTTPException(f"a page of {_MAX_BYTES} bytes or more")
        return body.decode("utf-8", "replace")

    def close(self) -> None:
        self._connection.close()
