"""Clips against a slow and obvious reference: decode the whole file, then pick."""

import pickle
from types import SimpleNamespace

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.data.video.decode import BadVideo, FrameTransform, TooShort, VideoFile, read_clip, video_errors
from rince.data.video.soundtrack import demuxed
from support.video.film_kinds import KINDS, noise_picture
from support.video.films import TONE, film, turn

VP9 = {"video": "libvpx-vp9", "audio": "libopus", "rate": 48000, "options": {"cpu-used": "8", "deadline": "realtime"}}


def whole(path):
    """All frames of a file and when they are shown, from the first one on."""
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
        avi, rate = container.format.name == "avi", float(container.streams.video[0].average_rate)
    # AVI numbers frames in the order of decoding.
    times = np.array([i / rate if avi else frame.time - frames[0].time for i, frame in enumerate(frames)])
    return times, [frame.to_ndarray(format="rgb24") for frame in frames]


@pytest.mark.parametrize("start", [0.0, 0.61, 0.8, 0.95, 1.0, 1.11, 1.9])
@pytest.mark.parametrize("kind", KINDS)
def test_flash_and_beep_are_where_they_were_put(flashes, kind, start):
    clip = read_clip(flashes[kind], start, num_frames=12, fps=30)
    moments = start + np.arange(12) / 30
    white = clip.frames.mean((1, 2, 3)) > 120
    sure = (np.abs(moments - 1.0) > 0.002) & (np.abs(moments - 1.2) > 0.002)
    assert (white == ((moments >= 1.0) & (moments < 1.2)))[sure].all()
    assert clip.audio.shape == (48000,) and clip.audio.dtype == np.float32
    heard = np.flatnonzero(np.abs(clip.audio) > 0.1)
    begin, end = start + 0.2 - 1.0, start + 0.2 + 1.0
    tolerance = (
        0.05 if kind.endswith(("mp3.avi", "aac.avi")) else 0.01
    )  # AVI does not say how much padding the encoder added
    if begin < 1.0 < end:
        assert abs(begin + heard[0] / 24000 - 1.0) < tolerance
    if begin < 1.2 < end:
        assert abs(begin + heard[-1] / 24000 - 1.2) < tolerance
    if begin > 1.2 + tolerance:
        assert not len(heard)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12)
@given(start=st.floats(-0.5, 3.5), frames=st.integers(1, 10), fps=st.sampled_from([4, 16, 23.976, 60]))
def test_frames_are_those_a_player_would_show_at_any_start(numbered, kind, start, frames, fps):
    times, pictures = reference(numbered[kind])
    moments = start + np.arange(frames) / fps
    try:
        clip = read_clip(numbered[kind], start, frames, fps, audio=False)
    except TooShort as error:
        assert moments[-1] >= error.end - 0.002 and error.end >= times[-1]
    except ValueError:
        assert start < 0
    else:
        late, early = np.searchsorted(times, [moments - 0.003, moments + 0.003], side="right").clip(1) - 1
        for frame, i, j in zip(clip.frames, late, early, strict=True):  # the same, but where two frames meet
            assert np.array_equal(frame, pictures[i]) or np.array_equal(frame, pictures[j])


def test_frames_after_a_gap_in_avi_with_b_frames_have_their_times(tmp_path):
    times = [i / 30 for i in range(60) if not 20 <= i < 30]
    path = film(tmp_path / "gap.avi", 2.0, 30, "mpeg4", None, flash=(1.2, 1.5), times=times)
    with VideoFile(path) as file:
        assert file.counted
    before, inside, after = (read_clip(path, at, 1, 30, audio=False).frames.mean() for at in (1.1, 1.35, 1.6))
    assert before < 120 < inside and after < 120
    read_clip(path, 1.9, 1, 30, audio=False)
    with pytest.raises(TooShort):
        read_clip(path, 2.1, 1, 30, audio=False)


def reference(path, known={}):  # noqa: B006
    if path not in known:
        known[path] = whole(path)
    return known[path]


@pytest.mark.parametrize("kind", ["h264.mp4", "vp9.webm", "mpeg4-pcm.avi"])
def test_several_clips_from_one_open_file_equal_clips_one_by_one(numbered, kind):
    starts = [2.1, 0.0, 1.3, 1.4, 0.0]
    with VideoFile(numbered[kind]) as file:
        together = file.clips(starts)
        again = file.clips(starts[:2])
    for clip, start in zip([*together, *again], [*starts, *starts[:2]], strict=True):
        alone = read_clip(numbered[kind], start)
        assert np.array_equal(clip.frames, alone.frames)
        # Stamps in whole milliseconds place a decoder started elsewhere up to 24 samples off.
        apart = [np.abs(np.roll(clip.audio, lag) - alone.audio)[30:-30].max() for lag in range(-24, 25)]
        assert min(apart if kind == "vp9.webm" else apart[24:25]) < 0.01


