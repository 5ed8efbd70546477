"""From samples to verdicts: medians, ratios round by round, targets, as a table and as JSON."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from scripts.benchmarks.proxies import NAMES


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one proxy in one round."""

    measure: str
    proxy: str
    round: int
    figures: dict[str, float] = field(default_factory=dict)
    failure: str | None = None
    """What broke; then there are no figures."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    measure: str
    figure: str
    title: str
    digits: int


ROWS = (
    Row("messages", "messages_per_second", "64 B messages a second, pipelined", 0),
    Row("messages", "cpu_us_per_message", "CPU a message, pipelined (µs)", 1),
    Row("messages-single", "messages_per_second", "64 B messages a second, one under way a session", 0),
    Row("messages-single", "cpu_us_per_message", "CPU a message, one under way a session (µs)", 1),
    Row("chunks-64k", "mib_per_second", "64 KiB chunks (MiB/s)", 0),
    Row("chunks-64k", "cpu_seconds_per_gib", "CPU a GiB, 64 KiB chunks (s)", 2),
    Row("chunks-1m", "mib_per_second", "1 MiB chunks (MiB/s)", 0),
    Row("chunks-1m", "cpu_seconds_per_gib", "CPU a GiB, 1 MiB chunks (s)", 2),
    Row("resume", "mib_per_second", "Streaming protocol, 64 KiB chunks (MiB/s)", 0),
    Row("resume", "cpu_seconds_per_gib", "CPU a GiB, streaming protocol (s)", 2),
    Row("opens", "opens_per_second", "Session opens a second", 0),
    Row("opens", "cpu_us_per_open", "CPU an open and close (µs)", 0),
    Row("memory", "pss_kib_per_session", "Memory a session, PSS (KiB)", 1),
    Row("memory", "rss_kib_per_session", "Memory a session, RSS (KiB)", 1),
    Row("stalled-64k", "growth_mib", "Growth, stalled client, 64 KiB chunks (MiB)", 1),
    Row("stalled-1m", "growth_mib", "Growth, stalled client, 1 MiB chunks (MiB)", 1),
    Row("probes", "percent_of_a_core", "Probing 200 replicas every 5 s (% of a core)", 2),
)


@dataclass(frozen=True, slots=True)
class Target:
    """What the gateway must reach: its own figure, or a ratio with another proxy's in the same round."""

    title: str
    measure: str
    figure: str
    limit: float
    at_least: bool
    over: str | None = None
    """The other proxy."""
    of: str = "gateway"
    """Whose figure it is."""
    inverse: bool = False
    """The ratio is other over gateway, so that for a cost more is better."""


def _cost(measure: str, figure: str, title: str, limit: float) -> Target:
    return Target(f"{title}, to haproxy's", measure, figure, limit, at_least=False, over="haproxy")


def _yield(measure: str, figure: str, title: str, limit: float, over: str) -> Target:
    return Target(f"{title}, to {over}'s", measure, figure, limit, at_least=True, over=over, inverse=True)


