import numpy as np
import pytest
import scipy.signal
import torch

from rince._support.step_seeds import Draws, generator
from rince.views.pair import SoundRecipe, bin_statistics, shifted


def sounds():
    """Noise, a tone, a tone in faint noise, something quiet, silence: 2 s at 24 kHz."""
    time, noise = torch.arange(48000) / 24000, torch.randn(2, 48000, generator=generator(3))
    tone = torch.sin(2 * torch.pi * 1000 * time)
    return torch.stack([0.3 * noise[0], 0.5 * tone, 0.9 * tone + 1e-4 * noise[0], 1e-4 * noise[1], 0 * time])


def power_by_scipy(sound, rate=24000, window=512, hop=240):
    pad = window - hop
    padded = np.pad(sound.double().numpy(), (pad // 2, pad - pad // 2), mode="reflect")
    spectrum = scipy.signal.stft(
        padded, rate, "hann", window, window - hop, boundary=None, padded=False, scaling="spectrum"
    )[2]
    return np.abs(spectrum.T) ** 2


def by_scipy(sound, rate=24000, window=512, hop=240, floor=80.0):
    decibels = 10 * np.log10(np.maximum(power_by_scipy(sound, rate, window, hop), 1e-16))
    return np.maximum(decibels, decibels.max() - floor)


def test_decibels_are_scipys():
    for sound in sounds():
        found = SoundRecipe().decibels(sound[None])[0]
        assert found.shape == (200, 257) and found.dtype == torch.float32
        np.testing.assert_allclose(found, by_scipy(sound), atol=1e-4, rtol=0)


def test_normalized_spectrograms_are_scipys_too():
    statistics = {"mean": np.linspace(-60, -90, 257).tolist(), "std": np.linspace(10, 20, 257).tolist()}
    for sound in sounds()[:3]:
        expected = by_scipy(sound)
        given = SoundRecipe(**statistics).plain(sound[None])[0, 0]
        np.testing.assert_allclose(given, (expected - statistics["mean"]) / statistics["std"], atol=1e-4)
        own = SoundRecipe().plain(sound[None])[0, 0]
        np.testing.assert_allclose(own, (expected - expected.mean(0)) / (expected.std(0) + 1e-5), atol=1e-4)
        whole = SoundRecipe(normalize="sound").plain(sound[None])[0, 0]
        np.testing.assert_allclose(whole, (expected - expected.mean()) / (expected.std() + 1e-5), atol=1e-4)


@pytest.mark.parametrize(("rate", "seconds", "window", "hop"), [(8000, 0.6, 128, 0.016), (16000, 1.0, 401, 0.01)])
def test_other_rates_have_one_frame_a_hop(rate, seconds, window, hop):
    sound = 0.1 * torch.randn(2, round(rate * seconds), generator=generator(5))
    recipe = SoundRecipe(sample_rate=rate, window=window, hop=hop)
    assert recipe.plain(sound).shape == (2, 1, sound.shape[1] // recipe.hop, window // 2 + 1)
    np.testing.assert_allclose(
        recipe.decibels(sound)[1], by_scipy(sound[1], rate, window, round(hop * rate)), atol=1e-4, rtol=0
    )


def test_a_click_is_loudest_in_the_frame_whose_hop_it_falls_into():
    sound = torch.zeros(1, 48000)
    sound[0, 123 * 240 + 100] = 1
    assert int(SoundRecipe().decibels(sound)[0].sum(1).argmax()) == 123


def test_spectrogram_level_and_floor():
    sine = torch.sin(2 * torch.pi * (64 * 24000 / 512) * torch.arange(48000) / 24000)[None]
    found = SoundRecipe().decibels(sine)
    assert abs(float(found[0, 100, 64]) + 6.02) < 0.01 and int(found[0, 100].argmax()) == 64
    assert float(found.max() - found.min()) == pytest.approx(80, abs=1e-4)
    assert float(SoundRecipe(floor=30).decibels(sine).min()) == pytest.approx(-36.02, abs=0.01)


@pytest.mark.parametrize("gain", (1, 0.01, 1e-4))
def test_as_much_of_a_quiet_sound_is_kept_as_of_a_loud_one(gain):
    sound = torch.sin(torch.arange(48000) / 3)[None]
    sound[:, 30000:] = 0
    found = SoundRecipe(window=1024, pair_bins=True, floor=100.0, quietest=-190).decibels(gain * sound)
    assert float(found.max() - found.min()) == pytest.approx(100, abs=1e-4)
    assert float(SoundRecipe(quietest=-100).decibels(gain * sound).min()) == pytest.approx(
        max(-100, float(SoundRecipe().decibels(gain * sound).max()) - 80), abs=1e-4
    )


def test_volume_shifts_decibels_by_at_most_a_tenth_and_by_the_seed():
    recipe, sound = SoundRecipe(mean=0.0, std=1.0), sounds()[:1].expand(200, 48000)[:, :4800]
    plain = recipe.plain(sound[:1])
    views = recipe(sound, Draws(generator(1), 200))
    shift = (views - plain).mean((1, 2, 3))
    torch.testing.assert_close(views - plain, shift[:, None, None, None].expand_as(views), atol=1e-4, rtol=0)
    factor = 10 ** (shift / 20)
    assert 0.9 <= factor.min() < 0.905 and 1.095 < factor.max() <= 1.1001 and abs(factor.mean() - 1) < 0.02
    assert torch.equal(views, recipe(sound, Draws(generator(1), 200)))
    torch.testing.assert_close(SoundRecipe(volume=0)(sound[:2], Draws(generator(1), 2)), SoundRecipe().plain(sound[:2]))


def test_a_shift_moves_the_sound_and_lets_silence_in():
    x = torch.arange(1.0, 6.0).expand(3, 5)
    expected = [[0, 0, 1, 2, 3], [2, 3, 4, 5, 0], [1, 2, 3, 4, 5]]
    assert shifted(x, torch.tensor([2, -1, 0])).tolist() == expected
    click = torch.zeros(200, 4800)
    click[:, 2400] = 1
    views = SoundRecipe(shift=0.05, mean=0.0, std=1.0)(click, Draws(generator(1), 200))
    frame = views[:, 0].sum(2).argmax(1)
    assert frame.min() in (5, 6) and frame.max() in (14, 15) and len(frame.unique()) >= 9


def test_silence_is_zero_and_not_nan():
    for normalize in ("bin", "sound"):
        assert (SoundRecipe(normalize=normalize).plain(torch.zeros(2, 4800)) == 0).all()


def test_statistics_of_the_bins_normalize_them():
    x = torch.randn(40, 4800, generator=generator(2)) * torch.logspace(-3, 0, 40)[:, None]
    mean, std = bin_statistics(SoundRecipe(), x, batch_size=7)
    assert (mean, std) == bin_statistics(SoundRecipe(), iter(x.split(7)))
    views = SoundRecipe(mean=mean, std=std).plain(x)
    assert len(mean) == 257 and views.mean((0, 1, 2)).abs().max() < 1e-3
    torch.testing.assert_close(views.std((0, 1, 2), correction=0), torch.ones(257), atol=1e-3, rtol=0)


def test_what_cannot_be_is_named():
    for options, message in (
        ({"hop": 0.1}, "2400 samples"),
        ({"mean": 1.0}, "go together"),
        ({"mean": [1.0, 2.0], "std": [1.0, 2.0]}, "one per bin, 257, got 2"),
    ):
        with pytest.raises(ValueError, match=message):
            SoundRecipe(**options)
    with pytest.raises(ValueError, match="at least one window of 512 samples, got 100"):
        SoundRecipe().plain(torch.zeros(1, 100))
    with pytest.raises(ValueError, match=r"floats \(n, samples\)"):
        SoundRecipe().plain(torch.zeros(1, 2, 4800))


def test_bins_are_averaged_in_pairs_as_power_and_the_first_stays():
    recipe = SoundRecipe(window=1024, pair_bins=True, floor=100.0)
    for sound in sounds()[:3]:
        plain = power_by_scipy(sound, window=1024)
        paired = np.concatenate([plain[:, :1], (plain[:, 1::2] + plain[:, 2::2]) / 2], 1)
        expected = 10 * np.log10(np.maximum(paired, 1e-16))
        found = recipe.decibels(sound[None])[0]
        assert found.shape == (200, 257)
        np.testing.assert_allclose(found, np.maximum(expected, expected.max() - 100), atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match="multiple of 4"):
        SoundRecipe(window=1022, pair_bins=True)


def test_bin_statistics_come_from_the_first_batch_and_are_saved():
    recipe, first, later = SoundRecipe(normalize="data", volume=0.0), sounds()[:3], sounds()[3:4] * 5
    before = recipe.plain(later)
    torch.testing.assert_close(before, SoundRecipe().plain(later))  # nothing is known yet
    recipe.train()
    views = recipe(first, Draws(generator(0), 3))
    mean, std = bin_statistics(SoundRecipe(), first)
    known = SoundRecipe(mean=mean, std=std)
    torch.testing.assert_close(views, known.plain(first))
    recipe(later, Draws(generator(0), 1))
    torch.testing.assert_close(recipe.plain(later), known.plain(later))  # and no batch after it
    again = SoundRecipe(normalize="data")
    again.load_state_dict(recipe.state_dict())
    torch.testing.assert_close(again.plain(later), known.plain(later))
    assert not SoundRecipe().state_dict() and not SoundRecipe(mean=mean, std=std).state_dict()
