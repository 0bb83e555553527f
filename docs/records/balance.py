"""The balance of a silver table by its commits: python balance.py …/bronze/orders …/silver/orders."""

import json
import sys
from pathlib import Path

PLACES = ("accepted", "quarantined", "dropped", "tombstones", "duplicates", "late", "other")


def commits(table):
    """Version, metadata and rows per data file of each commit that the log has, oldest first."""
    for file in sorted(Path(table, "_delta_log").glob("*[0-9].json")):
        actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
        told = next((each["commitInfo"] for each in actions if "commitInfo" in each), {}).get("userMetadata")
        told = json.loads(told) if told else {}
        if told.get("format", 1) != 1:
            sys.exit(f"{file}: format {told['format']}; this program reads format 1")
        added = [each["add"] for each in actions if "add" in each and each["add"]["dataChange"]]
        yield int(file.stem), told, [json.loads(each["stats"])["numRecords"] for each in added]


def main(bronze, silver):
    """Compare what each micro-batch has counted with the rows that it has read."""
    batches = [(version, told, rows) for version, told, rows in commits(bronze) if "batch_id" in told]
    files = [(version, index, n) for version, _, rows in batches for index, n in enumerate(rows)]
    totals = dict.fromkeys(PLACES, 0)
    for version, told, _ in commits(silver):
        if told.get("step") != "accepted" and told.get("by") != "first load":
            continue  # another step of a micro-batch that is counted already, or an operation
        for place in PLACES:
            totals[place] += told["counts"].get(place, 0)
        end = told["positions"][0]  # all commits below this version are read, and of it the files up to index
        read = sum(n for at, index, n in files if (at, index) <= (end["reservoirVersion"], end["index"]))
        if "batch_id" in told and sum(totals.values()) != read:
            sys.exit(f"version {version}: {read} rows read, {sum(totals.values())} counted: {totals}")
    print(*(f"{place:12}{totals[place]:>12,}" for place in PLACES), sep="\n")
    print(f"balanced: {sum(totals.values()):,} rows; read up to {batches[-1][1]['positions']}")


main(*sys.argv[1:])
