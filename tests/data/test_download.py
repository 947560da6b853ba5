import hashlib
import http.server
import threading
from typing import ClassVar

import pytest

from rince.data.download import fetch

CONTENT = bytes(range(256)) * 1000


class Handler(http.server.BaseHTTPRequestHandler):
    ranges: ClassVar[list] = []

    def do_GET(self):
        wanted = self.headers.get("Range")
        Handler.ranges.append(wanted)
        start = int(wanted[6:-1]) if wanted else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        self.end_headers()
        self.wfile.write(CONTENT[start:])

    def log_message(self, *args):
        pass


@pytest.fixture
def address():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Handler.ranges = []
    yield f"http://127.0.0.1:{server.server_port}/file"
    server.shutdown()


MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.mark.parametrize("have", [0, 1000, len(CONTENT)])
def test_a_download_goes_on_where_it_stopped(address, tmp_path, have):
    if have:
        (tmp_path / "file.part").write_bytes(CONTENT[:have])
    fetch(address, tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert Handler.ranges == [f"bytes={have}-" if have else None]
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_wrong_checksum_leaves_nothing(address, tmp_path):
    with pytest.raises(ValueError, match="deleted"):
        fetch(address, tmp_path / "file", "0" * 32)
    assert not list(tmp_path.iterdir())


def test_without_a_checksum_only_a_zip_file_is_kept(address, tmp_path):
    with pytest.raises(ValueError, match="is not a zip file: deleted"):
        fetch(address, tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_no_connection_is_one_sentence(tmp_path):
    with pytest.raises(OSError, match="try again"):
        fetch("http://127.0.0.1:9/file", tmp_path / "file", MD5)
