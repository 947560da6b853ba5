import json

from hypothesis import given
from hypothesis import strategies as st

from rince.report.page import as_json, page


@given(st.text())
def test_no_text_can_end_the_script_it_stands_in_and_none_is_lost(text):
    encoded = as_json({"text": text})
    assert not set(encoded) & set("<>&\u2028\u2029")
    assert json.loads(encoded) == {"text": text}


def test_the_title_is_text_and_the_policy_allows_no_request():
    made = page("<script>alert(1)</script>", "<main></main>", {})
    assert "<script>alert(1)" not in made
    assert "default-src 'none'" in made and "http://" not in made.replace("http://www.w3.org/2000/svg", "")
