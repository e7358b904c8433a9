# ruff: noqa: E501
"""`reelay-runtime test`: it finds what is wrong with a program, and says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

GRADIENT = ROOT / "examples" / "gradient.py"

PROGRAM = """
import os, random, sys, time
from reelay_runtime import InvalidInput, Model, Result, Step, serve

class Dice(Model):
    runtime = "dice 1"
    models = {"dice": "1"}

    def begin(self, job):
        self.random, self.step, self.drawn = random.Random(job.prompt), 0, []
        self.steps_asked = job.param("steps", 4)

    def steps(self, job):
        while self.step < self.steps_asked:
            self.drawn.append(self.random.randrange(1000))
            self.step += 1
            yield Step(self.step, self.steps_asked)
        video = job.workdir / "video.mp4"
        video.write_text(repr(self.drawn))
        return Result(video=video)

    def save(self, path):
        path.write_text(repr([self.step, self.drawn, self.random.getstate()]))

    def restore(self, path):
        self.step, self.drawn, state = eval(path.read_text())
        self.random.setstate(state)

CHANGE
serve(Dice())
"""


def run(tmp_path: Path, change: str = "", *arguments: str) -> tuple[int, str]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("CHANGE", change))
    return run_program(program, *arguments)


def run_program(program: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "reelay_runtime", "test", *arguments, str(program)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_passes_a_good_program_at_every_step(tmp_path: Path) -> None:
    status, said = run(tmp_path)
    assert status == 0, said
    for step in range(1, 5):
        assert f"step {step}: killed, resumed, the same bytes" in said
    assert "OK" in said


def test_passes_the_example() -> None:
    status, said = run_program(GRADIENT, "--steps", "2", "--param", "durationSeconds=0.5")
    assert status == 0, said


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        # The random generator is not saved.
        (
            "Dice.restore = lambda self, path: setattr(self, 'step', eval(path.read_text())[0])",
            "made other bytes",
        ),
        # The step is not restored, so the work is done twice.
        (
            "def restore(self, path): pass\nDice.restore = restore\nDice.save = lambda self, path: path.write_text('x')\n",
            "OK",
        ),
        ("Dice.save = Model.save\nDice.restore = Model.restore", "define save and restore"),
        (
            "def restore(self, path): raise ValueError('no such key')\nDice.restore = restore",
            "did not restore",
        ),
        (
            "Dice.begin = lambda self, job: self.__dict__.update(random=random.Random(), step=0, drawn=[], steps_asked=3)",
            "Two undisturbed runs",
        ),
        (
            "def steps(self, job):\n    return Result(video=job.workdir / 'none.mp4')\n    yield\nDice.steps = steps",
            "no file",
        ),
        (
            "def steps(self, job):\n    return Result()\n    yield\nDice.steps = steps",
            "neither a video nor an output",
        ),
        (
            "def begin(self, job): raise InvalidInput('The prompt is bad.')\nDice.begin = begin",
            "INVALID_INPUT: The prompt is bad.",
        ),
        ("sys.exit(3)", "exit status 3"),
        ("raise RuntimeError('no weights')", "no weights"),
        ("Dice.steps = lambda self, job: time.sleep(100)", "said nothing for 1 s"),
    ],
)
def test_says_what_is_wrong(tmp_path: Path, change: str, problem: str) -> None:
    status, said = run(tmp_path, change, "--timeout", "1" if "sleep" in change else "60")
    assert problem in said
    assert status == (0 if problem == "OK" else 1), said


def test_takes_parameters_and_refuses_wrong_flags(tmp_path: Path) -> None:
    status, said = run(tmp_path, "", "--param", "steps=2")
    assert status == 0
    assert "2 steps" in said
    for wrong in (["--param", "steps"], ["--steps", "1"], ["--timeout", "0"], ["--input", "a=nowhere"]):
        status, said = run(tmp_path, "", *wrong)
        assert status == 2, said
    status, said = run(tmp_path, "", "--model", "none")
    assert status == 1
    assert "It serves: dice." in said
