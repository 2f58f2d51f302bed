"""Systems with a known fault, from evidence to verdict: INVALID, and for the right reason."""

from __future__ import annotations

MS = 1_000_000
AFTER_SEND = ("first_byte_ns", "first_token_ns", "last_token_ns", "completed_ns")


def moved(columns, row, by_ns, names=AFTER_SEND):
    for name in names:
        if columns[name][row] is not None:
            columns[name][row] += by_ns


def failed(columns, row, kind, after_ns):
    columns["failure"][row] = kind
    columns["completed_ns"][row] = columns["sent_ns"][row] + after_ns
    for name in ("first_byte_ns", "first_token_ns", "last_token_ns", "output_tokens", "output_token_source"):
        columns[name][row] = None


def test_a_system_that_serves_a_third_of_the_load(rejudged):
    def change(columns):
        free = 0
        for row, sent in enumerate(columns["sent_ns"]):
            start = max(sent, free)
            free = start + 30 * MS
            moved(columns, row, start - sent)

    verdict = rejudged(change)
    assert verdict["verdict"] == "INVALID"
    assert any(reason.startswith("the system was overloaded") for reason in verdict["reasons"])
    assert any(reason.startswith("p99 TTFT is over its bound") for reason in verdict["reasons"])
    assert not any("client" in reason for reason in verdict["reasons"])


def test_a_system_that_stalls_now_and_then(rejudged):
    def change(columns):
        for row in range(0, len(columns["seq"]), 50):
            moved(columns, row, 900 * MS, ("last_token_ns", "completed_ns"))

    verdict = rejudged(change)
    assert [reason.split(":")[0] for reason in verdict["reasons"]] == [
        "p99 end-to-end latency is over its bound",
        "p99 TPOT is over its bound",
    ]


def test_a_system_that_refuses_fast_gains_nothing(rejudged):
    def change(columns):
        for row in range(0, len(columns["seq"]), 20):
            failed(columns, row, "rejected", MS)

    verdict = rejudged(change)
    assert verdict["verdict"] == "INVALID"
    assert verdict["reasons"][0] == "105 of 2 100 performance queries failed (rejected 105): 5 % > 0 %"
    assert "TTFT is over its bound: none > 20 ms (105 of 2 100 queries over" in verdict["reasons"][3]


def test_a_client_that_wakes_up_late(rejudged):
    def change(columns):
        for row in range(0, len(columns["seq"]), 40):
            moved(columns, row, 3 * MS, ("issued_ns", "sent_ns"))

    verdict = rejudged(change)
    assert verdict["reasons"] == ["the client was the bottleneck: p99 send lag 3.03 ms > 1 ms"]


def test_a_system_that_slows_down_over_the_run(rejudged):
    def change(columns):
        n = len(columns["seq"])
        for row in range(n):
            moved(columns, row, 8 * MS * row // n)

    verdict = rejudged(change)
    drifted, unsettled = verdict["reasons"]
    assert drifted.startswith("latency drifted: the second half's median is")
    assert unsettled.startswith("the run never settled")


def test_an_edited_completion(rejudged):
    def change(columns):
        columns["completed_ns"][7] = columns["issued_ns"][7] - 5 * MS

    reasons = rejudged(change)["reasons"]
    assert "1 samples of the performance phase have a stamp before an earlier one" in reasons
    assert any(reason.startswith("the performance log contradicts itself") for reason in reasons)
