"""What docs/gym.md shows is true: its example runs."""

import re
from pathlib import Path

PAGE = (Path(__file__).parent.parent / "docs" / "gym.md").read_text()


def test_the_example_runs(tmp_path, monkeypatch):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "example"}
    exec(example, names)
    assert names["run"].status == "finished"  # pyright: ignore[reportAttributeAccessIssue]
    (table,) = re.findall(r"\| field \| meaning \|\n(.*?)\n\n", PAGE, re.DOTALL)
    fields = re.findall(r"`(\w+)`", table)
    assert len(fields) == 8
    assert set(fields) <= set(names["run"].rows[-1])  # pyright: ignore[reportAttributeAccessIssue]
    assert names["action"] in (0, 1)
