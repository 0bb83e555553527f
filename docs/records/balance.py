"""The balance of a silver table by its commits: python balance.py …/bronze/orders …/silver/orders."""

import json
import sys
from pathlib import Path

PLACES = ("accepted", "quarantined", "dropped", "tombstones", "duplicates", "late", "other")


def commits(table):
    """Version, metadata and rows per data file of each commit that the log has, oldest first."""
    files = sorted(Path(table, "_delta_log").glob("[0-9]" * 20 + ".json"))
    if not files or int(files[0].stem):
        sys.exit(f"{table}: the log has no commit 0: there is no table, or Delta has deleted old commits")
    for file in files:
        actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
        text = next((each["commitInfo"] for each in actions if "commitInfo" in each), {}).get("userMetadata")
        told = json.loads(text) if text and text.startswith('{"') else {}  # others may write any text there
        if told.get("format", 1) != 1:
            sys.exit(f"{file}: format {told['format']}; this program reads format 1")
        added = (each["add"] for each in actions if "add" in each and each["add"]["dataChange"])
        yield int(file.stem), told, [json.loads(each["stats"])["numRecords"] for each in added]


def main(bronze, silver):
    """Compare what each micro-batch has counted with the rows that it has read."""
    batches, totals = [each for each in commits(bronze) if "batch_id" in each[1]], dict.fromkeys(PLACES, 0)
    files = [(version, index, n) for version, _, rows in batches for index, n in enumerate(rows)]
    for version, told, _ in commits(silver):
        if told.get("step") == "accepted" or told.get("by") == "first load":  # others count no rows of bronze
            totals = {place: totals[place] + told["counts"].get(place, 0) for place in PLACES}
            end = told["positions"][0]  # all commits below this version are read, and of it files up to index
            read = sum(n for at, i, n in files if (at, i) <= (end["reservoirVersion"], end["index"]))
            if "batch_id" in told and (counted := sum(totals.values())) != read:
                sys.exit(f"version {version}: {read} rows read, {counted} counted: {totals}")
    print(*(f"{place:12}{totals[place]:>12,}" for place in PLACES), sep="\n")
    print(f"balanced: {sum(totals.values()):,} rows; read up to {batches[-1][1]['positions']}")


main(*sys.argv[1:]) if sys.argv[2:] else sys.exit(__doc__)
