"""Spoken digits in the layout of the Free Spoken Digit Dataset, where every digit is a tone."""

import wave

import numpy as np


def write_tone(path, hertz, seconds=0.3, rate=8000, loudness=20000):
    time = np.arange(round(seconds * rate)) / rate
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.sin(2 * np.pi * hertz * time) * loudness).astype("<i2").tobytes())


def write_digits(folder, takes=2, speakers=("anna",)):
    """digit_speaker_take.wav, takes of a digit a few hertz apart."""
    folder.mkdir()
    for digit in range(10):
        for number, speaker in enumerate(speakers):
            for take in range(takes):
                write_tone(folder / f"{digit}_{speaker}_{take}.wav", 200 + 300 * digit + 3 * take + 40 * number)
    return folder
