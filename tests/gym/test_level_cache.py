"""Compiled maps of DeepMind Lab are kept: once for all, whole or not at all, and nothing breaks where they cannot be."""

import threading

import pytest

from gtrxl.gym.dmlab.level_cache import LevelCache, usual_folder
from tests.gym.lab_tasks import SMALL, task


def test_maps_are_compiled_once(lab, tmp_path):
    """Four maps, each compiled at most once; another Lab finds them all."""
    made = task(f"dmlab:explore_goal_locations_small:{SMALL}").make()
    for seed in range(24):
        made.reset(seed=seed)
    made.close()
    kept = list(usual_folder().glob("*.pk3"))
    assert len(kept) == 4
    assert usual_folder() == tmp_path / "cache" / "gtrxl" / "dmlab"
    lab.setattr(LevelCache, "write", lambda *_: pytest.fail("compiled again"))
    made = task(f"dmlab:explore_goal_locations_small:{SMALL}").make()
    for seed in range(24):
        made.reset(seed=seed)
    made.close()


def test_a_cache_elsewhere_or_none(lab, tmp_path):
    for cache, kept in ((tmp_path / "maps", 1), ("none", 0)):
        made = task(f"dmlab:explore_goal_locations_small:{SMALL},cache={cache}").make()
        made.reset(seed=0)
        made.close()
        assert len(list((tmp_path / "maps").glob("*.pk3"))) == 1
        assert len(list(usual_folder().glob("*"))) == 0, kept


def test_a_cache_that_cannot_be_used_is_no_cache(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "map").write_text("walls")
    broken = LevelCache(tmp_path / "file")
    broken.write("key", str(tmp_path / "map"))
    assert not broken.fetch("key", str(tmp_path / "got"))
    assert not LevelCache(tmp_path / "cache").fetch("../../map", str(tmp_path / "got"))
    assert not (tmp_path / "got").exists()


def test_many_write_one_map_and_nobody_reads_half_of_it(tmp_path):
    big = {letter: (letter * 200_000).encode() for letter in "ab"}
    for letter, walls in big.items():
        (tmp_path / letter).write_bytes(walls)
    cache, wrong = LevelCache(tmp_path / "cache"), []
    cache.write("key", str(tmp_path / "a"))

    def write(letter: str) -> None:
        for _ in range(50):
            cache.write("key", str(tmp_path / letter))

    def read(number: int) -> None:
        to = tmp_path / f"got-{number}"
        for _ in range(50):
            if not cache.fetch("key", str(to)) or to.read_bytes() not in big.values():
                wrong.append(number)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in big]
    threads += [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(list((tmp_path / "cache").iterdir())) == 1, "nothing is left lying about"
