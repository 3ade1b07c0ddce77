#!/usr/bin/python3
"""Draws the figures of a folder of CSV files, one SVG for each suite, or for each first word of
a section in a suite that has many; or the pictures that documents show.

usage: bench/plot.py FOLDER
       bench/plot.py --documents

The second form draws doc/plots/*.svg from the figures that bench/results keeps.

A section whose cases are numbers becomes lines, one for each system; any other becomes bars
that say how many times as good ours are as PostgreSQL's best, or bars of the figures
themselves where there is nothing to compare with.
"""
import csv
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

OURS = ["harmonia", "GPU"]
REFERENCES = ["best plan", "btree"]
COLORS = {"btree": "tab:blue", "hash": "tab:orange", "best plan": "tab:gray",
          "harmonia": "tab:green", "GPU": "tab:red"}
OTHER_COLORS = ["tab:purple", "tab:brown", "tab:pink", "tab:olive", "tab:cyan", "black"]
MANY = 16


def read(folder):
    """{suite: {section: {unit: {case: {system: value}}}}}, in the order of the files."""
    suites = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if "section" not in row or row["section"].endswith(" at first"):
                    continue
                units = suites.setdefault(row["suite"], {}).setdefault(row["section"], {})
                cases = units.setdefault(row["unit"], {})
                cases.setdefault(row["case"], {})[row["system"]] = float(row["value"])
    return suites


def is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def tick(number):
    """Sizes of trees are powers of two."""
    value = float(number)
    return f"$2^{{{int(value).bit_length() - 1}}}$" if value >= 1 << 16 and value.hex().startswith("0x1.0000000000000p") else number


def systems_of(cases):
    return list(dict.fromkeys(system for values in cases.values() for system in values))


def colors_of(systems):
    others = [system for system in systems if system not in COLORS]
    return COLORS | {system: OTHER_COLORS[i % len(OTHER_COLORS)] for i, system in enumerate(others)}


