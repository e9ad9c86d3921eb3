"""Files of JSON that tell when they were changed: no flipped bit is taken for what was written, and every mistake is a line."""

import json
import os

import pytest

from gtrxl.runs import metrics, sealed
from gtrxl.runs.errors import RunError

DATA = {"status": "finished", "updates": 100, "return": 1.25e-07, "parts": {"é": [1, 2.5, None, True]}}


def test_what_is_written_is_read_and_is_plain_json(tmp_path):
    file = tmp_path / "a.json"
    sealed.write(file, DATA)
    assert sealed.read(file, remedy="none") == DATA
    assert json.loads(file.read_text()) == DATA | {"digest": sealed.digest(DATA)}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_every_flipped_bit_is_noticed_or_changes_nothing(tmp_path):
    file = tmp_path / "a.json"
    sealed.write(file, DATA)
    whole = file.read_bytes()
    noticed = []
    bits = range(0, 8 * len(whole), 3)
    for bit in bits:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        try:
            found = sealed.read(file, remedy="look")
        except RunError as error:
            noticed.append(str(error))
        else:  # a space that became another one, or the name of the digest: what was said is there all the same
            assert {name: value for name, value in found.items() if name in DATA} == DATA
    assert len(noticed) > 0.8 * len(bits)
    assert all("; look" in said and "\n" not in said for said in noticed)


@pytest.mark.parametrize(("content", "said"), [
    (b"", "must be JSON, got Expecting value"),
    (b'{"a": 1', "must be JSON, got Expecting"),
    (b"[]", "must hold one JSON object, got list"),
    (b"7", "must hold one JSON object, got int"),
    (b"\xff\xfe\x00", "must be JSON, got 'utf-8' codec can't decode"),
    (b"[" * 100_000, "must be JSON, got brackets inside of brackets without end"),
    (b'{"a":' * 100_000, "must be JSON, got brackets inside of brackets without end"),
])  # fmt: skip
def test_what_is_no_object_is_one_line(tmp_path, content, said):
    file = tmp_path / "a.json"
    file.write_bytes(content)
    with pytest.raises(RunError) as error:
        sealed.read(file, remedy="put it back")
    assert str(error.value).startswith(f"{file} {said}")
    assert str(error.value).endswith("; put it back")
    assert "\n" not in str(error.value)


def test_who_changes_a_file_on_purpose_says_so_by_removing_the_digest(tmp_path):
    file = tmp_path / "a.json"
    sealed.write(file, DATA)
    changed = json.loads(file.read_text()) | {"updates": 7}
    file.write_text(json.dumps(changed))
    with pytest.raises(RunError, match=r'its digest does not fit; put it back, or remove the line "digest" if it was changed on'):
        sealed.read(file, remedy="put it back")
    del changed["digest"]
    file.write_text(json.dumps(changed))
    assert sealed.read(file, remedy="none")["updates"] == 7


def test_a_disk_that_takes_no_more_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    sealed.write(file, DATA)

    def full(self, text, encoding):
        self.open("w").close()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(RunError, match=r"a\.json cannot be written: .*No space left on device; free some space"):
        sealed.write(file, {})
    monkeypatch.undo()
    assert sealed.read(file, remedy="none") == DATA
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("read", [lambda file: sealed.read(file, remedy="leave it"), metrics.read], ids=["an object", "rows"])
def test_a_pipe_is_not_waited_for(read, tmp_path):
    os.mkfifo(tmp_path / "file")
    with pytest.raises(RunError, match="pipe or a device"):
        read(tmp_path / "file")
