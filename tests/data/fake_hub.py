"""A hub for tests: folders of data sets served over HTTP by the routes that huggingface_hub asks, on this machine.

`python fake_hub.py FOLDER` prints its address and serves FOLDER/owner/name. After so many bytes of files, given as a second argument, it
closes every connection, as a line that breaks does.
"""

from __future__ import annotations

import hashlib
import json
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SHA = "c0ffee" * 6 + "c0ff"


class Hub(BaseHTTPRequestHandler):
    root: Path
    left: float = float("inf")
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        paths = json.loads(asked)["paths"] if asked.startswith("{") else urllib.parse.parse_qs(asked).get("paths", [])
        repo = self._repo(self.path.split("/")[3:5])
        if repo is None:
            return
        self._json([self._entry(repo, repo / path) for path in paths if (repo / path).exists()])

    def _repo(self, parts: list[str]) -> Path | None:
        repo = self.root / "/".join(parts)
        if len(parts) == 2 and repo.is_dir():
            return repo
        self._send(404, b'{"error": "Repository not found"}', {"X-Error-Code": "RepoNotFound", "Content-Type": "application/json"})
        return None

    def _answer(self, body: bool) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "datasets"]:
            repo = self._repo(parts[2:4])
            if repo is None:
                return
            if parts[4:5] == ["tree"]:
                inside = repo / "/".join(parts[6:])
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                every = query.get("recursive", ["false"])[0].lower() in ("true", "1")
                if not inside.exists():
                    self._send(404, b'{"error": "Entry not found"}', {"X-Error-Code": "EntryNotFound"})
                    return
                self._json([self._entry(repo, file) for file in sorted(inside.rglob("*") if every else inside.iterdir())])
                return
            files = [{"rfilename": str(file.relative_to(repo))} for file in sorted(repo.rglob("*")) if file.is_file()]
            self._json({"_id": "1", "id": "/".join(parts[2:4]), "sha": SHA, "private": False, "gated": False, "disabled": False,
                        "downloads": 0, "likes": 0, "tags": [], "siblings": files, "lastModified": "2026-01-01T00:00:00.000Z"})  # fmt: skip
        elif parts[0] == "datasets" and parts[3:4] == ["resolve"]:
            file = self.root / "/".join(parts[1:3]) / "/".join(parts[5:])
            if not file.is_file():
                self._send(404, b"Entry not found", {"X-Error-Code": "EntryNotFound"})
                return
            self._file(file, body)
        else:
            self._send(404, b"{}", {})

    def _entry(self, repo: Path, file: Path) -> dict:
        kind = "directory" if file.is_dir() else "file"
        return {"type": kind, "path": str(file.relative_to(repo)), "size": file.stat().st_size if kind == "file" else 0,
                "oid": hashlib.sha1(str(file).encode()).hexdigest()}  # fmt: skip

    def _file(self, file: Path, body: bool) -> None:
        content = file.read_bytes()
        headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": SHA, "Accept-Ranges": "bytes"}
        asked = self.headers.get("Range")
        status = 200
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(content)), len(content) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
            content, status = content[start : end + 1], 206
        if body and file.suffix == ".parquet":
            Hub.left -= len(content)
            if Hub.left < 0:
                self.close_connection = True
                return
        self._send(status, content, headers, body)

    def _json(self, content: object) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"}, self.command != "HEAD")

    def _send(self, status: int, content: bytes, headers: dict[str, str], body: bool = True) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body and self.command != "HEAD":
            self.wfile.write(content)


def serve(folder: Path, most: float = float("inf")) -> ThreadingHTTPServer:
    """The server, not yet running; it breaks off after so many bytes of Parquet."""
    Hub.root, Hub.left = folder, most
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.daemon_threads = True
    return server


if __name__ == "__main__":
    server = serve(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else float("inf"))
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