def test_program_stream_frames_are_counted_after_a_seek(tmp_path):
    """Several frames share a packet there, of which FFmpeg stamps a part of a frame as the first one after a seek."""

    def bars(i, _):
        bits = np.array([i >> bit & 1 for bit in range(8)], dtype=np.uint8) * 200 + 20
        return np.broadcast_to(bits.repeat(12)[None, :, None], (64, 96, 3)).copy()

    shape = {"seconds": 4, "fps": 25, "size": (96, 64), "gop": 12, "bframes": 0, "rate": 24000}
    path = film(tmp_path / "a.mpg", video="mpeg2video", audio="mp2", picture=bars, **shape)
    for start in np.arange(0, 3.4, 0.1):
        frames = read_clip(path, start, audio=False).frames
        bits = frames.reshape(8, 64, 8, 12, 3)[:, 4:-4, :, 3:-3].mean((1, 3, 4)) > 127
        assert (bits @ 2 ** np.arange(8)).tolist() == [int((start + i / 16 + 1.5e-3) * 25) for i in range(8)]


def test_clips_far_apart_are_read_by_seeking(tmp_path):
    path = film(tmp_path / "long.mp4", seconds=40, fps=5, picture=noise_picture, gop=20, audio=None)
    times, pictures = whole(path)
    with VideoFile(path) as file:
        clips = file.clips([30.0, 3.1, 17.0], num_frames=4, fps=5, audio=False)
    for clip, start in zip(clips, [30.0, 3.1, 17.0], strict=True):
        first = np.searchsorted(times, start + 0.001, side="right") - 1
        assert all(np.array_equal(a, b) for a, b in zip(clip.frames, pictures[first : first + 4], strict=True))