def lines(axes, unit, cases):
    numbers = sorted(cases, key=float)
    colors = colors_of(systems_of(cases))
    for system in systems_of(cases):
        points = [(float(case), cases[case][system]) for case in numbers if system in cases[case]]
        axes.plot(*zip(*points), marker="o", markersize=4, label=system, color=colors[system])
    if float(numbers[0]) > 0 and float(numbers[-1]) / float(numbers[0]) > 50:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
        axes.set_xticks([float(number) for number in numbers], [tick(number) for number in numbers])
    axes.set_ylabel(unit)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def bars(axes, groups, systems, label):
    """Horizontal bars; groups are (name, {system: value})."""
    height = 0.8 / len(systems)
    colors = colors_of(systems)
    for i, system in enumerate(systems):
        places = [(y + i * height, values[system]) for y, (_, values) in enumerate(groups) if system in values]
        drawn = axes.barh(*zip(*places), height=height, label=system, color=colors[system])
        axes.bar_label(drawn, fmt="%.3g", fontsize="x-small", padding=2)
    axes.set_yticks([y + 0.4 - height / 2 for y in range(len(groups))], [name for name, _ in groups],
                    fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.margins(x=0.12)
    if len(systems) > 1:
        axes.legend(fontsize="small")


def ratios(units):
    """How many times as good ours are: groups for bars(), and beside what."""
    groups = []
    beside = None
    for unit, cases in units.items():
        for case, values in cases.items():
            reference = next((name for name in REFERENCES if name in values), None)
            ours = [name for name in OURS if name in values]
            if reference is None or values[reference] <= 0:
                continue
            beside = reference
            times = {name: values[name] / values[reference] if unit.endswith("/s") else values[reference] / values[name]
                     for name in ours if values[name] > 0}
            if times:
                groups.append((f"{case}, {unit}" if len(units) > 1 else case, times))
    return groups, beside


def panels(sections):
    """(title, function that draws on axes, rows of bars) of each panel."""
    for section, units in sections.items():
        for unit, cases in units.items():
            if len(cases) > 1 and all(map(is_number, cases)):
                yield section, lambda axes, unit=unit, cases=cases: lines(axes, unit, cases), 0
        words = {unit: cases for unit, cases in units.items() if not all(map(is_number, cases))}
        groups, beside = ratios(words)
        if groups:
            systems = [name for name in OURS if any(name in times for _, times in groups)]

            def panel(axes, groups=groups, systems=systems, beside=beside):
                bars(axes, groups, systems, f"times as good as {beside}")
                axes.axvline(1, color="black", linewidth=1)
            yield section, panel, len(groups) * len(systems)
        else:
            for unit, cases in words.items():
                systems = systems_of(cases)
                yield (section, lambda axes, unit=unit, cases=cases, systems=systems:
                       bars(axes, list(cases.items()), systems, unit), len(cases) * len(systems))


def parts(suite, sections):
    """(name, sections) of what is drawn together."""
    if len(sections) <= MANY:
        return [(suite, sections)]
    words = {}
    for section, units in sections.items():
        words.setdefault(section.split()[0], {})[section] = units
    return [(f"{suite}-{word}", part) for word, part in words.items()]


def draw(name, sections, path):
    drawn = list(panels(sections))
    columns = min(2 if len(drawn) <= MANY else 4, len(drawn))
    rows = [drawn[i:i + columns] for i in range(0, len(drawn), columns)]
    heights = [max(4, *(0.3 * n + 1.5 for _, _, n in row)) for row in rows]
    figure, axes = plt.subplots(len(rows), columns, squeeze=False, figsize=(7.5 * columns, sum(heights)),
                                gridspec_kw={"height_ratios": heights}, layout="constrained")
    for i, (title, panel, _) in enumerate(drawn):
        place = axes[i // columns][i % columns]
        panel(place)
        place.set_title(title, fontsize="medium")
    for place in axes.flat[len(drawn):]:
        place.axis("off")
    figure.suptitle(name)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


# ----------------------------------------------------------------
# Pictures of documents
# ----------------------------------------------------------------

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPU, GPU, ANSWERS, SIZES, CORES = (ROOT / "bench/results" / name for name in (
    "2026-11-21-epyc-cpu", "2026-11-21-h100-gpu", "2026-11-25-epyc-answers", "2026-11-23-sizes-idle", "2026-11-23-16-cores"))
CPU_CONDITIONS = "PostgreSQL 15.20, 20 million random bigint keys, AMD EPYC, in memory, one process, 2026-11-21"
GPU_CONDITIONS = "PostgreSQL 15.20, 67 million random bigint keys, Intel Xeon and H100, in memory, one process, 2026-11-21"
FACTOR_CONDITIONS = """PostgreSQL 18.6, 20 million random bigint keys, in memory, one process, AMD EPYC, 2026-11-25; builds of
10 million rows 2026-11-23; VACUUM and single inserts on 15, 2026-11-21 and 2026-11-23 (16 cores of a Xeon)"""

LABELS = {"best plan": "PostgreSQL's best plan", "harmonia": "harmonia", "GPU": "harmonia on the GPU"}
COUNT, SUM = (f"{what} by number of keys in = ANY" for what in ("count(*)", "sum(v)"))

LARGE, INSERTERS = "PostgreSQL 18 with work_mem 1GB", "clients that insert: "

# What of factors.svg is in which folder, suite, section, case and unit.
FACTORS = [
    ("count, join with a million rows", ANSWERS, "answers", LARGE, "join: count(*)", "ms"),
    ("sum of the table's column, the same join", ANSWERS, "answers", LARGE, "join: sum(v)", "ms"),
    ("EXISTS", ANSWERS, "answers", LARGE, "probes that exist: sum(p)", "ms"),
    ("NOT EXISTS", ANSWERS, "answers", LARGE, "probes that do not exist: sum(p)", "ms"),
    ("count, IN (SELECT ...)", ANSWERS, "answers", LARGE, "IN (SELECT): count(*)", "ms"),
    ("sum, IN (SELECT ...)", ANSWERS, "answers", LARGE, "IN (SELECT): sum(v)", "ms"),
    ("count, stored array of a million keys", ANSWERS, "answers", LARGE, "= ANY (stored array): count(*)", "ms"),
    ("sum, the same array", ANSWERS, "answers", LARGE, "= ANY (stored array): sum(v)", "ms"),
    ("count, = ANY (ARRAY(SELECT ...))", ANSWERS, "answers", LARGE, "= ANY (ARRAY(SELECT)): count(*)", "ms"),
    ("sum, = ANY (ARRAY(SELECT ...))", ANSWERS, "answers", LARGE, "= ANY (ARRAY(SELECT)): sum(v)", "ms"),
    ("CREATE INDEX, ascending keys", SIZES, "sizes", "build", "bigserial", "ms"),
    ("CREATE INDEX, random keys", SIZES, "sizes", "build", "random bigint", "ms"),
    ("VACUUM after one row in ten is deleted", CPU, "index", "vacuum", "VACUUM after deleting every tenth row", "ms"),
    ("1 client inserts single rows, random keys", CORES, "clients", INSERTERS + "random", "1", "rows/s"),
    ("16 clients, random keys", CORES, "clients", INSERTERS + "random", "16", "rows/s"),
    ("1 client, ascending keys", CORES, "clients", INSERTERS + "ascending", "1", "rows/s"),
    ("8 clients, ascending keys", CORES, "clients", INSERTERS + "ascending", "8", "rows/s"),
]


def key_counts(axes, cases, title, systems):
    """Milliseconds by number of keys."""
    for system in systems:
        points = sorted((float(case), values[system]) for case, values in cases.items() if system in values)
        axes.plot(*zip(*points), marker="o", markersize=4, label=LABELS[system], color=COLORS[system])
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.minorticks_off()
    axes.set_title(title, fontsize="medium")
    axes.tick_params(labelsize="small")
    axes.set_xlabel("keys in the array")
    axes.set_ylabel("milliseconds")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def save(figure, name, conditions):
    figure.text(0.5, -0.02, conditions, ha="center", va="top", fontsize="small", color="dimgray")
    figure.savefig(ROOT / "doc/plots" / name, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


def draw_arrays():
    sections = read(CPU)["lookup"]
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.4), layout="constrained")
    for place, section, title in zip(axes, (COUNT, SUM), ("SELECT count(*) ... WHERE k = ANY (array)",
                                                          "SELECT sum(v) ... WHERE k = ANY (array)")):
        key_counts(place, sections[section]["ms"], title, ["best plan", "harmonia"])
    save(figure, "arrays.svg", CPU_CONDITIONS)


def draw_gpu():
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    key_counts(axes, read(GPU)["device"][COUNT]["ms"], "SELECT count(*) ... WHERE k = ANY (array)",
               ["best plan", "harmonia", "GPU"])
    save(figure, "gpu.svg", GPU_CONDITIONS)


def factor(folder, suite, section, case, unit):
    """How many times as good ours is; with PostgreSQL 18 where there are figures of two versions."""
    values = read(folder)[suite][section][unit][case]
    newest = {name.removesuffix(" PostgreSQL 18"): value for name, value in values.items() if name.endswith(" PostgreSQL 18")}
    groups, _ = ratios({unit: {case: newest or values}})
    return groups[0][1]["harmonia"]


def draw_factors():
    names = [name for name, *_ in FACTORS]
    times = [factor(*place) for _, *place in FACTORS]
    figure, axes = plt.subplots(figsize=(8, 5.2), layout="constrained")
    colors = [COLORS["harmonia"] if value >= 1 else "tab:red" for value in times]
    drawn = axes.barh(range(len(names)), [value - 1 for value in times], left=1, color=colors)
    axes.bar_label(drawn, [f"{value:.2g}" if value < 10 else f"{value:.0f}" for value in times],
                   fontsize="small", padding=3)
    axes.set_xscale("log")
    axes.set_xlim(0.5, 50)
    axes.set_xticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    axes.minorticks_off()
    axes.set_yticks(range(len(names)), names, fontsize="small")
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=1)
    axes.grid(axis="x", alpha=0.3)
    axes.set_title("How many times as fast as PostgreSQL's best plan, or as btree", fontsize="medium")
    save(figure, "factors.svg", FACTOR_CONDITIONS)


def draw_documents():
    # Text as text: small files, which a reader can search.
    matplotlib.rcParams["svg.fonttype"] = "none"
    draw_arrays()
    draw_factors()
    draw_gpu()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    # The same figures give the same file.
    matplotlib.rcParams["svg.hashsalt"] = "harmonia"
    if sys.argv[1] == "--documents":
        draw_documents()
        return
    folder = pathlib.Path(sys.argv[1])
    for suite, sections in read(folder).items():
        for name, part in parts(suite, sections):
            if any(panels(part)):
                draw(name, part, folder / f"{name}.svg")


if __name__ == "__main__":
    main()
