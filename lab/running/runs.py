"""Running an experiment: its cells measured with a progress bar, then table, page and picture.

Stopped at any time, the same command goes on where it was.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from bitgrove import ParameterError
from lab.internals import write_atomically
from lab.running.experiment import Experiment, Measured, Report
from lab.running.study import Bench, Study
from lab.running.workers import measure_all


def run(experiment: Experiment, study: Study) -> list[Path]:
    """Measures the cells that are not on disk yet; returns the files written."""
    if study.device not in experiment.devices:
        raise ParameterError(f"--device {study.device}: {experiment.name} runs on the CPU only")
    if experiment.timed and study.jobs > 1:
        raise ParameterError(f"--jobs {study.jobs}: {experiment.name} measures time, one by one")
    if study.seconds is not None and study.jobs > 1:
        raise ParameterError(f"--seconds {study.seconds:g}: not with --jobs {study.jobs}")
    cells = experiment.plan(study)
    measured: dict[int, Measured] = {}
    with tqdm(total=len(cells), desc=experiment.name, unit="run", file=sys.stderr) as bar:
        for number, one in measure_all(experiment, study, cells):
            measured[number] = one
            bar.set_postfix_str(f"{cells[number].dataset}, {cells[number].system}")
            bar.update()
    done = [number for number in range(len(cells)) if number in measured]
    if len(done) < len(cells):
        print(f"{len(done)} of {len(cells)} runs done; the same command goes on", file=sys.stderr)
        if not (done and experiment.reports_parts):
            return []
    results = [(cells[number], measured[number].result) for number in done]
    machines = list(dict.fromkeys(measured[number].machine for number in done))
    report = experiment.report(study, Bench(study), results)
    return _write(study.out / experiment.name, experiment, report, machines)


def _write(
    folder: Path, experiment: Experiment, report: Report, machines: Sequence[str]
) -> list[Path]:
    table = io.StringIO()
    header = list(dict.fromkeys(key for row in report.rows for key in row))
    writer = csv.DictWriter(table, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(report.rows)
    page = (
        f"# {experiment.name}: {experiment.summary}\n\n{report.page}\n\n"
        f"Machine: {'; '.join(machines)}\n"
    )
    written = [folder / f"{experiment.name}.csv", folder / f"{experiment.name}.md"]
    write_atomically(written[0], table.getvalue().encode())
    write_atomically(written[1], page.encode())
    picture = _draw(report)
    if picture is not None:
        written.append(folder / f"{experiment.name}.png")
        write_atomically(written[-1], picture)
    else:
        print("no picture: pip install bitgrove[plot]", file=sys.stderr)
    return written


def _draw(report: Report) -> bytes | None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=report.size, layout="constrained")
    report.draw(figure)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=130)
    return content.getvalue()
