"""Damaged checkpoints: never other arrays, never more than a line, and nothing thrown away that may be all there is."""

import re

import jax
import jax.numpy as jnp
import pytest

from gtrxl.runs.checkpoints import Checkpoints
from gtrxl.runs.errors import DamagedError
from tests.runs.test_checkpoints import assert_same, blank, one_line, small


def test_no_flipped_bit_gives_other_arrays_and_no_piece_that_is_missing(tmp_path):
    """Of the arrays and of the card: what comes back is what was saved, or an error in one line."""
    tree = {"a": jnp.asarray([1.5, -0.0, 3e-9], jnp.float32), "n": jnp.int32(3), "half": jnp.asarray([1.5], jnp.bfloat16)}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(4, tree, score=2.5, settings={"task": "t-maze", "net": {"width": 8}})
    noticed = {"state.safetensors": [], "card.json": []}
    for name, said in noticed.items():
        file = tmp_path / "4" / name
        whole = file.read_bytes()
        damages = [(whole[:end], f"cut at {end}") for end in range(0, len(whole), 9)]
        for bit in range(0, 8 * len(whole), 11):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            damages.append((bytes(flipped), f"bit {bit}"))
        for content, what in damages:
            file.write_bytes(content)
            try:
                assert_same(checkpoints.restore(jax.tree.map(blank, tree)), tree)
                assert (checkpoints.best, checkpoints.score(4), checkpoints.settings()) == (
                    4, 2.5, {"task": "t-maze", "net": {"width": 8}},
                )  # fmt: skip
            except DamagedError as error:
                said.append((what, str(error)))
        file.write_bytes(whole)
    assert_same(checkpoints.restore(tree), tree)
    for said in noticed.values():
        assert len(said) > 50
        for what, line in said:
            assert re.fullmatch(r"(checkpoint 4 .*cannot be read: |no checkpoint of \[4\]).+", line), (what, line)


BAD_CARDS = [
    b"", b"{}", b"[]", b"7", b"\xff\xfe", b"[" * 100_000, b'{"step": 2, "score": null, "arrays": []}',
    b'{"step": 2, "score": "high", "arrays": {}}', b'{"step": 9, "score": null, "arrays": {}}',
    b'{"step": 2, "score": null, "arrays": {"a": {"shape": [-1], "dtype": "float32", "key": null}}}',
]  # fmt: skip


@pytest.mark.parametrize("card", [*BAD_CARDS, None])
@pytest.mark.parametrize("bad", [1, 2, 3])
def test_a_bad_card_blocks_nothing_but_its_own_checkpoint(tmp_path, card, bad):
    """`last`, `best` and the next save pass over it, and it is not thrown away: it may be all there is."""
    checkpoints = Checkpoints(tmp_path, keep_last=3)
    for step in (1, 2, 3):
        checkpoints.save(step, small(step), score=-step)
    file = tmp_path / str(bad) / "card.json"
    file.unlink() if card is None else file.write_bytes(card)
    others = [step for step in (1, 2, 3) if step != bad]
    assert checkpoints.steps() == [1, 2, 3]
    assert list(checkpoints.damaged_cards()) == [bad]
    assert (checkpoints.latest, checkpoints.best) == (others[-1], others[0])
    assert_same(checkpoints.restore(small(0)), small(others[-1]))
    assert_same(checkpoints.restore(small(0), "best"), small(others[0]))
    with pytest.raises(DamagedError, match=rf"checkpoint {bad} cannot be read") as error:
        checkpoints.restore(small(0), bad)
    assert one_line(error)
    Checkpoints(tmp_path, keep_last=1).save(4, small(4), score=0)
    assert checkpoints.steps() == sorted({bad, 4})
    assert_same(checkpoints.restore(small(0)), small(4))


def test_when_no_card_can_be_read_it_is_said(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, small(1))
    (tmp_path / "1" / "card.json").write_text("{}")
    for which in ("last", "best"):
        with pytest.raises(
            DamagedError, match=r"no checkpoint of \[1\] in .* can be read: checkpoint 1 .*its step must be 1"
        ) as said:
            checkpoints.restore(small(0), which)
        assert one_line(said)
    assert not checkpoints.is_empty()


def test_what_is_set_aside_goes_when_there_is_a_whole_one_as_late(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep_last=1)
    for step in (1, 5):
        checkpoints.save(step, small(step))
    checkpoints.save(6, small(6))
    assert checkpoints.set_aside(6).name == "damaged-6"
    assert (checkpoints.steps(), checkpoints.is_empty()) == ([], False)
    Checkpoints(tmp_path, keep_last=1).save(3, small(3))
    assert (tmp_path / "damaged-6").exists()
    Checkpoints(tmp_path, keep_last=1).save(7, small(7))
    assert [entry.name for entry in tmp_path.iterdir()] == ["7"]
