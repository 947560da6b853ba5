import csv
import dataclasses
import io
import json
import re
import time
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rince.audit import Issue, audit_pairs
from rince.audit.groups import group_rates, group_texts
from rince.audit.review import read_marks
from rince.noise.pairs import wrong_pairs
from rince.report.gallery import Arrays, Files, Texts
from rince.report.page import (
    MAX_MEDIA,
    MAX_ROWS,
    as_json,
    audit_data,
    audit_page,
    by_suspicion,
    histogram,
    page,
    partners_on_page,
    repair_page,
)
from rince.trust import best_partners
from support.chromium import Browser
from support.made_up_audit import made_up_audit


@given(st.text())
def test_page_data_cannot_close_the_script_element(text):
    encoded = as_json({"text": text})
    assert not set(encoded) & set("<>&\u2028\u2029")
    assert json.loads(encoded) == {"text": text}


def test_the_title_is_text_and_the_policy_allows_no_request():
    made = page("<script>alert(1)</script>", "<main></main>", {})
    assert "<script>alert(1)" not in made
    assert "default-src 'none'" in made and "http://" not in made.replace("http://www.w3.org/2000/svg", "")


def test_histogram_sums_to_one_and_clips_outliers():
    values = np.concatenate([np.linspace(0, 1, 10_000), [1e6]]).astype(np.float32)
    found = histogram({"some": values, "others": np.ones(5, dtype=np.float32)})
    assert found["high"] < 2 and len(found["shares"][0]) == 60
    assert all(abs(sum(shares) - 1) < 1e-4 for shares in found["shares"])


def test_equal_scores_still_have_an_axis():
    found = histogram({"all": np.zeros(10, dtype=np.float32)})
    assert found["low"] < found["high"] and sum(found["shares"][0]) == 1


def test_the_page_of_many_pairs_stays_small():
    result, _ = made_up_audit(n=1_500_000, rate=0.4)
    data = audit_data(result, "many", 0.1, str)
    assert len(data["rows"]["id"]) == MAX_ROWS and data["cut"] == 1_400_000
    assert len(data["stops"]) <= 402 and data["stops"][-1]["count"] == len(result.suspects()[0])
    assert len(json.dumps(data)) < 6_000_000


def test_long_texts_and_many_pictures_have_bounded_room(tmp_path):
    result, _ = made_up_audit(n=50_000)
    images = np.zeros((50_000, 4, 4), np.float32)
    data = audit_data(result, "long", 0.1, str, Texts(["x" * 5000] * 50_000), Arrays(images))
    assert sum(map(len, data["rows"]["a"])) < 32_000_000
    assert sum(item is not None for item in data["rows"]["b"]) == MAX_MEDIA


def test_rows_of_the_page_know_their_groups():
    result, _ = made_up_audit(n=300)
    groups = np.where(np.arange(300) < 100, "a", "b")
    data = audit_data(result, "groups", 0.1, str, groups=(group_texts(groups), group_rates(result, groups)))
    names = [data["group_names"][code] for code in data["rows_group"]]
    assert names == [groups[row] for row in data["rows"]["row"]]


def test_marks_are_not_shared_between_data_sets():
    keys = {audit_data(made_up_audit(n=300, seed=seed)[0], "t", 0.1, str)["key"] for seed in (0, 1)}
    assert len(keys) == 2
    named = {audit_data(made_up_audit(n=300, seed=s)[0], "t", 0.1, "pair{}".format)["key"] for s in (0, 1)}
    assert len(named) == 1, "pairs with names keep their marks when they are scored anew"


EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    result, wrong = made_up_audit()
    folder = tmp_path_factory.mktemp("audit")
    texts = [f"caption {i} {EVIL}" for i in range(len(result))]
    images = np.random.default_rng(0).random((len(result), 8, 8)).astype(np.float32)
    ids = [f"=pair,{i}" if i % 2 else f"pair {i}" for i in range(len(result))]
    groups = np.where(
        np.arange(len(result)) < 500, f"crawler {EVIL}", np.where(np.arange(len(result)) % 2, "web", None)
    )
    result.save(folder, ids=ids, show_a=images, show_b=texts, truth=wrong, title=f"Captions {EVIL}", groups=groups)
    return result, folder, ids


