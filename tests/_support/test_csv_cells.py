import csv

import pytest

from rince._support.csv_cells import CsvWriter, unescaped

FORMULAS = ["=1+1", "\uff1d1+1", "\n=1+1", " \n =1+1", "\t=1", "@SUM(A1)", "+cmd", "-cmd|' /C calc'!A0", "''=x"]


@pytest.mark.parametrize("text", FORMULAS)
def test_formula_is_escaped_and_read_back(tmp_path, text):
    with open(tmp_path / "x.csv", "w", newline="", encoding="utf-8") as file:
        CsvWriter(file).writerows([["id", 1], [text, -2.5]])
    with open(tmp_path / "x.csv", newline="", encoding="utf-8") as file:
        header, row = csv.reader(file)
    assert header == ["id", "1"] and row == [f"'{text}", "-2.5"]
    assert unescaped(row[0]) == text


@pytest.mark.parametrize("text", ["-12.5", "plain", "'plain", "a=b", ""])
def test_plain_text_is_unchanged(tmp_path, text):
    with open(tmp_path / "x.csv", "w", newline="", encoding="utf-8") as file:
        CsvWriter(file).writerow([text, "end"])
    with open(tmp_path / "x.csv", newline="", encoding="utf-8") as file:
        assert next(csv.reader(file)) == [text, "end"]
