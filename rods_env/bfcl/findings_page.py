"""Writes the lists of docs/bfcl-findings.md, of all 800 tasks: `python -m rods_env.bfcl.findings_page`, `make docs`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rods_env.bfcl.findings import REASONS, WEAK, Finding, findings
from rods_env.bfcl.source import CATEGORIES
from rods_env.bfcl.tasks import BfclTask, bfcl_tasks, number_of
from rods_env.tasks.task import write_atomically

PAGE = Path("docs") / "bfcl-findings.md"
BEGIN, END = "<!-- findings: made by `python -m rods_env.bfcl.findings_page` -->", "<!-- end of findings -->"


def lists(tasks: Sequence[BfclTask]) -> str:
    """The findings of tasks in Markdown: how many break a rule, then a table for each rule."""
    found = [finding for task in tasks for finding in findings(task)]
    strong = {finding.task for finding in found if finding.reason not in WEAK}
    lines = [
        f"{len({f.task for f in found})} of {len(tasks)} tasks have a finding; {len(strong)} one that is not weak.",
        "", "| reason | what it says | tasks | findings |", "|---|---|---|---|",
    ]  # fmt: skip
    count = Counter(finding.reason for finding in found)
    for reason, meaning in REASONS.items():
        weak = " (weak)" if reason in WEAK else ""
        some = len({finding.task for finding in found if finding.reason == reason})
        lines.append(f"| `{reason}`{weak} | {meaning} | {some} | {count[reason]} |")
    for reason in REASONS:
        rows = _rows(finding for finding in found if finding.reason == reason)
        if rows:
            lines += ["", f"### {reason}", "", "| number | category and turn | call | finding |", "|---|---|---|---|"]
            lines += rows
    return "\n".join(lines) + "\n"


def _rows(found: Iterable[Finding]) -> list[str]:
    """A row for what the tasks of one number have in common."""
    places: dict[tuple[int, str, str], list[str]] = {}
    for finding in found:
        category = next(name for name in CATEGORIES if f"_{name}_" in finding.task)
        where = places.setdefault((number_of(finding.task), finding.call, finding.what), [])
        where.append(f"{category} {finding.turn}")
    rows = []
    for (number, call, what), where in sorted(places.items()):
        said = what.replace("|", "\\|").replace("\n", " ")
        rows.append(f"| {number} | {', '.join(where)} | {f'`{call}`' if call else ''} | {said} |")
    return rows


def page_with(page: str, text: str) -> str:
    """A page with the lists in their place."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{text}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    write_atomically(PAGE, page_with(PAGE.read_text(encoding="utf-8"), lists(bfcl_tasks())).encode())