def open_page(browser, folder, **size):
    browser.open(folder / "audit.html", **size, ready="document.documentElement.dataset.ready === 'yes'")


def test_page_renders_without_errors_or_requests(browser, saved):
    result, folder, _ = saved
    open_page(browser, folder)
    assert browser.evaluate("document.querySelectorAll('#histogram path').length") == 2
    heights = "[...document.querySelectorAll('#histogram path')].map(p => p.getBBox().height)"
    assert min(browser.evaluate(heights)) > 20
    assert 4 < browser.evaluate("document.querySelectorAll('#list .row').length") < 40
    assert browser.evaluate("document.querySelector('#list img').naturalWidth") >= 48
    assert f"{100 * result.noise_rate:.1f}%" in browser.evaluate("document.getElementById('verdict').textContent")
    assert browser.complaints() == []
    assert browser.requests() == [(folder / "audit.html").resolve().as_uri()]


def with_issues(result, conditions=()):
    """The audit with a placeholder issue of rows 990 to 999 and a ranking of better partners."""
    scores = np.zeros(len(result), np.float32)
    scores[990:1000] = 1
    partner = np.roll(np.arange(len(result)), 1)
    issues = {
        "placeholder": Issue(
            name="placeholder", claimed=True, scores=scores, count=10, examples=np.arange(990, 1000),
            explanation=f"10 pairs share one row of b. {EVIL}",
        ),
        "better_partner": Issue(
            name="better_partner", claimed=False, scores=scores, count=0, examples=np.array([3, 4]),
            explanation="A ranking.", details={"partner": partner},
        ),
    }  # fmt: skip
    return dataclasses.replace(result, issues=issues, conditions=conditions)


def test_first_suspect_is_visible_without_scrolling(browser, tmp_path):
    result = with_issues(made_up_audit()[0], ("Valid only if the model was not trained on these pairs.",))
    result.save(tmp_path, show_a=["left"] * len(result), show_b=["right"] * len(result), title="question and answer")
    open_page(browser, tmp_path, width=1280)
    assert browser.evaluate("document.querySelector('#list .row').getBoundingClientRect().bottom") < 900
    order = ["verdict", "pairs", "slider", "histogram", "issues", "notes"]
    tops = [browser.evaluate(f"document.getElementById('{name}').getBoundingClientRect().top") for name in order]
    assert tops == sorted(tops)
    text = browser.evaluate("document.getElementById('verdict').textContent")
    assert "not trained on these pairs" in text and "related are not counted" in text
    assert browser.complaints() == []


def test_issues_list_their_pairs_and_open_their_examples(browser, tmp_path):
    result = with_issues(made_up_audit()[0])
    result.save(tmp_path)
    open_page(browser, tmp_path)
    assert EVIL in browser.evaluate("document.getElementById('issue-rows').textContent")
    assert browser.evaluate("document.querySelectorAll('#issue-rows tr').length") == 2
    browser.evaluate("document.querySelector('#issue-rows button').click()")
    assert found_pairs(browser) == 10
    assert set(listed_names(browser)) == {str(row) for row in range(990, 1000)}
    browser.evaluate("document.querySelector('#issue-rows .examples button').click()")
    assert browser.evaluate("document.getElementById('detail').open") is True
    assert "990" in browser.evaluate("document.getElementById('detail').textContent")
    assert "3 \u2192 2" in browser.evaluate("document.getElementById('issue-rows').textContent")
    assert browser.complaints() == []


def test_pairs_without_a_verdict_show_no_probability(browser, tmp_path):
    made_up_audit(rate=0.0)[0].save(tmp_path)
    open_page(browser, tmp_path)
    row = browser.evaluate("document.querySelector('#list .row').textContent")
    assert "score" in row and "likely" not in row


