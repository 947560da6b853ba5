"""Files that are no videos, broken off, damaged or silent."""

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.data.video.decode import BadVideo, TooShort, VideoFile, read_clip
from support.video.film_kinds import noise_picture
from support.video.films import film


def test_files_without_sound_or_with_sound_unwanted_have_none(tmp_path, flashes):
    path = film(tmp_path / "mute.mp4", audio=None, seconds=1)
    assert read_clip(path, 0.0).audio is None
    assert read_clip(flashes["h264.mp4"], 0.0, audio=False).audio is None
    with VideoFile(path) as file, pytest.raises(BadVideo, match=r"mute\.mp4 has no sound"):
        file.sounds([0.5], 1.0, 8000)


def test_files_that_are_no_videos_are_one_sentence(tmp_path, flashes):
    content = flashes["h264.mp4"].read_bytes()
    (tmp_path / "cut.mp4").write_bytes(content[: len(content) // 2])
    (tmp_path / "empty.mp4").write_bytes(b"")
    (tmp_path / "text.mp4").write_text("not a video\n" * 100)
    film(tmp_path / "sound.mp4", video=None)
    for name in ("cut", "empty", "text", "sound"):
        with pytest.raises(BadVideo, match=rf"{name}\.mp4 (does not decode as a video|has no pictures)") as caught:
            read_clip(tmp_path / f"{name}.mp4", 0.0)
        assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_clip(tmp_path / "nowhere.mp4", 0.0)
    with pytest.raises(ValueError, match="must start at 0 s or later"):
        read_clip(flashes["h264.mp4"], float("nan"))
    with pytest.raises(ValueError, match=r"short .* loop, got 'skip'"):
        read_clip(flashes["h264.mp4"], 0.0, short="skip")


def test_the_cover_of_a_song_is_no_video(tmp_path):
    with av.open(str(tmp_path / "song.mp4"), "w") as container:
        sound, cover = container.add_stream("aac", rate=24000, layout="mono"), container.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 64, 48, "yuvj420p"
        cover.disposition = av.stream.Disposition.attached_pic
        container.mux(cover.encode(av.VideoFrame.from_ndarray(noise_picture(0, 0), format="rgb24")))
        samples = av.AudioFrame.from_ndarray(np.zeros((1, 24000), np.float32), format="fltp", layout="mono")
        samples.sample_rate = 24000
        container.mux(sound.encode(samples))
        for stream in (cover, sound):
            container.mux(stream.encode(None))
    with pytest.raises(BadVideo, match=r"song\.mp4"):
        read_clip(tmp_path / "song.mp4", 0.0)


def test_a_file_that_breaks_off_is_read_up_to_there(tmp_path):
    path = film(tmp_path / "a.mp4", picture=noise_picture, container_options={"movflags": "faststart"})
    first = read_clip(path, 0.5).frames
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    assert np.array_equal(read_clip(path, 0.5).frames, first)
    with pytest.raises(TooShort) as caught:
        read_clip(path, 2.4)
    assert 1.0 < caught.value.end < 2.9


@settings(max_examples=40)
@given(places=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=60), start=st.floats(0, 2))
def test_damaged_bytes_give_a_clip_or_a_bad_video(numbered, tmp_path_factory, places, start):
    for kind in ("h264.mp4", "vp9.webm", "mpeg4-pcm.avi"):
        content = bytearray(numbered[kind].read_bytes())
        for share, value in places:
            content[int(share * (len(content) - 1))] = value
        path = tmp_path_factory.getbasetemp() / f"damaged-{kind}"
        path.write_bytes(bytes(content))
        try:
            clip = read_clip(path, start)
        except BadVideo:
            continue
        assert clip.frames.shape[0] == 8 and (clip.audio is None or clip.audio.shape == (48000,))


def test_duration_and_rate_are_those_of_the_header(flashes, monkeypatch):
    monkeypatch.delattr(VideoFile, "_frames")
    with VideoFile(flashes["h264.mp4"]) as file:
        assert (file.duration, file.fps) == (3.0, 30.0)
    with VideoFile(flashes["vp9.webm"]) as file:
        assert abs(file.duration - 3.0) < 0.05


def test_one_thread_decodes_unless_told_otherwise(flashes):
    with VideoFile(flashes["h264.mp4"]) as file:
        assert file.stream.codec_context.thread_count == 1
    with VideoFile(flashes["h264.mp4"], threads=3) as file:
        assert file.stream.codec_context.thread_count == 3
        assert np.array_equal(file.clips([1.0])[0].frames, read_clip(flashes["h264.mp4"], 1.0).frames)
