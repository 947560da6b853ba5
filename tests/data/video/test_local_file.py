"""Videos are plain local files: nothing is fetched, nothing is waited for."""

import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

av = pytest.importorskip("av")

from rince.data.video.decode import BadVideo, VideoFile, open_local  # noqa: E402
from support.video.films import film  # noqa: E402


@pytest.fixture
def server():
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *args):
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{http.server_port}/film.mp4", asked
    http.shutdown()


def test_an_address_is_not_fetched(server, tmp_path, monkeypatch):
    address, asked = server
    monkeypatch.chdir(tmp_path)
    for name in (address, address.replace("//", "/")):
        with pytest.raises(FileNotFoundError):
            VideoFile(name)
    playlist = tmp_path / "list.mp4"
    playlist.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{address}\n#EXT-X-ENDLIST\n")
    with pytest.raises(BadVideo):
        VideoFile(playlist)
    assert not asked


def test_pipes_and_devices_are_bad_videos(tmp_path):
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "zero.mp4").symlink_to("/dev/zero")
    for name in ("pipe.mp4", "zero.mp4"):
        with pytest.raises(BadVideo, match="not a regular file"):
            VideoFile(tmp_path / name)


@pytest.mark.parametrize(("version", "kept"), [("18.1.0", True), ("19.0.2", False)])
def test_what_pyav_19_no_longer_takes_is_not_given_to_it(tmp_path, version, kept):
    film(tmp_path / "a.mp4", seconds=0.5)
    given = {}

    class Library:
        __version__ = version

        @staticmethod
        def open(path, **options):
            given.update(options)

    open_local(Library, str(tmp_path / "a.mp4"))
    assert ("metadata_errors" in given) == kept and given["options"] == {"protocol_whitelist": "file"}


def test_a_film_named_like_a_protocol_is_a_film(tmp_path, monkeypatch):
    film(tmp_path / "concat:a.mp4", seconds=0.5)
    monkeypatch.chdir(tmp_path)
    with VideoFile("concat:a.mp4") as file:
        assert file.duration > 0