def test_notebook_view_has_verdict_issues_and_worst_rows():
    result = with_issues(made_up_audit()[0], ("Depends on <b>this</b>.",))
    text = result._repr_html_()
    assert "unrelated" in text and "10 pairs share one row" in text and "Depends on &lt;b&gt;" in text
    assert "<script>" not in text and f"<td>{result.suspects()[0][0]}</td>" in text


def test_order_is_suspects_then_other_issues_then_lowest_scores():
    result = with_issues(made_up_audit()[0])
    order, suspects = by_suspicion(result), result.suspects()[0]
    assert (order[: len(suspects)] == suspects).all()
    others = [row for row in range(990, 1000) if row not in suspects]
    first = len(suspects) + len(others)
    assert order[len(suspects) : first].tolist() == others
    rest = result.scores[order[first:]]
    assert (np.diff(rest) >= 0).all() and len(set(order.tolist())) == len(result)


def test_text_from_the_data_is_shown_and_never_run(browser, saved):
    _, folder, _ = saved
    open_page(browser, folder)
    assert EVIL in browser.evaluate("document.querySelector('#list .side p').textContent")
    assert EVIL in browser.evaluate("document.querySelector('h1').textContent")
    assert browser.evaluate("document.title").startswith("Captions </script>")
    assert browser.evaluate("document.scripts.length") == 2


def test_slider_changes_count_and_download(browser, saved, tmp_path):
    result, folder, ids = saved
    open_page(browser, folder)
    shown = int(browser.evaluate("document.getElementById('count').textContent").replace(",", ""))
    assert shown == len(result.flag(0.1))
    browser.evaluate("document.getElementById('slider').value = 37")
    browser.evaluate("document.getElementById('slider').dispatchEvent(new Event('input'))")
    count = int(browser.evaluate("document.getElementById('count').textContent").replace(",", ""))
    assert 0 < count < shown
    change(browser, "show", "flagged")
    assert found_pairs(browser) == count
    text = downloaded(browser, "download", tmp_path / "flagged.csv")
    rows = [row[0] for row in csv.reader(io.StringIO(text))]
    wanted = [ids[i] for i in result.suspects()[0][:count]]
    assert rows[0] == "id"
    assert [row.removeprefix("'") for row in rows[1:]] == wanted
    assert not any(row.startswith("=") for row in rows)  # a spreadsheet would run it
    assert browser.complaints() == []


def downloaded(browser, button, path):
    browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(path.parent))
    browser.evaluate(f"document.getElementById('{button}').click()")
    for _ in range(200):
        if path.exists() and path.stat().st_size:
            return path.read_bytes().decode()
        browser.evaluate("1")
        time.sleep(0.05)
    raise AssertionError(f"{path} was not downloaded: {browser.complaints()}")


def change(browser, name, value, event="change"):
    place = f"document.getElementById('{name}')"
    browser.evaluate(f"{place}.value = {json.dumps(value)}; {place}.dispatchEvent(new Event('{event}'))")


def found_pairs(browser):
    return int(browser.evaluate("document.getElementById('found').textContent").split(" of ")[0].replace(",", ""))


def listed_names(browser):
    """The names of the rows in sight, from the top."""
    rows = "[...document.querySelectorAll('#list .row')].sort((x, y) => x.dataset.place - y.dataset.place)"
    return browser.evaluate(f"{rows}.map(row => row.querySelector('.facts b').textContent)")


def clear_marks(browser):
    browser.evaluate("localStorage.clear()")


