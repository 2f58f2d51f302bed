"""LoadGen's TestSettings: the fields a configuration file can set, their units and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["DEFAULTS", "FIELDS", "Field", "Value"]

Value = bool | int | float | str

_MS_TO_NS: Final = 1_000_000.0
_PERCENT: Final = 0.01


@dataclass(frozen=True, slots=True)
class Field:
    """One field and the key that sets it.

    Attributes:
        name: in test_settings.h.
        key: the last part of ``model.scenario.key``.
        kind: ``whole`` and ``real`` numbers; ``one`` is true for 1 only, ``nonzero`` for all but 0.
        scale: what a number is multiplied by.
        scenario: the scenario that the key is looked up under, whatever runs; None: the one that runs.
        builtin_only: ignored in ``user.conf`` and ``audit.config``.
        only_if: the field that must be true for the key to be read.
    """

    name: str
    key: str
    kind: Literal["whole", "real", "one", "nonzero", "mode"] = "whole"
    scale: float = 1.0
    scenario: str | None = None
    builtin_only: bool = False
    only_if: str | None = None


FIELDS: Final[tuple[Field, ...]] = (
    Field("mode", "mode", "mode"),
    Field("qsl_rng_seed", "qsl_rng_seed", builtin_only=True),
    Field("sample_index_rng_seed", "sample_index_rng_seed", builtin_only=True),
    Field("schedule_rng_seed", "schedule_rng_seed", builtin_only=True),
    Field("accuracy_log_probability", "accuracy_log_probability", "real", _PERCENT, builtin_only=True),
    Field("test05", "test05", "one", builtin_only=True),
    Field("test05_qsl_rng_seed", "test05_qsl_rng_seed", builtin_only=True),
    Field("test05_sample_index_rng_seed", "test05_sample_index_rng_seed", builtin_only=True),
    Field("test05_schedule_rng_seed", "test05_schedule_rng_seed", builtin_only=True),
    Field("use_token_latencies", "use_token_latencies", "one"),
    Field("ttft_latency", "ttft_latency", "whole", _MS_TO_NS, "Server", only_if="use_token_latencies"),
    Field("tpot_latency", "tpot_latency", "whole", _MS_TO_NS, "Server", only_if="use_token_latencies"),
    Field("infer_token_latencies", "infer_token_latencies", "one"),
    Field("token_latency_scaling_factor", "token_latency_scaling_factor", only_if="infer_token_latencies"),
    Field(
        "single_stream_target_latency_percentile",
        "target_latency_percentile",
        "real",
        _PERCENT,
        "SingleStream",
    ),
    Field(
        "multi_stream_target_latency_percentile", "target_latency_percentile", "real", _PERCENT, "MultiStream"
    ),
    Field("multi_stream_samples_per_query", "samples_per_query", scenario="MultiStream"),
    Field("server_target_latency_percentile", "target_latency_percentile", "real", _PERCENT, "Server"),
    Field("server_target_latency_ns", "target_latency", "whole", _MS_TO_NS, "Server"),
    Field("performance_issue_unique", "performance_issue_unique", "nonzero"),
    Field("performance_issue_same", "performance_issue_same", "nonzero"),
    Field("performance_issue_same_index", "performance_issue_same_index"),
    Field("sample_concatenate_permutation", "sample_concatenate_permutation", "one"),
    Field("server_coalesce_queries", "coalesce_queries", "nonzero", scenario="Server"),
    Field("server_max_async_queries", "max_async_queries", scenario="Server"),
    Field("min_duration_ms", "min_duration"),
    Field("max_duration_ms", "max_duration"),
    Field("min_query_count", "min_query_count"),
    Field("max_query_count", "max_query_count"),
    Field("performance_sample_count_override", "performance_sample_count_override"),
    Field("accuracy_sample_count_override", "accuracy_sample_count_override"),
    Field("single_stream_expected_latency_ns", "target_latency", "real", _MS_TO_NS, "SingleStream"),
    Field("multi_stream_expected_latency_ns", "target_latency", "real", _MS_TO_NS, "MultiStream"),
    Field("server_target_qps", "target_qps", "real", scenario="Server"),
    Field("offline_expected_qps", "target_qps", "real", scenario="Offline"),
    Field("print_timestamps", "print_timestamps", "nonzero"),
    Field("accuracy_log_rng_seed", "accuracy_log_rng_seed"),
    Field("accuracy_log_sampling_target", "accuracy_log_sampling_target"),
)
"""In the order LoadGen reads them (test_settings_internal.cc:690-812)."""

DEFAULTS: Final[Mapping[str, Value]] = {
    "mode": "PerformanceOnly",
    "qsl_rng_seed": 0,
    "sample_index_rng_seed": 0,
    "schedule_rng_seed": 0,
    "accuracy_log_probability": 0.0,
    "test05": False,
    "test05_qsl_rng_seed": 0,
    "test05_sample_index_rng_seed": 0,
    "test05_schedule_rng_seed": 0,
    "use_token_latencies": False,
    "ttft_latency": 100_000_000,
    "tpot_latency": 100_000_000,
    "infer_token_latencies": False,
    # LoadGen leaves it uninitialised; it means something only where a file sets it.
    "token_latency_scaling_factor": 0,
    "single_stream_target_latency_percentile": 0.90,
    "multi_stream_target_latency_percentile": 0.99,
    "multi_stream_samples_per_query": 8,
    "server_target_latency_percentile": 0.99,
    "server_target_latency_ns": 100_000_000,
    "performance_issue_unique": False,
    "performance_issue_same": False,
    "performance_issue_same_index": 0,
    "sample_concatenate_permutation": False,
    "server_coalesce_queries": False,
    "server_max_async_queries": 0,
    "min_duration_ms": 10_000,
    "max_duration_ms": 0,
    "min_query_count": 100,
    "max_query_count": 0,
    "performance_sample_count_override": 0,
    "accuracy_sample_count_override": 0,
    "single_stream_expected_latency_ns": 1_000_000,
    "multi_stream_expected_latency_ns": 8_000_000,
    "server_target_qps": 1.0,
    "offline_expected_qps": 1.0,
    "print_timestamps": False,
    "accuracy_log_rng_seed": 0,
    "accuracy_log_sampling_target": 0,
}
"""test_settings.h:109-280."""
