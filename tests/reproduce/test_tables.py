from rince.reproduce.tables import aligned, as_csv, mean_and_deviation, plus_minus


def test_mean_and_deviation_of_a_sample():
    assert mean_and_deviation([1.0, 3.0]) == (2.0, 2**0.5)
    assert mean_and_deviation([5.0]) == (5.0, 0.0)


def test_one_value_has_no_deviation_to_show():
    assert plus_minus([74.4, 74.6]) == "74.5 ± 0.1"
    assert plus_minus([74.44]) == "74.4"


def test_columns_line_up():
    lines = aligned(["a", "long header"], [["row one", "1"], ["2", "22"]]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1] == "| ------- | ----------: |"


def test_csv_quotes_what_needs_it():
    assert as_csv(["a", "b"], [("x,y", 1)]) == 'a,b\n"x,y",1\n'
