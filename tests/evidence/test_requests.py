"""The digest of the requests, and the environment's allow-list."""

from __future__ import annotations

import getpass
import hashlib
import json
import socket
from pathlib import Path

import numpy as np

from fairmark.evidence.environment import environment, hashed_host
from fairmark.evidence.requests import requests_sha256


def test_the_digest_is_over_the_digests_in_seq_order() -> None:
    bodies = {5: b"five", 2: b"two"}
    parts = [hashlib.sha256(b).digest() for b in (b"two", b"five", b"two")]
    expected = hashlib.sha256(b"".join(parts)).hexdigest()
    assert requests_sha256(bodies, np.array([2, 5, 2])) == expected
    assert requests_sha256(bodies, np.array([5, 2, 2])) != expected


def test_the_digest_does_not_depend_on_how_it_is_cut() -> None:
    order = np.arange(70_000) % 3
    bodies = {n: bytes([n]) for n in range(3)}
    whole = hashlib.sha256(b"".join(hashlib.sha256(bodies[n]).digest() for n in order.tolist()))
    assert requests_sha256(bodies, order) == whole.hexdigest()


def test_the_environment_names_no_host_user_or_path() -> None:
    found = environment()
    text = json.dumps(found, allow_nan=False)
    assert found["cores_logical"] >= 1
    assert found["memory_bytes"] > 0
    assert found["packages"]["numpy"] == np.__version__
    assert str(Path.home()) not in text
    assert json.dumps(socket.gethostname()) not in text
    assert json.dumps(getpass.getuser()) not in text


def test_the_hosts_name_is_hashed_the_same_every_time() -> None:
    assert hashed_host() == hashed_host()
    assert len(hashed_host()) == 16