TARGETS = (
    _cost("chunks-64k", "cpu_seconds_per_gib", "CPU a GiB, 64 KiB chunks", 1.1),
    _cost("chunks-1m", "cpu_seconds_per_gib", "CPU a GiB, 1 MiB chunks", 1.1),
    Target(
        "CPU a GiB, 64 KiB chunks, ready to resume, to passthrough's",
        "resume",
        "cpu_seconds_per_gib",
        1.15,
        at_least=False,
        over="gateway",
        of="gateway-streaming",
    ),
    *(
        _yield(measure, figure, title, limit, over)
        for measure, figure, title, limit in (
            ("messages", "cpu_us_per_message", "messages a CPU second", 1.35),
            ("opens", "cpu_us_per_open", "opens a CPU second", 2.5),
        )
        for over in ("baseline", "baseline-legacy")
    ),
    Target("growth, stalled client, 64 KiB chunks (MiB)", "stalled-64k", "growth_mib", 16, at_least=False),
    Target("growth, stalled client, 1 MiB chunks (MiB)", "stalled-1m", "growth_mib", 16, at_least=False),
    Target("probing 200 replicas (% of a core)", "probes", "percent_of_a_core", 8, at_least=False),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target held against what was measured."""

    target: Target
    values: tuple[float, ...]
    """One a round."""

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def passed(self) -> bool:
        return self.value >= self.target.limit if self.target.at_least else self.value <= self.target.limit

    def as_json(self) -> dict[str, object]:
        return asdict(self.target) | {"rounds": self.values, "value": self.value, "passed": self.passed}


class Results:
    """All samples of a run."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self.samples = samples

    def values(self, measure: str, proxy: str, figure: str) -> dict[int, float]:
        """By round."""
        return {
            sample.round: sample.figures[figure]
            for sample in self.samples
            if (sample.measure, sample.proxy) == (measure, proxy) and figure in sample.figures
        }

    def median(self, measure: str, proxy: str, figure: str) -> float | None:
        values = self.values(measure, proxy, figure)
        return statistics.median(values.values()) if values else None

    def failures(self) -> list[Sample]:
        return [sample for sample in self.samples if sample.failure is not None]

    def load_bound(self, measure: str, proxy: str) -> bool:
        """The load generator's core was full, the proxy's was not: the rate is not the proxy's limit."""
        load = self.median(measure, proxy, "load_busy")
        busy = self.median(measure, proxy, "proxy_busy")
        return proxy != "direct" and load is not None and busy is not None and load > 0.9 and busy < 0.95

    def verdicts(self) -> list[Verdict]:
        """One for each target whose figures were measured."""
        verdicts = []
        for target in TARGETS:
            ours = self.values(target.measure, target.of, target.figure)
            if target.over is None:
                values = list(ours.values())
            else:
                theirs = self.values(target.measure, target.over, target.figure)
                values = [
                    theirs[at] / ours[at] if target.inverse else ours[at] / theirs[at]
                    for at in sorted(ours.keys() & theirs.keys())
                ]
            if values:
                verdicts.append(Verdict(target, tuple(values)))
        return verdicts

    def as_json(self, about: dict[str, object]) -> dict[str, object]:
        medians = [
            {"measure": row.measure, "figure": row.figure, "proxy": proxy, "median": median}
            for row in ROWS
            for proxy in NAMES
            if (median := self.median(row.measure, proxy, row.figure)) is not None
        ]
        return {
            "about": about,
            "medians": medians,
            "targets": [verdict.as_json() for verdict in self.verdicts()],
            "samples": [asdict(sample) for sample in self.samples],
        }

    def markdown(self, about: dict[str, object]) -> str:
        proxies = [name for name in NAMES if any(sample.proxy == name for sample in self.samples)]
        parts = ["# Benchmark", "", *(f"- {key}: {value}" for key, value in about.items()), ""]
        parts += _table(["", *proxies], [0], self._figures(proxies))
        if any(self.load_bound(sample.measure, sample.proxy) for sample in self.samples):
            parts += [
                "",
                "\\* the load generator set the pace; the CPU figure holds, the rate is a lower bound.",
            ]
        verdicts = self.verdicts()
        if verdicts:
            parts += ["", "## Targets", ""]
            parts += _table(
                ["gateway's", "wanted", "median", "rounds", ""],
                [0, 4],
                (_judged(verdict) for verdict in verdicts),
            )
        failures = self.failures()
        if failures:
            parts += ["", "## Failed", ""]
            parts += [f"- {s.measure}, {s.proxy}, round {s.round}: {s.failure}" for s in failures]
        return "\n".join(parts) + "\n"

    def _figures(self, proxies: Iterable[str]) -> Iterable[list[str]]:
        for row in ROWS:
            if any(sample.measure == row.measure for sample in self.samples):
                yield [row.title, *(self._cell(row, proxy) for proxy in proxies)]

    def _cell(self, row: Row, proxy: str) -> str:
        median = self.median(row.measure, proxy, row.figure)
        if median is None:
            failed = any((s.measure, s.proxy) == (row.measure, proxy) and s.failure for s in self.samples)
            return "failed" if failed else ""
        mark = "*" if row.figure.endswith("_per_second") and self.load_bound(row.measure, proxy) else ""
        return f"{median:,.{row.digits}f}{mark}"


def _judged(verdict: Verdict) -> list[str]:
    target = verdict.target
    return [
        target.title,
        f"{'≥' if target.at_least else '≤'} {target.limit:g}",
        f"{verdict.value:.2f}",
        " ".join(f"{value:.2f}" for value in verdict.values),
        "pass" if verdict.passed else "missed",
    ]


def _table(header: list[str], left: Sequence[int], rows: Iterable[list[str]]) -> list[str]:
    """Markdown padded to read well in a terminal too; all columns but the `left` ones align right."""
    lines = [header, *rows]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(header))]

    def pad(column: int, text: str) -> str:
        return text.ljust(widths[column]) if column in left else text.rjust(widths[column])

    written = ["| " + " | ".join(pad(at, cell) for at, cell in enumerate(line)) + " |" for line in lines]
    rule = "|" + "|".join(
        "-" * (width + 2) if at in left else "-" * (width + 1) + ":" for at, width in enumerate(widths)
    )
    return [written[0], rule + "|", *written[1:]]
