import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.audit.estimate.places import added, compact, counted, in_cells, p_of_places, p_without, places
from rince.audit.estimate.shapes import cells

scores_of = st.lists(st.integers(0, 12), min_size=1, max_size=40)


def slow_p(score, null):
    """Mismatched pairs that score as high or higher; ties count half."""
    return (sum(other > score for other in null) + 0.5 * sum(other == score for other in null) + 0.5) / (len(null) + 1)


@settings(max_examples=200, deadline=None)
@given(scores_of, scores_of, st.lists(st.booleans(), min_size=40, max_size=40))
def test_p_values_follow_from_places_also_without_some_of_the_null(scores, null, keep):
    scores, ordered = np.array(scores, np.float32), np.sort(np.array(null, np.float32))
    kept = np.array(keep[: len(ordered)])
    place = places(scores, ordered)
    assert np.allclose(p_of_places(place, len(ordered)), [slow_p(s, ordered) for s in scores])
    assert np.allclose(p_without(place, ordered, kept), [slow_p(s, ordered[kept]) for s in scores])


def test_counts_of_parts_add_up_and_fill_the_same_cells():
    random = np.random.default_rng(0)
    scores, ordered = random.normal(size=5000).astype(np.float32), np.sort(random.normal(size=800)).astype(np.float32)
    place = places(scores, ordered)
    whole = compact(added([counted(part, 800) for part in np.split(place, [10, 10, 3000])]))
    assert whole.pairs == 5000
    assert (in_cells(p_of_places(whole.place, 800), whole.many) == cells(p_of_places(place, 800))).all()
