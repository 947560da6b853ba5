import time

from rince.audit.input.arrays import matrix
from rince.audit.input.source import source


def test_columns_by_the_thousand_are_found_in_time(tmp_path):
    names = ",".join(f"c{i}" for i in range(40_000))
    (tmp_path / "a.csv").write_text(f"{names}\n{','.join(['1.5'] * 40_000)}\n")
    start = time.process_time()
    assert matrix(source(str(tmp_path / "a.csv")), tmp_path).shape == (1, 40_000)
    assert time.process_time() - start < 10