def test_pairs_are_searched_filtered_and_sorted(browser, saved):
    result, folder, ids = saved
    clear_marks(browser)
    open_page(browser, folder)
    assert found_pairs(browser) == len(result)
    assert listed_names(browser)[:5] == [ids[i] for i in result.suspects()[0][:5]]
    change(browser, "search", "CAPTION 1234 ", "input")
    browser.wait("document.getElementById('found').textContent.startsWith('1 of')")
    assert listed_names(browser) == [ids[1234]]
    change(browser, "search", "pair 12", "input")
    wanted = [
        i
        for i in range(len(ids))
        if "pair 12" in f"{ids[i]}\ncaption {i} {EVIL}" or ("pair" in ids[i] and "12" in f"{i}")
    ]
    browser.wait(f"document.getElementById('found').textContent.startsWith('{len(wanted)} of')")
    change(browser, "search", "", "input")
    browser.wait("document.getElementById('found').textContent.startsWith('2,000 of')")
    change(browser, "show", "unflagged")
    assert found_pairs(browser) == len(result) - len(result.flag(0.1))
    change(browser, "show", "all")
    change(browser, "sort", "input")
    assert listed_names(browser)[:4] == ids[:4]
    change(browser, "sort", "right")
    assert listed_names(browser)[0] == ids[int(result.scores.argmax())]
    change(browser, "sort", "id")
    assert listed_names(browser)[:3] == ["=pair,1", "=pair,3", "=pair,5"]
    change(browser, "sort", "random")
    first = listed_names(browser)
    change(browser, "sort", "suspicious")
    change(browser, "sort", "random")
    assert listed_names(browser) == first and len(set(first)) == len(first)
    assert browser.complaints() == []


def test_groups_are_listed_and_filter_the_pairs(browser, saved):
    _, folder, _ = saved
    open_page(browser, folder)
    assert browser.evaluate("document.getElementById('groups').hidden") is False
    rows = browser.evaluate("[...document.querySelectorAll('#group-rows tr')].map(row => row.textContent)")
    assert len(rows) == 3 and rows[0].startswith(f"crawler {EVIL}unusual500") and "%" in rows[0]
    browser.evaluate("document.querySelector('#group-rows button').click()")
    assert found_pairs(browser) == 500
    change(browser, "group", "")
    assert found_pairs(browser) == 2000
    assert browser.complaints() == []


def test_marks_stay_are_exported_and_read_back(browser, saved, tmp_path):
    result, folder, ids = saved
    clear_marks(browser)
    open_page(browser, folder)
    for place, mark in ((0, "wrong"), (1, "keep"), (2, "unsure"), (3, "wrong"), (3, "wrong")):  # the last takes it back
        browser.evaluate(f"document.querySelector('.row[data-place=\"{place}\"] .{mark}').click()")
    browser.evaluate("document.querySelector('.row[data-place=\"4\"]').focus()")
    for key in "wk":
        browser.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
    wanted = dict(
        zip(result.suspects()[0][[0, 1, 2, 4, 5]].tolist(), ("wrong", "keep", "unsure", "wrong", "keep"), strict=True)
    )
    open_page(browser, folder)  # as on the next day
    assert browser.evaluate("document.getElementById('marked').textContent") == "Marked: 2 keep, 2 wrong, 1 unsure"
    change(browser, "show", "wrong")
    assert listed_names(browser) == [ids[row] for row, mark in wanted.items() if mark == "wrong"]
    downloaded(browser, "export", tmp_path / "review.csv")
    assert read_marks(tmp_path / "review.csv", ids) == wanted
    clear_marks(browser)
    open_page(browser, folder)
    assert browser.evaluate("document.getElementById('marked').textContent") == "Nothing marked yet"
    load_review(browser, tmp_path / "review.csv")
    browser.wait("document.getElementById('marked').textContent === 'Marked: 2 keep, 2 wrong, 1 unsure'")
    for content, message in (("row,id,mark\n0,somebody,keep\n", "another audit"), ("a,b\n1,2\n", "not a review")):
        (tmp_path / "other.csv").write_text(content)
        load_review(browser, tmp_path / "other.csv")
        browser.wait(f"document.getElementById('review-message').textContent.includes('{message}')")
    assert browser.complaints() == []


def load_review(browser, path):
    document = browser.send("DOM.getDocument")["root"]["nodeId"]
    node = browser.send("DOM.querySelector", nodeId=document, selector="#import")["nodeId"]
    browser.send("DOM.setFileInputFiles", nodeId=node, files=[str(path)])


