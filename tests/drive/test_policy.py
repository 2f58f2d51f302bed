"""Issuing policies, driven by a clock that is a variable."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.drive.orders import PhaseOrders, WarmupOrders, make_policy
from fairmark.drive.policy import ClosedLoop, Limits, OpenLoop, Policy, Warmup, WarmupRule, share

MS = 1_000_000


def drive(policy: Policy, service_ns: int) -> list[tuple[int, int]]:
    """Serve every unit in ``service_ns``; the issued units with their times."""
    now, issued, running = 0, [], []
    while True:
        due = policy.due_ns()
        if due is not None and (not running or max(due, now) <= running[0][0]):
            now = max(due, now)
            unit = policy.issue(now)
            issued.append((unit, now))
            heapq.heappush(running, (now + service_ns, unit))
        elif running:
            now, _ = heapq.heappop(running)
            policy.completed(now, service_ns)
        else:
            return issued


def test_open_loop_issues_at_planned_times_however_slow_the_system() -> None:
    due = [0, 5 * MS, 6 * MS, 50 * MS]
    policy = OpenLoop(due, Limits())
    assert drive(policy, service_ns=1000 * MS) == list(enumerate(due))
    assert policy.ended == "complete"


def test_open_loop_issues_late_units_at_once() -> None:
    policy = OpenLoop([0, 1, 2], Limits())
    assert [policy.issue(100), policy.issue(100), policy.issue(100)] == [0, 1, 2]
    assert policy.due_ns() is None


def test_property_24_single_stream_stops_at_the_first_issue_at_or_after_the_floors() -> None:
    limits = Limits(min_units=3, min_duration_ns=50 * MS)
    policy = ClosedLoop(1000, 1, limits)
    # Issues come every 10 ms: the sixth, at exactly 50 ms, is the first at or after the minimum.
    assert [t for _, t in drive(policy, 10 * MS)] == [0, 10 * MS, 20 * MS, 30 * MS, 40 * MS, 50 * MS]
    assert policy.ended == "complete"


def test_property_24_the_count_can_be_what_takes_longer() -> None:
    policy = ClosedLoop(1000, 1, Limits(min_units=9, min_duration_ns=20 * MS))
    assert len(drive(policy, 10 * MS)) == 9
    assert policy.ended == "complete"


def test_property_50_max_query_count_ends_early_and_issues_no_further_query() -> None:
    policy = ClosedLoop(1000, 1, Limits(min_units=100, min_duration_ns=0, max_units=7))
    assert len(drive(policy, MS)) == 7
    assert policy.ended == "max_queries"


def test_property_50_max_duration_is_exceeded_by_one_issue() -> None:
    # LoadGen compares with >, after issuing: the query at exactly the limit does not end the run.
    policy = ClosedLoop(1000, 1, Limits(min_units=100, min_duration_ns=0, max_duration_ns=30 * MS))
    assert [t for _, t in drive(policy, 10 * MS)] == [0, 10 * MS, 20 * MS, 30 * MS, 40 * MS]
    assert policy.ended == "max_duration"


def test_property_50_limits_hold_for_open_loops_too() -> None:
    due = [10 * MS * n for n in range(100)]
    counted, timed = OpenLoop(due, Limits(max_units=5)), OpenLoop(due, Limits(max_duration_ns=25 * MS))
    assert (len(drive(counted, MS)), counted.ended) == (5, "max_queries")
    assert (len(drive(timed, MS)), timed.ended) == (4, "max_duration")


def test_property_50_outstanding_queries_end_an_open_loop_when_more_than_the_limit() -> None:
    due = [10 * MS * n for n in range(100)]
    # Each takes 25 ms, so that at most three are in flight.
    enough, short = (OpenLoop(due, Limits(max_outstanding=limit)) for limit in (3, 2))
    assert (len(drive(enough, 25 * MS)), enough.ended) == (100, "complete")
    # The third is issued, and then there are three: LoadGen tests after it has issued.
    assert (len(drive(short, 25 * MS)), short.ended) == (3, "max_outstanding")


def test_the_natural_end_is_tested_before_the_limits() -> None:
    policy = ClosedLoop(1000, 1, Limits(min_units=5, max_units=5))
    drive(policy, MS)
    assert policy.ended == "complete"


def test_property_53_an_exhausted_plan_is_an_error_of_closed_loops() -> None:
    # A hint of 50 ms and 200 ms of minimum duration plan 10 queries; an instant system uses them up.
    policy = ClosedLoop(10, 1, Limits(min_units=1, min_duration_ns=200 * MS))
    assert len(drive(policy, 0)) == 10
    assert policy.ended == "plan_exhausted"


def test_a_plan_that_is_its_own_target_ends_naturally() -> None:
    policy = ClosedLoop(10, 4, Limits())
    assert [unit for unit, _ in drive(policy, MS)] == list(range(10))
    assert policy.ended == "complete"


@given(units=st.integers(1, 60), slots=st.integers(1, 80), service=st.integers(0, 5))
def test_closed_loops_never_exceed_their_slots_and_skip_nothing(units: int, slots: int, service: int) -> None:
    policy = ClosedLoop(units, slots, Limits())
    issued = drive(policy, service)
    assert [unit for unit, _ in issued] == list(range(units))
    for unit, now in issued:
        assert sum(start <= now < start + service for _, start in issued[: unit + 1]) <= slots


def test_think_time_passes_between_completion_and_the_next_issue() -> None:
    policy = ClosedLoop(3, 1, Limits(), think_ns=7)
    assert [t for _, t in drive(policy, 5)] == [0, 12, 24]


def test_an_empty_plan_has_ended() -> None:
    assert OpenLoop([], Limits()).ended == "complete"
    assert ClosedLoop(0, 3, Limits()).ended == "complete"


def rule(units: int = 16, least: int = 0, most: int = 10**12, *, steady: bool = True) -> WarmupRule:
    return WarmupRule(units, least, most, steady=steady)


def test_warmup_is_steady_when_two_blocks_of_16_agree_within_a_tenth() -> None:
    tried = rule()
    ends = [tried.end(n, 1000 if n < 16 else 1099) for n in range(32)]
    assert ends == [None] * 31 + ["steady"]


def test_workers_test_their_share_of_the_blocks() -> None:
    warmup = WarmupOrders(units=8, min_duration_ns=0, max_duration_ns=10**12, steady=True)
    orders = PhaseOrders(Limits(), slots=2, connections=2, warmup=warmup)
    policies = [make_policy(orders, 16, [], worker, 2) for worker in range(2)]
    # Two blocks of 8 each, so that both together have seen two blocks of 16.
    assert [len(drive(policy, MS)) for policy in policies] == [16, 16]
    assert [policy.ended for policy in policies] == ["steady", "steady"]


def test_warmup_goes_on_while_the_medians_differ_by_a_tenth() -> None:
    tried = rule()
    assert [tried.end(n, 1000 if n < 16 else 1100) for n in range(32)] == [None] * 32
    # The window slides: once both blocks hold only the later times it is steady.
    assert [tried.end(n, 1100) for n in range(32, 48)][-1] == "steady"


def test_warmup_without_steadiness_ends_with_its_counts() -> None:
    tried = rule(4, least=100, steady=False)
    assert [tried.end(now, 1) for now in (10, 20, 30, 40, 99, 100)] == [None] * 5 + ["complete"]


def test_warmup_gives_up_at_its_longest_duration() -> None:
    tried = rule(most=50)
    assert [tried.end(now, now * 1000) for now in (10, 49, 50)] == [None, None, "max_duration"]


def test_warmup_policy_ends_the_issuing_and_says_when_its_plan_was_too_short() -> None:
    steady = Warmup(ClosedLoop(64, 1, Limits()), rule(8, steady=False))
    assert len(drive(steady, MS)) == 8
    assert steady.ended == "complete"
    short = Warmup(ClosedLoop(20, 1, Limits()), rule(16))
    assert len(drive(short, MS)) == 20
    assert short.ended == "max_queries"


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@given(total=st.integers(0, 50))
def test_shares_add_up(workers: int, total: int) -> None:
    parts = [share(total, w, workers) for w in range(workers)]
    assert parts == [len(range(w, total, workers)) for w in range(workers)]


def test_workers_share_slots_floors_and_limits() -> None:
    orders = PhaseOrders(Limits(min_units=10, max_units=None), slots=5, connections=5)
    counts = []
    for worker in range(2):
        policy = make_policy(orders, 100, [], worker, 2)
        in_flight = 0
        while policy.due_ns() == 0:
            policy.issue(0)
            in_flight += 1
        counts.append(in_flight)
    assert counts == [3, 2]


def test_warmup_orders_wrap_the_scenarios_policy() -> None:
    warmup = WarmupOrders(units=6, min_duration_ns=0, max_duration_ns=MS, steady=False)
    orders = PhaseOrders(Limits(), slots=2, connections=2, warmup=warmup)
    policy = make_policy(orders, 10, [], 1, 2)
    assert len(drive(policy, 1)) == 3
    assert policy.ended == "complete"
