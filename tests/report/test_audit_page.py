"""The page of an audit in a real browser."""

import csv
import io
import json
import re
import time
import wave

import numpy as np
import pytest

from rince.audit.output.review import read_marks
from rince.audit.save import save
from rince.report.gallery import Files
from support.chromium import Browser
from support.made_up_audit import made_up_audit

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
    save(result, folder, ids=ids, show_a=images, show_b=texts, truth=wrong, title=f"Captions {EVIL}", groups=groups)
    return result, folder, ids


def open_page(browser, folder, **size):
    browser.open(folder / "audit.html", **size, ready="document.documentElement.dataset.ready === 'yes'")


def test_the_page_draws_complains_about_nothing_and_asks_for_nothing(browser, saved):
    result, folder, _ = saved
    open_page(browser, folder)
    assert browser.evaluate("document.querySelectorAll('#histogram path').length") == 2
    heights = "[...document.querySelectorAll('#histogram path')].map(p => p.getBBox().height)"
    assert min(browser.evaluate(heights)) > 20
    assert 4 < browser.evaluate("document.querySelectorAll('#list .row').length") < 40
    assert browser.evaluate("document.querySelector('#list img').naturalWidth") >= 48
    assert f"{100 * result.noise_rate:.1f} %" in browser.evaluate("document.getElementById('cards').textContent")
    assert browser.complaints() == []
    assert browser.requests() == [(folder / "audit.html").resolve().as_uri()]


def test_text_from_the_data_is_shown_and_never_run(browser, saved):
    _, folder, _ = saved
    open_page(browser, folder)
    assert EVIL in browser.evaluate("document.querySelector('#list .side p').textContent")
    assert EVIL in browser.evaluate("document.querySelector('h1').textContent")
    assert browser.evaluate("document.title").startswith("Captions </script>")
    assert browser.evaluate("document.scripts.length") == 2


def test_the_slider_changes_the_count_and_the_download_holds_exactly_the_flagged_ids(browser, saved, tmp_path):
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


def test_groups_are_listed_with_their_rates_and_choose_their_pairs(browser, saved):
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
    for content, message in (("row,id,mark\n0,somebody,keep\n", "another audit"), ("a,b\n1,2\n", "no review")):
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


def test_a_hundred_thousand_pairs_are_listed_and_few_rows_drawn(browser, tmp_path):
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
    assert "none found" in browser.evaluate("document.getElementById('cards').textContent")
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
