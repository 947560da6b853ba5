import csv
import time

from rince.audit.input.arrays import matrix
from rince.audit.input.source import source
from rince.audit.input.text_tables import cell_batches, names_of


def test_columns_by_the_thousand_are_found_in_time(tmp_path):
    names = ",".join(f"c{i}" for i in range(40_000))
    (tmp_path / "a.csv").write_text(f"{names}\n{','.join(['1.5'] * 40_000)}\n")
    start = time.process_time()
    assert matrix(source(str(tmp_path / "a.csv")), tmp_path).shape == (1, 40_000)
    assert time.process_time() - start < 10


def test_the_bound_on_cells_of_other_readers_is_left_as_it_was(tmp_path):
    before = csv.field_size_limit()
    (tmp_path / "a.csv").write_text("text,more\n" + f"{'x' * (before + 1)},1\n" * 3)
    where = source(str(tmp_path / "a.csv:text"))
    batches = cell_batches(where, names_of(where)[:1])
    assert csv.field_size_limit() == before
    assert [len(cell) for cell in next(batches)[0]] == [before + 1] * 3
    assert csv.field_size_limit() == before
