import io
import wave

import numpy as np
import pytest

from rince._support.regular_files import Unreadable
from rince.audit.encode.decode import RATE, SECONDS, sound
from rince.audit.encode.sound import BANDS, PARTS, Spectrogram


def wav(samples, rate=RATE, width=2, channels=1):
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        whole = np.rint(np.asarray(samples) * (2 ** (8 * width - 1) - 1)).astype(np.int64)
        whole = whole + 128 if width == 1 else whole
        file.writeframes(
            b"".join(int(v).to_bytes(width, "little", signed=width > 1) for v in np.repeat(whole, channels))
        )
    return buffer.getvalue()


def tone(frequency, seconds=0.5, rate=RATE):
    return 0.5 * np.sin(2 * np.pi * frequency * np.arange(int(seconds * rate)) / rate)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_wav_of_any_width_reads_as_its_samples(width, channels):
    found = sound(wav(tone(440, 0.05), width=width, channels=channels), "x.wav")
    assert np.allclose(found, tone(440, 0.05), atol=0.02 if width == 1 else 1e-4)


def test_another_rate_gives_the_same_sound():
    pytest.importorskip("scipy")
    found = sound(wav(tone(440, rate=8000), rate=8000), "x.wav")
    assert abs(len(found) - 0.5 * RATE) < 5
    assert np.abs(found - tone(440)[: len(found)])[200:-200].max() < 0.01


def test_long_sounds_are_cut_and_broken_ones_named():
    assert len(sound(wav(np.zeros(100), rate=1), "x.wav")) <= SECONDS * RATE
    pytest.importorskip("av")
    for content in (b"RIFF broken", b"", b"no sound at all" * 100):
        with pytest.raises(Unreadable, match=r"x\.wav cannot be read as a sound"):
            sound(content, "x.wav")


def test_other_formats_through_ffmpeg():
    av = pytest.importorskip("av")
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="flac") as container:
        stream = container.add_stream("flac", rate=RATE, layout="mono")
        frame = av.AudioFrame.from_ndarray((tone(440)[None] * 32767).astype(np.int16), format="s16", layout="mono")
        frame.sample_rate = RATE
        container.mux([*stream.encode(frame), *stream.encode(None)])
    found = sound(buffer.getvalue(), "x.flac")
    assert np.abs(found - tone(440)[: len(found)]).max() < 0.01 and len(found) == len(tone(440))


def test_statistics_hear_the_pitch_and_when_it_sounds_but_not_how_loud():
    low, high = tone(300), tone(3000)
    rows = Spectrogram().encode([x.astype(np.float32) for x in (low, 0.1 * low, high, np.concatenate([low, high]))])
    assert rows.shape == (4, BANDS * (PARTS + 2))
    assert np.allclose(rows[0], rows[1], atol=0.01)
    bands = rows[:, : BANDS * PARTS].reshape(4, BANDS, PARTS)
    assert bands[0].mean(1).argmax() < bands[2].mean(1).argmax()
    assert bands[3, :, 0].argmax() == bands[0, :, 0].argmax() and bands[3, :, -1].argmax() == bands[2, :, 0].argmax()


def test_a_very_short_sound_and_silence_have_rows():
    rows = Spectrogram().encode([np.ones(3, np.float32), np.zeros(16_000, np.float32)])
    assert np.isfinite(rows).all()


def test_chunks_that_end_beyond_the_file_are_told_of_that_sound():
    """For which the reader of Python has an error without a word."""
    content = b"RIFF\xff\x00\x00\x00WAVE" + b"junk\xf0\xff\xff\x7f" + bytes(40)
    with pytest.raises(Unreadable, match="s cannot be read as a sound"):
        sound(content, "s")


@pytest.mark.parametrize("rate", (200_001, 2**31 - 1))
def test_rates_that_no_sound_has_are_told(rate):
    with pytest.raises(Unreadable, match=f"s has {rate} samples a second"):
        sound(wav([0.1, 0.2], rate), "s")
