"""The benchmark, with tiny weights."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import PARAMS, STEPS

from reelay_diffusers import bench


@pytest.mark.parametrize("pipeline", ["LTXPipeline", "WanPipeline"])
def test_measures_a_render_and_a_resume(pipeline: str, weights: dict[str, Path], tmp_path: Path) -> None:
    settings = {"pipeline": pipeline, "weights": str(weights[pipeline])}

    figures = bench.measure(settings, PARAMS, 5, tmp_path)

    assert figures.same_bytes
    assert figures.steps == STEPS
    assert min(figures.step, figures.save, figures.load) > 0
    assert figures.resume > 0
    assert figures.checkpoint_bytes > 1000
    assert figures.row().count("|") == bench.HEAD.split("\n")[0].count("|")


def test_does_fewer_steps_when_time_is_short(weights: dict[str, Path], tmp_path: Path) -> None:
    settings = {"pipeline": "WanPipeline", "weights": str(weights["WanPipeline"])}

    figures = bench.measure(settings, PARAMS | {"steps": 1000}, 0.0001, tmp_path)

    assert figures.steps == 4
