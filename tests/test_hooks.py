"""What installed packages may add: found by metadata, imported when asked for, named when broken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairmark import hooks
from fairmark.cli import cli
from fairmark.errors import InputError
from fairmark.hooks import Section, named_samples, report_sections
from fairmark.samples.library import load_library
from fairmark.scenario.model import Generation, Samples

ROOT = Path(__file__).parents[1]

SAMPLES = """
from pathlib import Path
import fairmark
@fairmark.hookimpl
def fairmark_samples():
    return {"acme-questions": Path(__file__).with_name("questions.jsonl")}
"""
SECTIONS = """
import fairmark
from fairmark.hooks import Section
@fairmark.hookimpl
def fairmark_report_sections(records):
    rows = [(record["scenario"]["scenario"], "<42>") for record in records]
    return [Section("Rack units", ("run", "units"), rows)]
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """``install(distribution, group, {entry point: source of its module})``."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def make(distribution: str, group: str, **modules: str) -> None:
        info = site / f"{distribution}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        points = ""
        for name, source in modules.items():
            module = f"{distribution}_{name}"
            (site / f"{module}.py").write_text(source)
            points += f"{name.replace('_', '-')} = {module}\n"
        (info / "entry_points.txt").write_text(f"[{group}]\n{points}")

    yield make
    for module in [name for name, m in sys.modules.items() if str(site) in str(getattr(m, "__file__", ""))]:
        del sys.modules[module]


def test_a_sample_library_is_read_like_any_other_file(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRMARK_CACHE", str(tmp_path / "cache"))
    install("acme", "fairmark.samples", acme_questions=SAMPLES)
    (tmp_path / "site" / "questions.jsonl").write_text('{"question": "Why?"}\n{"question": "How?"}\n')
    spec = Samples(source="plugin:acme-questions", prompt="question")
    library = load_library(spec, Generation(), base=tmp_path)
    assert [library.row(n)["question"] for n in range(2)] == ["Why?", "How?"]
    assert [file.name for file in library.files] == ["questions.jsonl"]


def test_unknown_samples_are_named_with_the_known_ones(install: Install) -> None:
    install("acme", "fairmark.samples", acme_questions=SAMPLES)
    with pytest.raises(InputError, match=r"no installed plugin.*'plugin:nope'.*accepted: acme-questions"):
        named_samples("nope")
    assert "acme_acme_questions" not in sys.modules


def test_samples_that_two_packages_claim_are_refused(install: Install) -> None:
    install("acme", "fairmark.samples", acme_questions=SAMPLES)
    install("bolt", "fairmark.samples", acme_questions=SAMPLES)
    with pytest.raises(InputError, match=r"claimed by plugin acme-questions of (acme|bolt) 1.0 and plugin"):
        named_samples("acme-questions")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
        ("raise SystemExit(0)", "cannot be imported: SystemExit: 0"),
        ("", "gives no path for it"),
        (
            SAMPLES.replace("return {", "return [{").replace(")}", ")}]"),
            "fairmark_samples: TypeError: gives a list for a mapping of names to paths",
        ),
        (
            SAMPLES.replace("fairmark_samples()", "fairmark_samples(rows)"),
            "fairmark_samples: PluginValidationError",
        ),
    ],
)
def test_a_broken_sample_plugin_is_named_with_the_reason(install: Install, source: str, words: str) -> None:
    install("acme", "fairmark.samples", acme_questions=source)
    with pytest.raises(InputError) as refused:
        named_samples("acme-questions")
    assert words in str(refused.value)
    assert "plugin acme-questions of acme 1.0" in str(refused.value)


def test_sections_of_all_plugins_but_the_broken_ones(install: Install) -> None:
    install("acme", "fairmark.report", units=SECTIONS)
    install("bolt", "fairmark.report", broken="import no_such_module")
    install("cork", "fairmark.report", texts=SECTIONS.replace("[Section(", "[str(").replace(", rows)]", ")]"))
    found = list(report_sections([{"scenario": {"scenario": "Server"}}]))
    assert [item for item in found if isinstance(item, Section)] == [
        Section("Rack units", ["run", "units"], [["Server", "<42>"]])
    ]
    problems = [str(item) for item in found if isinstance(item, InputError)]
    assert problems[0].startswith("plugin broken of bolt 1.0: cannot be imported: ModuleNotFoundError")
    assert problems[1].startswith("plugin texts of cork 1.0: fairmark_report_sections: TypeError")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"<42>"', "42", "TypeError: has a int for the text of a cell"),
        ('"Rack units"', "None", "TypeError: has a NoneType for the text of a cell"),
        ('("run", "units")', '"ru"', "TypeError: has a text for a row of cells"),
        (", rows)", ", None)", "TypeError: 'NoneType' object is not iterable"),
        ("rows =", "raise SystemExit(3); rows =", "SystemExit: 3"),
        ("import fairmark\n", "import fairmark; raise SystemExit(3)\n", "cannot be imported: SystemExit: 3"),
    ],
)
def test_a_section_that_cannot_be_shown_is_a_remark(install: Install, old: str, new: str, words: str) -> None:
    assert SECTIONS.count(old) == 1
    install("acme", "fairmark.report", units=SECTIONS.replace(old, new))
    (problem,) = report_sections([{"scenario": {"scenario": "Server"}}])
    assert isinstance(problem, InputError)
    assert words in str(problem)


def test_a_report_shows_a_plugins_table_escaped_and_warns_of_a_broken_one(
    install: Install, server_run: Path, tmp_path: Path
) -> None:
    install("acme", "fairmark.report", units=SECTIONS)
    install("bolt", "fairmark.report", broken="1 / 0")
    page = tmp_path / "report.html"
    done = CliRunner().invoke(cli, ["report", str(server_run), "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert "Rack units" in done.stdout
    assert "warning: plugin broken of bolt 1.0: cannot be imported: ZeroDivisionError" in done.stderr
    assert "<h2>Rack units</h2>" in page.read_text()
    assert "&lt;42&gt;" in page.read_text()


def test_every_hook_is_documented() -> None:
    guide = (ROOT / "docs" / "plugins.md").read_text("utf-8")
    hooks_there = [name for name in hooks.__all__ if name.startswith("fairmark_")]
    assert len(hooks_there) == 2
    for name in [*hooks_there, "fairmark_suts"]:
        assert f"`{name}" in guide
    for group in (hooks.SAMPLES, hooks.REPORT):
        assert f'"{group}"' in guide
