"""The models themselves: steps worked out by hand, draws against other people's distributions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import expon, kstest, lognorm

from fairmark import Chunk, Done, Event, Failed, InputError, Sample, Simulation, Usage
from fairmark.scenario.model import Generation
from fairmark.sut.options import parse_options
from fairmark.sut.plugins import load_sut, shapes
from fairmark.traffic.draws import draw_unit
from fairmark.traffic.mt19937 import Mt19937
from fairmark.traffic.seeds import derive_seed
from fairmark_sim import SimLlmSUT, SimQueueSUT
from fairmark_sim.models import Uniforms, exponential, lognormal, prompt_tokens

MS = 1_000_000


def sample(prompt: Any = "three short words", limit: int | None = 3, ids: Any = None) -> Sample:
    return Sample(0, {}, prompt, Generation(max_output_tokens=limit), token_ids=ids)


def play(simulation: Simulation, arrivals: Sequence[tuple[int, Sample]]) -> list[tuple[float, int, Event]]:
    """All events as (ms, seq, event), the queries arriving at these times in ms."""
    waiting = sorted((ms * MS, seq) for seq, (ms, _) in enumerate(arrivals))
    events: list[tuple[float, int, Event]] = []
    while True:
        happens = simulation.next_ns()
        if waiting and (happens is None or waiting[0][0] <= happens):
            now_ns, seq = waiting.pop(0)
            simulation.issue(now_ns, seq, arrivals[seq][1])
        elif happens is None:
            return events
        else:
            events += [(happens / MS, seq, event) for seq, event in simulation.advance()]


def times(events: Sequence[tuple[float, int, Event]], seq: int) -> list[float]:
    """When the query's tokens came, and its end."""
    return [ms for ms, of, _ in events if of == seq]


def engine(**options: Any) -> Simulation:
    """Prefill 5 ms and 1 ms a token, decode 10 ms and 2 ms more a sequence; prompts of 3, answers of 3."""
    costs = {"prefill_ms": 5.0, "prefill_token_us": 1000.0, "decode_ms": 10.0, "decode_more_ms": 2.0}
    return SimLlmSUT(SimLlmSUT.Options(**{**costs, "max_batch": 2, **options})).simulation(1)


def test_one_query_alone_is_prefilled_then_decoded() -> None:
    events = play(engine(), [(0, sample())])
    assert times(events, 0) == [8, 18, 28, 28]
    assert events[-1][2] == Done("length", Usage(3, 3))
    assert [event for _, _, event in events[:-1]] == [Chunk(n_tokens=1)] * 3


def test_simultaneous_queries_share_steps_and_the_third_waits_for_a_place() -> None:
    events = play(engine(), [(0, sample()), (0, sample()), (1, sample())])
    assert times(events, 0) == times(events, 1) == [16, 28, 40, 40]
    assert times(events, 2) == [48, 58, 68, 68]


def test_a_prefill_holds_up_the_sequences_that_decode() -> None:
    events = play(engine(), [(0, sample()), (10, sample())])
    # From 18 ms one step prefills the second (8 ms) and decodes the first (10 ms).
    assert times(events, 0) == [8, 18, 36, 36]
    assert times(events, 1) == [36, 46, 56, 56]


def test_the_cache_admits_no_more_than_it_holds_and_rejects_what_it_never_could() -> None:
    one_at_a_time = play(engine(kv_tokens=11), [(0, sample()), (0, sample())])
    assert times(one_at_a_time, 1) == [36, 46, 56, 56]
    together = play(engine(kv_tokens=12), [(0, sample()), (0, sample())])
    assert times(together, 1) == [16, 28, 40, 40]
    (ms, _, refused), *others = play(engine(kv_tokens=6), [(0, sample("a b c d")), (0, sample())])
    assert (ms, refused) == (0, Failed("rejected", "longer than the key-value cache"))
    assert times(others, 1) == [8, 18, 28, 28]


def test_a_stalled_query_says_one_token_and_leaves_its_place() -> None:
    events = play(engine(stall_every=2, max_batch=1), [(0, sample())] * 3)
    assert times(events, 1) == [36]
    assert times(events, 2) == [44, 54, 64, 64]


def test_a_failing_query_fails_in_place_of_its_first_token() -> None:
    events = play(engine(fail_rate=1.0), [(0, sample())])
    assert events == [(8, 0, Failed("engine_error", "simulated failure"))]


def test_a_request_may_ask_for_less_than_the_engine_would_say() -> None:
    assert times(play(engine(output_tokens=2), [(0, sample())]), 0) == [8, 18, 18]
    assert times(play(engine(output_tokens=2), [(0, sample(limit=1))]), 0) == [8, 8]
    assert times(play(engine(output_tokens=2), [(0, sample(limit=None))]), 0) == [8, 18, 18]


