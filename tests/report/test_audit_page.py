"""The page of an audit in a real browser."""

import csv
import io
import json
import re
import wave

import numpy as np
import pytest

from chromium import Browser
from rince.audit import Scored, judge
from rince.report.audit_page import MOST_IDS, audit_data
from rince.report.gallery import Files

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def made_up_audit(n=2000, rate=0.3, seed=0):
    """Scores as of a good embedding, with the wrong pairs first."""
    random = np.random.default_rng(seed)
    wrong = np.arange(n) < round(rate * n)
    scores = np.where(wrong, random.normal(0, 0.1, n), random.normal(0.6, 0.1, n)).astype(np.float32)
    return judge(Scored(scores, random.normal(0, 0.1, 100_000).astype(np.float32)), seed=seed), wrong


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
    result.save(folder, ids=ids, show_a=images, show_b=texts, truth=wrong, title=f"Captions {EVIL}")
    return result, folder, ids


def open_page(browser, folder, **size):
    browser.open(folder / "audit.html", **size, ready="document.documentElement.dataset.ready === 'yes'")


def test_the_page_draws_complains_about_nothing_and_asks_for_nothing(browser, saved):
    result, folder, _ = saved
    open_page(browser, folder)
    assert browser.evaluate("document.querySelectorAll('#histogram path').length") == 2
    heights = "[...document.querySelectorAll('#histogram path')].map(p => p.getBBox().height)"
    assert min(browser.evaluate(heights)) > 20
    assert browser.evaluate("document.querySelectorAll('#gallery figure').length") == 24
    assert browser.evaluate("document.querySelector('#gallery img').naturalWidth") >= 48
    assert f"{100 * result.noise_rate:.1f} %" in browser.evaluate("document.getElementById('cards').textContent")
    assert browser.complaints() == []
    assert browser.requests() == [(folder / "audit.html").resolve().as_uri()]


def test_text_from_the_data_is_shown_and_never_run(browser, saved):
    _, folder, _ = saved
    open_page(browser, folder)
    assert EVIL in browser.evaluate("document.querySelector('#gallery .side p').textContent")
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
    assert browser.evaluate("document.querySelectorAll('#gallery .out').length") == max(0, 24 - count)
    browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.evaluate("document.getElementById('download').click()")
    text = wait_for_file(tmp_path / "flagged.csv", browser)
    rows = [row[0] for row in csv.reader(io.StringIO(text))]
    wanted = [ids[i] for i in result.suspects()[0][:count]]
    assert rows[0] == "id"
    assert [row.removeprefix("'") for row in rows[1:]] == wanted
    assert not any(row.startswith("=") for row in rows)  # a spreadsheet would run it
    assert browser.complaints() == []


def wait_for_file(path, browser):
    import time

    for _ in range(200):
        if path.exists() and path.stat().st_size:
            return path.read_bytes().decode()
        browser.evaluate("1")
        time.sleep(0.05)
    raise AssertionError(f"{path} was not downloaded: {browser.complaints()}")


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
    assert "no noise found" in browser.evaluate("document.getElementById('cards').textContent")
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
    browser.wait("document.querySelector('#gallery audio').readyState >= 1")
    assert browser.evaluate("document.querySelector('#gallery audio').duration") == 0.5
    assert browser.evaluate("document.querySelectorAll('#gallery .side').length") == 48
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    assert browser.complaints() == []


def test_the_page_of_many_pairs_stays_small():
    result, _ = made_up_audit(n=1_500_000, rate=0.4)
    data = audit_data(result, "many", 0.1, str)
    assert len(data["ids"]) == MOST_IDS and data["cut"] > 0
    assert len(data["stops"]) <= 402 and data["stops"][-1]["count"] == len(result.suspects()[0])
    assert len(json.dumps(data)) < 4_000_000
