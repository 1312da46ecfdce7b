#!/usr/bin/env python3
"""What is drawn is legal, the same for a seed, and made smaller without losing what fails."""

import itertools
import unittest

from drawing import draw
from lines import Line, Shape, read_line, text_of
from model import MAKES, Model, legal
from shrinking import smaller

SHAPES = [Shape(4), Shape(2, patient=True), Shape(3), Shape(6, layouts=True), Shape(4, threads=2, one_sided=False), Shape(3, threads=3)]


class Draw(unittest.TestCase):
    def test_a_seed_is_a_program(self) -> None:
        for shape in SHAPES:
            with self.subTest(shape=shape):
                first, again = draw(7, shape), draw(7, shape)
                self.assertEqual(text_of(first, shape, 7), text_of(again, shape, 7))
                self.assertNotEqual(text_of(first, shape, 7), text_of(draw(8, shape), shape, 8))

    def test_it_is_legal_and_ends_well(self) -> None:
        for shape in SHAPES:
            for seed in range(40):
                with self.subTest(shape=shape, seed=seed):
                    model = Model(shape.threads)
                    for line in draw(seed, shape):
                        self.assertTrue(model.take(line), str(line))
                    self.assertFalse([r for r in model.requests.values() if r.active])
                    self.assertFalse(model.windows)

    def test_it_reads_back(self) -> None:
        for line in draw(3, Shape(4)):
            self.assertEqual(read_line(str(line)), line)

    def test_everything_is_drawn_now_and_then(self) -> None:
        drawn = {line.verb for seed in range(60) for line in draw(seed, Shape(4))}
        drawn |= {line.verb for seed in range(20) for line in draw(seed, Shape(4, threads=2))}
        known = {name[1:] for name in vars(Model) if name.startswith("_") and not name.startswith("__")}
        self.assertEqual(drawn, known | {"meet"})

    def test_threads_share_no_communicator_without_meeting(self) -> None:
        shape = Shape(4, threads=2, one_sided=False)
        for seed in range(40):
            user: dict[str, int] = {}
            for line in draw(seed, shape):
                if line.verb == "meet":
                    user.clear()
                for word in ("comm", "from"):
                    name = line.words.get(word)
                    if name and line.verb != "give":
                        self.assertEqual(user.setdefault(name, line.thread), line.thread, f"seed {seed}: {line}")

    def test_threads_make_communicators_one_at_a_time(self) -> None:
        shape = Shape(4, threads=2, one_sided=False)
        made = 0
        for seed in range(40):
            lines = draw(seed, shape)
            meets = [-1, *(i for i, line in enumerate(lines) if line.verb == "meet"), len(lines)]
            for begin, end in itertools.pairwise(meets):
                part = lines[begin + 1 : end]
                if any(line.verb in MAKES for line in part):
                    made += 1
                    self.assertEqual(len({line.thread for line in part}), 1, f"seed {seed}: {part[0]}")
        self.assertGreater(made, 100)


class Legal(unittest.TestCase):
    def kept(self, *texts: str) -> list[str]:
        return [str(line) for line in legal([read_line(text) for text in texts], 1)]

    def test_lines_without_what_they_need_go(self) -> None:
        self.assertEqual(self.kept("1 0 collective comm=c9 kind=barrier", "2 0 wait reqs=r1"), [])

    def test_what_is_under_way_is_waited_for(self) -> None:
        call = "1 0 alltoall comm=world form=u mode=nonblocking length=small req=r1"
        self.assertEqual(self.kept(call), [call, "2 0 wait reqs=r1"])

    def test_a_communicator_in_use_is_not_freed(self) -> None:
        lines = [
            "1 0 dup from=world to=c1",
            "2 0 alltoall comm=c1 form=u mode=nonblocking length=small req=r2",
            "3 0 free comm=c1 how=free",
        ]
        self.assertNotIn(lines[2], self.kept(*lines))
        lines[1] = lines[1].replace("form=u", "form=v")  # MPI_Ialltoallv may be
        self.assertIn(lines[2], self.kept(*lines))

    def test_tags_and_wildcards_keep_apart(self) -> None:
        messages, group = "1 0 messages comm=world count=1 req=r1", "2 0 create_group from=world to=c2 members=0"
        self.assertEqual(self.kept(messages, group), [messages, "3 0 wait reqs=r1"])
        self.assertEqual(self.kept(group, messages), [group])

    def test_fixed_ones_stay(self) -> None:
        self.assertEqual(self.kept("1 0 free comm=world how=free"), [])


class Smaller(unittest.TestCase):
    def test_what_fails_stays_and_the_rest_goes(self) -> None:
        lines = draw(5, Shape(4))
        culprit = next(line for line in reversed(lines) if line.verb == "alltoall" and line.words["comm"] == "world")

        def fails(candidate: list[Line]) -> bool:
            return any(line.number == culprit.number for line in candidate)

        small = smaller(lines, 1, fails, 400)
        self.assertIn(culprit, small)
        self.assertLess(len(small), 6)


if __name__ == "__main__":
    unittest.main()