def test_sound_is_resampled_mixed_and_silent_outside_of_the_file(tmp_path):
    def left_only(t):
        return np.stack([0.5 * np.sin(2 * np.pi * TONE * t), np.zeros_like(t)])

    path = film(
        tmp_path / "a.mkv", seconds=1.5, audio="pcm_s16le", rate=48000, layout="stereo", sound=left_only, video="mpeg4"
    )
    for rate in (8000, 24000, 48000):
        audio = read_clip(path, 0.0, audio_duration=4.0, sample_rate=rate).audio
        t = np.arange(4 * rate) / rate - 1.75  # the clip's middle is at 0.25 s
        expected = np.where((t >= 0) & (t < 1.5), 0.25 * np.sin(2 * np.pi * TONE * t), 0)
        inner = (t > 0.01) & (t < 1.49)
        assert np.abs(audio - expected)[inner].max() < 2e-3
        assert np.abs(audio[(t < -0.02) | (t > 1.52)]).max() < 1e-4


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_a_turned_video_is_shown_upright_whole_or_cropped(tmp_path, degrees, mirrored):
    def corner(*_):
        picture = np.full((48, 64, 3), 30, dtype=np.uint8)
        picture[:24, :16], picture[:24, 16:32] = 220, 120
        return picture

    path = film(tmp_path / "a.mp4", seconds=1, picture=corner, audio=None)
    plain = read_clip(path, 0.0, num_frames=1).frames[0]
    turn(path, degrees, mirrored)
    expected = plain[:, ::-1] if mirrored else plain
    expected = np.rot90(expected, degrees // 90)
    shown = read_clip(path, 0.0, num_frames=1).frames[0]
    assert np.array_equal(shown, expected)
    with VideoFile(path) as file:
        box = (4, 8, 28, 32)
        transform = FrameTransform(
            lambda width, height: box if (height, width) == shown.shape[:2] else (0, 0, 2, 2), 24
        )
        cropped = file.clips([0.0], 1, transforms=[transform])[0].frames[0]
    assert cropped.shape == (24, 24, 3)
    assert np.abs(cropped.astype(int) - expected[8:32, 4:28]).mean() < 6


@pytest.mark.parametrize(
    ("pixels", "codec"), [("gray", "ffv1"), ("yuv444p", "libx264"), ("yuv420p10le", "libx264"), ("bgra", "ffv1")]
)
def test_gray_and_unusual_pixels_become_rgb(tmp_path, pixels, codec):
    path = film(tmp_path / "a.mkv", seconds=1, video=codec, pixels=pixels, picture=noise_picture, audio=None, bframes=0)
    with VideoFile(path) as file:
        plain = file.clips([0.0], 4, 30)[0].frames
        small = file.clips([0.0], 4, 30, transforms=[FrameTransform(lambda w, h: (0, 0, w, h), 16)])[0].frames
    for i in range(4):
        assert np.abs(plain[i].astype(int) - noise_picture(i, 0)).mean() < 8
    assert small.shape == (4, 16, 16, 3)


def test_frames_that_change_their_size_get_that_of_the_first_one():
    transform = FrameTransform()
    first, second = (np.repeat(np.repeat(noise_picture(0, 0), k, 0), k, 1) for k in (1, 2))
    shown = [transform(av.VideoFrame.from_ndarray(picture, "rgb24")).copy() for picture in (first, second, first)]
    assert np.array_equal(shown[0], first) and np.array_equal(shown[2], first)
    assert shown[1].shape == first.shape and np.abs(shown[1].astype(int) - first).mean() < 12


def test_an_iterator_of_packets_is_closed_when_it_is_left_early():
    closed = []

    class Container:
        def demux(self, stream):
            try:
                yield from [SimpleNamespace(size=size) for size in (3, 0, 5)]
            finally:
                closed.append(stream)

    with demuxed(Container(), "pictures") as packets:
        assert next(packets).size == 3 and not closed
    assert closed == ["pictures"]
    with demuxed(Container(), "sound") as packets:
        assert [packet.size for packet in packets] == [3, 5]


@pytest.mark.parametrize("error", [IndexError("list index out of range"), av.error.InvalidDataError(1, "bad", "a.flv")])
def test_packets_of_streams_that_are_not_there_end_a_file(error):
    class Container:
        def demux(self, stream):
            yield SimpleNamespace(size=3)
            raise error

    with demuxed(Container(), "pictures") as packets:
        assert [packet.size for packet in packets] == [3]
    with pytest.raises(BadVideo, match=r"a\.flv does not decode as a video"), video_errors("a.flv"):
        raise error


def test_a_crop_resized_on_the_way_equals_one_made_afterwards(numbered):
    from PIL import Image

    box = (6, 4, 54, 40)
    with VideoFile(numbered["h264.mp4"]) as file:
        whole_frames = file.clips([1.0], transforms=None)[0].frames
        frames = file.clips([1.0], transforms=[FrameTransform(lambda w, h: box, 32)])[0].frames
    for frame, picture in zip(frames, whole_frames, strict=True):
        slow = np.asarray(Image.fromarray(picture).resize((32, 32), 2, box=box))
        assert np.abs(frame.astype(int) - slow).mean() < 6


def test_a_clip_past_the_end_is_refused_held_or_looped(numbered):
    path = numbered["h264.mp4"]
    _, pictures = reference(path)
    with pytest.raises(TooShort, match=r"too short: .* 3\.000 s") as caught:
        read_clip(path, 2.9)
    assert pickle.loads(pickle.dumps(caught.value)).end == caught.value.end
    held = read_clip(path, 2.9, num_frames=6, fps=30, short="hold").frames
    assert [int(np.array_equal(frame, pictures[-1])) for frame in held] == [0, 0, 1, 1, 1, 1]
    looped = read_clip(path, 2.9, num_frames=6, fps=30, short="loop").frames
    assert all(np.array_equal(a, pictures[i]) for a, i in zip(looped, [87, 88, 89, 0, 1, 2], strict=True))


def test_real_files_match_a_full_decode(real_data):
    sounds = 0
    for path in sorted(real_data("video").iterdir()):
        with VideoFile(path) as file:
            room = file.duration - 0.55
            starts = [0.0, 0.31 * room, 0.77 * room, room]
            cropped = file.clips(
                starts, transforms=[FrameTransform(lambda w, h: (0, 0, 224, 224), 224) for _ in starts]
            )
            plain = [file.clips([start], audio=False)[0] for start in starts]
            together = file.clips(starts, audio=False)
        times, pictures = whole(path)
        assert all(np.array_equal(a.frames, b.frames) for a, b in zip(plain, together, strict=True)), path
        for clip, full, start in zip(cropped, plain, starts, strict=True):
            assert clip.frames.shape == (8, 224, 224, 3)
            assert clip.audio is None or clip.audio.shape == (48000,)
            sounds += clip.audio is not None and clip.audio.std() > 1e-4
            moments = start + np.arange(8) / 16
            shown = np.searchsorted(times, moments + 0.001, side="right") - 1
            assert all(np.array_equal(a, pictures[i]) for a, i in zip(full.frames, shown, strict=True)), path
    assert sounds == 3 * 4
