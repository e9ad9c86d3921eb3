"""A server on this machine that speaks what is used of Hugging Face's interface: repositories, commits, large files, downloads.

What is uploaded stays in memory. `TOKEN` is the only one that is known, and it may write to repositories of `OWNER` alone.
"""

import base64
import hashlib
import http.server
import json
import re
import threading
from typing import Any

TOKEN, OWNER = "hf_right", "somebody"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(http.server.ThreadingHTTPServer):
    """Its address is `url`, its content `files`: repository -> path -> bytes."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, dict[str, bytes]] = {}
        self.large: dict[str, bytes] = {}
        self.messages: list[str] = []
        self.cards: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Hub  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        if self.path == "/api/whoami-v2":
            self._answer({"name": OWNER, "type": "user"}) if self._known() else self._answer({"error": "Invalid token"}, 401)
        elif found := self._file():
            self._send(found)
        else:
            self._missing()

    def do_HEAD(self) -> None:
        if found := self._file():
            self._send(found, body=False)
        else:
            self._missing()

    def do_PUT(self) -> None:
        content = self._body()
        oid = self.path.rpartition("/")[2]
        right = hashlib.sha256(content).hexdigest() == oid
        self.server.large[oid] = content
        self._answer({}, 200 if right else 400)

    def do_POST(self) -> None:
        content = self._body()
        if not self._known():
            self._answer({"error": "Invalid username or password."}, 401)
        elif self.path == "/api/repos/create":
            self._create(json.loads(content))
        elif self.path == "/api/validate-yaml":
            self.server.cards.append(json.loads(content)["content"])
            self._answer({"errors": [], "warnings": []})
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/(preupload|commit)/main", self.path):
            if match[1] not in self.server.files:
                self._missing()
            elif match[2] == "preupload":
                large = [{"path": file["path"], "uploadMode": _mode(file["path"]), "shouldIgnore": False}
                         for file in json.loads(content)["files"]]  # fmt: skip
                self._answer({"files": large})
            else:
                self._commit(match[1], [json.loads(line) for line in content.splitlines()])
        elif re.fullmatch(r"/[^/]+/[^/]+\.git/info/lfs/objects/batch", self.path):
            actions = [
                {**each, "actions": {"upload": {"href": f"{self.server.url}/large/{each['oid']}"}}}
                for each in json.loads(content)["objects"]
            ]
            self._answer({"transfer": "basic", "objects": actions})
        else:
            self._missing()

    def _create(self, asked: dict[str, Any]) -> None:
        if asked["organization"] != OWNER:
            self._answer({"error": "You don't have the rights to create a model under this namespace"}, 403)
            return
        name = f"{asked['organization']}/{asked['name']}"
        there = name in self.server.files
        self.server.files.setdefault(name, {})
        self._answer({"url": f"{self.server.url}/{name}", "name": name}, 409 if there else 200)

    def _commit(self, repository: str, lines: list[dict[str, Any]]) -> None:
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                self.server.messages.append(value["summary"])
            elif line["key"] == "file":
                self.server.files[repository][value["path"]] = base64.b64decode(value["content"])
            else:
                self.server.files[repository][value["path"]] = self.server.large[value["oid"]]
        self._answer({"commitUrl": f"{self.server.url}/{repository}/commit/{COMMIT}", "commitOid": COMMIT})

    def _known(self) -> bool:
        return self.headers["Authorization"] == f"Bearer {TOKEN}"

    def _file(self) -> bytes | None:
        match = re.fullmatch(r"/([^/]+/[^/]+)/resolve/(?:main|[0-9a-f]{40})/(.+)", self.path)
        return None if match is None else self.server.files.get(match[1], {}).get(match[2])

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, data: Any, status: int = 200) -> None:
        self._send(json.dumps(data).encode(), status=status, kind="application/json")

    def _missing(self) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("X-Error-Message", "Repository not found")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, content: bytes, *, status: int = 200, body: bool = True, kind: str = "application/octet-stream") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def _mode(path: str) -> str:
    return "lfs" if path.endswith((".safetensors", ".gif")) else "regular"
