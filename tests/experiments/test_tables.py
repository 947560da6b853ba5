from experiments.tables import pivot, plus_minus, seeds_note, unique_runs


def test_one_value_has_no_deviation_to_show():
    assert plus_minus([74.4, 74.6]) == "74.5 ± 0.1"
    assert plus_minus([74.44]) == "74.4"


def test_cells_become_means_in_the_order_of_their_rows_and_columns():
    cells = [("b", "x", 1.0), ("b", "x", 3.0), ("a", "y", 5.0)]
    lines = pivot("corner", cells).splitlines()
    assert [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])] == [
        ["corner", "x", "y"], ["b", "2.0 ± 1.4", "-"], ["a", "-", "5.0"],
    ]  # fmt: skip
    assert seeds_note(cells) == "1 to 2 seeds (the experiment is unfinished)"
    assert seeds_note(cells[:2]) == "2 seeds"


def test_equal_runs_are_done_once_in_the_place_of_the_first():
    assert unique_runs([{"eta": 0.0}, {"eta": 0.4}, {"eta": 0.0}]) == [{"eta": 0.0}, {"eta": 0.4}]
