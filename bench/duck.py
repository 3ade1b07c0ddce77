#!/usr/bin/python3
"""Runs statements in DuckDB, in memory and with one thread, for bench/answers.sh.

Reads lines of a number, a tab and a statement, and executes each statement that many times on a
connection of its own.  Prints a line for each: the milliseconds of each time, separated by
spaces, then a tab and the last time's answer as psql -At would print it.  Ends with standard
input or after an error.
"""
import sys
import time

import duckdb


def text(value):
    return "" if value is None else str(value)


def main():
    database = duckdb.connect(":memory:", config={"threads": 1})
    for line in sys.stdin:
        times, statement = line.rstrip("\n").split("\t", 1)
        connection = database.cursor()
        took = []
        for _ in range(int(times)):
            start = time.perf_counter()
            rows = connection.execute(statement).fetchall()
            took.append(f"{(time.perf_counter() - start) * 1000:.3f}")
        answer = " ".join("|".join(map(text, row)) for row in rows)
        print(" ".join(took), answer, sep="\t", flush=True)
        connection.close()


if __name__ == "__main__":
    main()