def test_a_pair_is_enlarged_and_marked_there(browser, saved):
    result, folder, ids = saved
    clear_marks(browser)
    open_page(browser, folder)
    browser.evaluate("document.querySelector('.row[data-place=\"0\"]').click()")
    assert browser.evaluate("document.getElementById('detail').open") is True
    for key in ("w", "k"):
        browser.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
    assert browser.evaluate("document.querySelector('#detail .facts b').textContent") == ids[result.suspects()[0][2]]
    browser.evaluate("document.getElementById('detail-close').click()")
    assert browser.evaluate("document.getElementById('marked').textContent") == "Marked: 1 keep, 1 wrong"
    clear_marks(browser)


def test_page_lists_100000_pairs_and_renders_few_rows(browser, tmp_path):
    result, _ = made_up_audit(n=100_000)
    texts = [f"sentence number {i} about nothing in particular" for i in range(len(result))]
    result.save(tmp_path, show_a=texts, show_b=texts)
    open_page(browser, tmp_path)
    assert found_pairs(browser) == 100_000
    list_ = "document.getElementById('list')"
    for share in (0.1, 0.5, 0.999, 1.0):
        browser.evaluate(f"{list_}.scrollTop = {share} * {list_}.scrollHeight")
        place = f"Math.floor({list_}.scrollTop / (document.getElementById('space').offsetHeight / 100000))"
        browser.wait(f"document.querySelector('.row[data-place=\"' + {place} + '\"]') !== null")
        assert browser.evaluate("document.querySelectorAll('.row').length") < 40
    last = browser.evaluate("Math.max(...[...document.querySelectorAll('.row')].map(row => row.dataset.place))")
    assert last == 99_999
    took = browser.evaluate(
        "(() => { const t = performance.now(); const s = document.getElementById('show'); s.value = 'flagged';"
        "s.dispatchEvent(new Event('change')); return performance.now() - t; })()"
    )
    assert found_pairs(browser) == len(result.flag(0.1))
    assert took < 1000, f"{took:.0f} ms"
    assert browser.complaints() == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out_on_a_phone_or_a_laptop(browser, saved, width, dark):
    _, folder, _ = saved
    open_page(browser, folder, width=width, dark=dark)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", background)[:3])) < 80) == dark
    assert browser.complaints() == []


def test_without_noise_the_page_says_so_and_offers_nothing_to_download(browser, tmp_path):
    result, _ = made_up_audit(rate=0.0)
    result.save(tmp_path)
    open_page(browser, tmp_path)
    assert "none found" in browser.evaluate("document.getElementById('verdict').textContent")
    assert browser.evaluate("document.getElementById('download').disabled") is True
    assert browser.evaluate("document.getElementById('slider').disabled") is True
    assert browser.complaints() == []


def test_sounds_and_missing_pictures_have_their_place(browser, tmp_path):
    result, _ = made_up_audit()
    with wave.open(str(tmp_path / "tone.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(b"\0\1" * 4000)
    result.save(tmp_path, show_a=[tmp_path / "tone.wav"] * len(result), show_b=Files([None] * len(result)))
    open_page(browser, tmp_path, width=390)
    browser.wait("document.querySelector('#list audio').readyState >= 1")
    assert browser.evaluate("document.querySelector('#list audio').duration") == 0.5
    assert browser.evaluate("document.querySelectorAll('#list .row .side').length") >= 4
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    assert browser.complaints() == []


@pytest.fixture(scope="module")
def repaired():
    """Audited pairs of pictures, the page of the audit, and new partners for the flagged ones."""
    random = np.random.default_rng(0)
    z = random.normal(size=(300, 16)).astype(np.float32)
    a, b = (z + 0.2 * random.normal(size=z.shape).astype(np.float32) for _ in range(2))
    partner, _ = wrong_pairs(300, 0.3, 0)
    found = audit_pairs(a, b[partner])
    pictures = Arrays(random.random((300, 4, 4)).astype(np.float32))
    page = audit_page(audit_data(found, "Some <pairs>", 0.1, lambda i: f"pair {i}", pictures, pictures))
    return page, best_partners(a, b[partner], found.flag(0.1), found.trust, k=3), pictures


def name(row):
    return f"pair {row} </script>"


def test_listed_pairs_get_partners_and_the_page_is_unchanged(repaired):
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
