"""Compiled maps of DeepMind Lab are kept: once for all, whole or not at all, and nothing breaks where they cannot be."""

import importlib
import os
import threading
import time

import pytest

from gtrxl.gym.dmlab.level_cache import LevelCache, usual_folder
from gtrxl.tasks.errors import TaskError
from tests.gym import fake_lab
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


def test_the_cache_has_a_bound_and_keeps_what_is_used(tmp_path):
    cache, file = LevelCache(tmp_path / "cache", megabytes=1), tmp_path / "map"
    file.write_bytes(b"x" * 100_000)
    for number in range(10):
        cache.write(f"map {number}", str(file))
        place = cache._place(f"map {number}")
        os.utime(place, (number, number))  # long ago, one after the other
    assert cache.fetch("map 0", str(tmp_path / "got")), "all ten have room"
    cache.write("map 10", str(file))
    assert sum(kept.stat().st_size for kept in cache.folder.iterdir()) <= 1_000_000
    assert cache.fetch("map 0", str(tmp_path / "got")), "it was used just now"
    assert cache.fetch("map 10", str(tmp_path / "got"))
    assert not cache.fetch("map 1", str(tmp_path / "got"))


def test_copies_that_were_never_finished_are_cleared_away(tmp_path):
    cache, file = LevelCache(tmp_path / "cache"), tmp_path / "map"
    file.write_bytes(b"x")
    cache.write("one", str(file))
    for name, age in ((".part-old", 10_000), (".part-new", 10)):
        (cache.folder / name).touch()
        then = time.time() - age
        os.utime(cache.folder / name, (then, then))
    cache.write("two", str(file))
    assert {path.name for path in cache.folder.glob(".part*")} == {".part-new"}


def test_few_maps_are_played_from_the_cache(lab):
    """Of 2**31 seeds no map comes twice; of three all are soon compiled. What is scored is of all."""
    seeds = []

    class Watched(fake_lab.Lab):
        def reset(self, episode=-1, seed=None):
            seeds.append(seed)
            return super().reset(episode, seed)

    lab.setattr(importlib.import_module("deepmind_lab"), "Lab", Watched)
    few = task(f"dmlab:explore_goal_locations_small:{SMALL},maps=3")
    for chosen, kept in ((few, {0, 1, 2}), (few.held_out(), None)):
        seeds.clear()
        made = chosen.make()
        made.reset(seed=0)
        for _ in range(30):
            made.reset()
        made.close()
        assert set(seeds) == kept if kept else len(set(seeds)) == 31
    with pytest.raises(TaskError, match="maps must be from 0"):
        task("dmlab:rooms_watermaze:maps=-1")
