"""The files of a result, previews, drafts, and the cache of embeddings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import av
import numpy
import pytest
import torch
from conftest import STEPS, Bench, Benches
from PIL import Image
from reelay_runtime import InvalidInput

from reelay_diffusers import preview, video
from reelay_diffusers.embeddings import EmbeddingCache
from reelay_diffusers.pipelines import KINDS


def ramp(frames: int, width: int = 96, height: int = 64) -> video.Frames:
    """Returns frames that get brighter."""
    shades = numpy.linspace(20, 230, frames)[:, None, None, None]
    return numpy.broadcast_to(shades, (frames, height, width, 3)).astype(numpy.uint8)


def test_mp4(tmp_path: Path) -> None:
    frames = ramp(30)
    paths = [tmp_path / "a.mp4", tmp_path / "b.mp4"]
    for path in paths:
        assert list(video.write_mp4(path, frames, 24)) == list(range(1, 31))
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert not list(tmp_path.glob(".*"))
    content = paths[0].read_bytes()
    assert content.index(b"moov") < content.index(b"mdat"), "a player can begin before the file is complete"
    assert b"Lavf" not in content and b"Lavc" not in content, "no version of a library"
    with av.open(str(paths[0])) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.average_rate) == (96, 64, 24)
        decoded = [frame.to_ndarray(format="rgb24").mean() for frame in container.decode(stream)]
    assert numpy.allclose(decoded, frames.mean(axis=(1, 2, 3)), atol=3)


def test_stills(tmp_path: Path) -> None:
    frames = ramp(50)
    video.write_thumbnail(tmp_path / "a.webp", frames)
    with Image.open(tmp_path / "a.webp") as image:
        assert (image.format, image.size) == ("WEBP", (640, 426))
        assert abs(numpy.asarray(image).mean() - frames[25].mean()) < 3
    video.write_spritesheet(tmp_path / "a.jpg", frames)
    with Image.open(tmp_path / "a.jpg") as image:
        assert (image.format, image.size) == ("JPEG", (5 * 240, 5 * 160))
    video.write_spritesheet(tmp_path / "b.jpg", frames[:7])
    with Image.open(tmp_path / "b.jpg") as image:
        assert image.size == (5 * 240, 2 * 160)


@pytest.mark.parametrize("pipeline", KINDS)
def test_draft(bench: Benches, pipeline: str) -> None:
    rig = bench(pipeline)
    draft = rig.attempt(draftSteps=2)
    saved = draft.checkpoint(2)
    with Image.open(draft.of("result")[0]["preview"]) as image:
        assert (image.format, image.size) == ("JPEG", (512, 512))
    # The whole video resumes from the draft.
    assert rig.attempt(saved["path"]).digest == rig.attempt().digest
    # A draft of what was already done shows it without a step.
    again = rig.attempt(saved["path"], draftSteps=1)
    assert again.of("result")[0]["preview"]
    assert [saved["step"] for saved in again.of("checkpoint")] == [2]


def test_preview_colours() -> None:
    frame = torch.arange(4 * 2 * 3, dtype=torch.float32).reshape(4, 2, 3)
    assert preview.to_rgb(frame, ()).shape == (2, 3, 3)
    red = preview.to_rgb(frame, ((1.0, 0.0, 0.0),) * 4)
    assert red[..., 0].max() == 255
    assert red[..., 1].max() == 0
    with pytest.raises(InvalidInput, match="1 rows, and the latents have 4 channels"):
        preview.to_rgb(frame, ((1.0, 0.0, 0.0),))


def test_cache_of_embeddings() -> None:
    cache = EmbeddingCache(max_bytes=100)
    cpu = torch.device("cpu")
    ten = torch.zeros(10)  # 40 bytes
    key = cache.key("weights", "a sea", "", True)
    assert key != cache.key("weights", "a sea", "", False)
    assert key != cache.key("other", "a sea", "", True)
    assert cache.get(key, cpu) is None
    cache.put(key, {"prompt_embeds": ten})
    assert torch.equal((cache.get(key, cpu) or {})["prompt_embeds"], ten)
    cache.put("b", {"x": ten})
    cache.get(key, cpu)
    cache.put("c", {"x": ten})
    assert (len(cache), cache.size) == (2, 80)
    assert cache.get("b", cpu) is None, "the one that was not used for longest is dropped"
    cache.drop(key)
    cache.drop("unknown")
    assert (len(cache), cache.size) == (1, 40)
    cache.put("huge", {"x": torch.zeros(1000)})
    assert cache.size <= 100
    cache.clear()
    assert (len(cache), cache.size) == (0, 0)


def test_encodes_a_prompt_once(bench: Benches, monkeypatch: pytest.MonkeyPatch) -> None:
    rig: Bench = bench("LTXPipeline")
    first = rig.attempt()

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("the prompt is encoded again")

    assert rig.model.loaded
    monkeypatch.setattr(rig.model.loaded.pipe, "_get_t5_prompt_embeds", forbidden)
    assert rig.attempt().digest == first.digest
    rig.model.cache.clear()
    assert rig.attempt(first.checkpoint(STEPS)["path"]).digest == first.digest, "a checkpoint has them"
    with pytest.raises(AssertionError, match="encoded again"):
        rig.attempt()


def test_tiny_from_the_command_line(tmp_path: Path) -> None:
    folder = Path(__file__).parent.parent
    command = [
        sys.executable,
        "-m",
        "reelay_diffusers.tiny",
        str(tmp_path / "tiny"),
        "--pipeline",
        "WanPipeline",
    ]
    paths = f"{folder}:{folder.parent / 'python'}"
    subprocess.run(
        command, check=True, env={"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}, capture_output=True
    )
    assert (tmp_path / "tiny" / "model_index.json").is_file()
