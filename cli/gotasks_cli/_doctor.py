"""``gotasks doctor``: what is wrong with a store and its tasks, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from gotasks_cli._options import AppOption, OutputOption, StoreOption
from gotasks_cli._output import Format, print_records
from gotasks_cli._problems import ExitCode
from gotasks_cli._session import Target, run, unopened
from gotasks_py import Finding, Severity
from gotasks_py.examining import examined


def doctor(
    *,
    app: AppOption = None,
    store: StoreOption = None,
    output: OutputOption = Format.TABLE,
) -> ExitCode:
    """Check the server, the user's rights, indexes and query plans; look for stuck tasks.

    Changes nothing. A due task counts as stuck after five minutes, a lapsed lease after one.

    The exit code is 1 when something is wrong; warnings leave it at 0.
    """
    target = Target(app, store)

    async def work() -> Sequence[Finding]:
        async with unopened(target) as here:
            return await examined(here)

    findings = run(work)
    rows = [
        {
            "is": finding.severity,
            "check": finding.check,
            "found": finding.message,
            "remedy": finding.remedy,
        }
        for finding in findings
    ]
    print_records(rows, output)
    is_wrong = any(finding.severity is Severity.ERROR for finding in findings)
    return ExitCode.FAILED if is_wrong else ExitCode.OK
