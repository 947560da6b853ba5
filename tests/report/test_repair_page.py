"""New partners on the page of the audit, and in a table where there is none."""

import json
import re

import numpy as np
import pytest

from rince.audit import audit
from rince.noise.pairs import wrong_pairs
from rince.report.audit_page import audit_page
from rince.report.gallery import Arrays
from rince.report.repair_page import partners_on_page, repair_page
from rince.trust import best_partners
from support.chromium import Browser


@pytest.fixture(scope="module")
def repaired():
    """Audited pairs of pictures, the page of the audit, and new partners for the flagged ones."""
    random = np.random.default_rng(0)
    z = random.normal(size=(300, 16)).astype(np.float32)
    a, b = (z + 0.2 * random.normal(size=z.shape).astype(np.float32) for _ in range(2))
    partner, _ = wrong_pairs(300, 0.3, 0)
    found = audit(a, b[partner])
    pictures = Arrays(random.random((300, 4, 4)).astype(np.float32))
    page = audit_page(found, "Some <pairs>", 0.1, lambda i: f"pair {i}", pictures, pictures)
    return page, best_partners(a, b[partner], found.flag(0.1), found.trust, k=3), pictures


def name(row):
    return f"pair {row} </script>"


def test_every_listed_pair_has_its_partners_and_all_else_stays(repaired):
    page, new, pictures = repaired
    before, after = (
        json.loads(re.search(r'id="data">([^<]*)<', text)[1])
        for text in (page, partners_on_page(page, new, name, pictures))
    )
    partners = after["audit"].pop("partners")
    assert before == after
    assert set(partners) == {str(row) for row in new.rows}
    for i, row in enumerate(new.rows):
        shown = partners[str(row)]
        assert [one["id"] for one in shown] == [name(j) for j in new.partners[i]]
        assert np.allclose([one["p"] for one in shown], new.probability[i], atol=1e-3)
        assert shown[0]["item"] == pictures.item(int(new.partners[i, 0]))


def test_the_page_shows_them_in_a_browser(repaired, tmp_path):
    page, new, pictures = repaired
    (tmp_path / "repair.html").write_text(partners_on_page(page, new, name, pictures))
    browser = Browser(tmp_path)
    try:
        browser.open(tmp_path / "repair.html", ready="document.documentElement.dataset.ready === 'yes'")
        assert "perhaps pair " in browser.evaluate("document.querySelector('#list .row .facts').textContent")
        browser.evaluate("document.querySelector('#list .row').click()")
        assert browser.evaluate("document.querySelectorAll('#detail .partners figure img').length") == 3
        assert browser.evaluate("document.querySelectorAll('#detail .partners script').length") == 0
        assert browser.complaints() == []
    finally:
        browser.close()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html></html>",
        '<script type="application/json" id="data">{"kind":"audit"}</script>',
        '<script type="application/json" id="data">[1]</script>',
        '<script type="application/json" id="data">{"kind":</script>',
    ],
)
def test_a_page_that_is_not_ours_is_left_alone(repaired, text):
    assert partners_on_page(text, repaired[1], name) is None


def test_without_a_page_of_the_audit_there_is_a_table(repaired):
    _, new, pictures = repaired
    made = repair_page(new, name, pictures, pictures)
    assert made.count("<tr>") == min(200, len(new.rows)) + 1 and "</script></td>" not in made
