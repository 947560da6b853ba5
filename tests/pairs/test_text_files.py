import time

from rince.pairs.columns import matrix, values
from rince.pairs.source import source


def test_columns_by_the_thousand_are_found_in_time(tmp_path):
    names = ",".join(f"c{i}" for i in range(40_000))
    (tmp_path / "a.csv").write_text(f"{names}\n{','.join(['1.5'] * 40_000)}\n")
    start = time.process_time()
    assert matrix(source(str(tmp_path / "a.csv")), tmp_path).shape == (1, 40_000)
    assert time.process_time() - start < 10


def test_cells_longer_than_the_bound_of_the_csv_module_are_read(tmp_path):
    (tmp_path / "a.csv").write_text("text,more\n" + f"{'x' * 200_000},1\n" * 3)
    assert [len(cell) for cell in values(source(str(tmp_path / "a.csv:text")))] == [200_000] * 3