@settings(max_examples=60, deadline=None)
@given(
    arrivals=st.lists(
        st.tuples(st.integers(0, 200), st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=25
    ),
    max_batch=st.integers(1, 4),
    kv_tokens=st.none() | st.integers(12, 30),
)
def test_every_query_gets_all_its_tokens_and_ends_once(
    arrivals: list[tuple[int, int, int]], max_batch: int, kv_tokens: int | None
) -> None:
    queries = [(ms, sample("w " * words, limit)) for ms, words, limit in arrivals]
    events = play(engine(max_batch=max_batch, kv_tokens=kv_tokens), queries)
    tokens = Counter(seq for _, seq, event in events if isinstance(event, Chunk))
    ends = Counter(seq for _, seq, event in events if isinstance(event, Done))
    assert ends == dict.fromkeys(range(len(arrivals)), 1)
    assert tokens == {seq: limit for seq, (_, _, limit) in enumerate(arrivals)}
    assert [ms for ms, _, _ in events] == sorted(ms for ms, _, _ in events)
    together = Counter(ms for ms, _, event in events if isinstance(event, Chunk))
    assert max(together.values()) <= max_batch
    # Tokens held at the end of each step never exceed the cache.
    for now_ms in together:
        held = sum(
            arrivals[seq][1] + arrivals[seq][2]
            for seq in range(len(arrivals))
            if (mine := times(events, seq))[0] <= now_ms < mine[-1]
        )
        assert kv_tokens is None or held <= kv_tokens


def test_first_come_is_first_served_by_the_server_that_is_free_first() -> None:
    simulation = SimQueueSUT(SimQueueSUT.Options(service_ms=10.0, servers=2)).simulation(1)
    events = play(simulation, [(0, sample()), (4, sample()), (5, sample()), (6, sample()), (30, sample())])
    assert [(ms, seq) for ms, seq, _ in events] == [(10, 0), (14, 1), (20, 2), (24, 3), (40, 4)]


def test_faults_of_a_queue() -> None:
    simulation = SimQueueSUT(SimQueueSUT.Options(service_ms=10.0, servers=1, stall_every=3)).simulation(1)
    assert [seq for _, seq, _ in play(simulation, [(0, sample())] * 7)] == [0, 1, 3, 4, 6]
    simulation = SimQueueSUT(SimQueueSUT.Options(service_ms=1.0, fail_rate=0.25)).simulation(1)
    ended = [event for _, _, event in play(simulation, [(0, sample())] * 4000)]
    failed = sum(event == Failed("engine_error", "simulated failure") for event in ended)
    # Binomial(4000, 1/4): six standard deviations are 164.
    assert abs(failed - 1000) < 164


def test_uniforms_are_the_words_of_their_own_stream() -> None:
    words = Mt19937(derive_seed("simulation.service", 9, 0, None, None))
    uniforms = Uniforms(9, "service")
    assert [uniforms() for _ in range(1500)] == draw_unit(words, 1500).tolist()
    assert Uniforms(9, "service")() != Uniforms(9, "faults")()
    assert Uniforms(9, "service")() != Uniforms(10, "service")()


def test_service_times_are_drawn_from_the_distributions_they_name() -> None:
    draw = exponential(0.004, Uniforms(3, "service"))
    assert kstest([draw() for _ in range(20_000)], expon(scale=4e6).cdf).pvalue > 0.01
    draw = lognormal(0.004, 0.5, Uniforms(3, "service"))
    sigma2 = 0.22314355131420976  # log(1 + 0.5^2)
    truth = lognorm(s=sigma2**0.5, scale=4e6 / 1.25**0.5)
    assert truth.mean() == pytest.approx(4e6)
    assert truth.std() == pytest.approx(2e6)
    assert kstest([draw() for _ in range(20_000)], truth.cdf).pvalue > 0.01


def test_prompts_are_as_long_as_their_ids_or_their_words() -> None:
    assert prompt_tokens(sample("one two  three")) == 3
    assert prompt_tokens(sample("ignored", ids=(4, 5))) == 2
    assert prompt_tokens(sample(None)) == 0
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    assert prompt_tokens(sample(messages)) == 3


@pytest.mark.parametrize(
    ("sut", "assignment"),
    [
        ("sim-queue", "service_ms=-1"),
        ("sim-queue", "service_ms=inf"),
        ("sim-queue", "service_ms=nan"),
        ("sim-queue", "servers=0"),
        ("sim-queue", "stall_every=-1"),
        ("sim-queue", "fail_rate=1.5"),
        ("sim-queue", "service=gaussian"),
        ("sim-llm", "decode_ms=0"),
        ("sim-llm", "prefill_ms=-1"),
        ("sim-llm", "max_batch=0"),
        ("sim-llm", "kv_tokens=0"),
        ("sim-llm", "output_tokens=0"),
        ("sim-llm", "fail_rate=-0.1"),
    ],
)
def test_options_that_mean_nothing_are_refused(sut: str, assignment: str) -> None:
    with pytest.raises(InputError):
        parse_options(load_sut(sut).Options, [assignment], sut=sut)


def test_log_normal_times_need_a_spread() -> None:
    options = ["service=lognormal", "cv=0"]
    with pytest.raises(InputError, match="log-normal"):
        parse_options(load_sut("sim-queue").Options, options, sut="sim-queue")


@pytest.mark.parametrize("name", ["sim-queue", "sim-llm"])
def test_simulated_systems_say_what_they_are(name: str) -> None:
    cls = load_sut(name)
    assert shapes(cls) == ["sim"]
    claims = cls(cls.Options()).describe()
    assert claims["test_instrument"] is True
    assert set(claims["simulated"]) > {"model", "stall_every", "fail_rate"}
