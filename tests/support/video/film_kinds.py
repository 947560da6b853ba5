"""Videos of every container and codec that the tests of decoding read."""

import numpy as np

from support.video.films import film

VP9 = {"video": "libvpx-vp9", "audio": "libopus", "rate": 48000, "options": {"cpu-used": "8", "deadline": "realtime"}}
VARIABLE = np.concatenate([np.arange(0, 1, 1 / 30), [1.0, 1.15], np.arange(1.2, 3, 0.1)])
KINDS = {
    "h264.mp4": {},
    "h264-late.mp4": {"sound_late": 0.4},
    "h264-opus.mkv": {"audio": "libopus", "rate": 48000, "layout": "stereo"},
    "h264-aac.mkv": {},
    "vp9.webm": VP9,
    "mpeg4-pcm.avi": {"video": "mpeg4", "audio": "pcm_s16le", "layout": "stereo"},
    "mpeg4-still.avi": {"video": "mpeg4", "audio": "pcm_s16le", "bframes": 0},
    "h264.ts": {},
    "mpeg4.mov": {"video": "mpeg4", "audio": "pcm_s16le", "rate": 24000},
    "open-groups.mp4": {"options": {"x264-params": "open-gop=1:bframes=3:keyint=12"}},
    "hidden-frames.webm": VP9 | {"options": {"cpu-used": "4", "auto-alt-ref": "1", "lag-in-frames": "16"}},
    "mpeg2.mpg": {"video": "mpeg2video", "audio": "mp2"},
    "flv1.flv": {"video": "flv", "audio": "aac", "bframes": 0},
    "variable.mp4": {"times": VARIABLE},
    "variable.mkv": {"times": VARIABLE, "audio": "libopus", "rate": 48000},
    "variable.webm": {"times": VARIABLE, **VP9},
    "mpeg4-mp3.avi": {"video": "mpeg4", "audio": "libmp3lame"},
    "h264-aac.avi": {},
    "mpeg2.avi": {"video": "mpeg2video", "audio": "pcm_s16le"},
}


def noise_picture(i, _):
    """A picture that tells its number: coarse blocks, so that it survives coding."""
    blocks = np.random.default_rng(i).integers(0, 2, (6, 8, 1), dtype=np.uint8) * 200 + 20
    return np.repeat(np.repeat(np.repeat(blocks, 8, 0), 8, 1), 3, 2)


class Films(dict):
    """Paths by kind; a film is made when it is first asked for."""

    def __init__(self, folder, **options):
        self.folder, self.options = folder, options

    def __missing__(self, kind):
        self[kind] = film(self.folder / kind, **self.options, **KINDS[kind])
        return self[kind]
