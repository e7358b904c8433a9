"""What settings, weights and parameters are refused, and why."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from conftest import PARAMS, Bench, Benches, picture
from PIL import Image
from reelay_runtime import Failure, InvalidInput, ModelCrash
from reelay_runtime.entry import Entry
from safetensors.torch import load_file, save_file

from reelay_diffusers import request, settings
from reelay_diffusers.model import DiffusersModel
from reelay_diffusers.picture import open_image
from reelay_diffusers.pipelines import KINDS, Loaded
from reelay_diffusers.weights import check, find


def loaded(rig: Bench) -> Loaded:
    assert rig.model.loaded
    return rig.model.loaded


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pipeline": "StableDiffusionPipeline"}, "must be one of: LTXPipeline"),
        ({"pipeline": "os"}, "must be one of"),
        ({"weights": ""}, "weights is missing"),
        ({"sheduler": {}}, "'sheduler' is unknown"),
        ({"scheduler": {"class": "AutoencoderKL"}}, "not a scheduler"),
        ({"scheduler": {"class": "os"}}, "not a scheduler"),
        ({"dtype": "int8"}, "must be one of: bfloat16"),
        ({"pipeline": "LTXPipeline", "dtype": "bfloat16", "vaeDtype": "float32"}, "leave vaeDtype out"),
        pytest.param(
            {"offload": "model"},
            "needs a GPU",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU"),
        ),
        ({"vaeTiling": "yes"}, "must be a bool"),
        ({"adapters": [{"path": "a.bin", "sha256": "0" * 64}]}, "not a .safetensors"),
        ({"adapters": [{"path": "a.safetensors"}]}, "needs its sha256"),
        ({"adapters": ["a"]}, "not an object"),
        ({"rgbFactors": [[1, 2]]}, "rgbFactors must be"),
        ({"call": {"image": "/etc/passwd"}}, "call has 'image'"),
        ({"defaults": {"seed": 1}}, "defaults has 'seed'"),
    ],
)
def test_refuses_settings(weights: dict[str, Path], given: dict[str, Any], message: str) -> None:
    complete = {"pipeline": "WanPipeline", "weights": str(weights["WanPipeline"])} | given
    with pytest.raises(InvalidInput, match=message):
        DiffusersModel().load(Entry("tiny", 1, complete))


@pytest.mark.parametrize(
    ("folder", "message"),
    [("/nowhere", "not a folder"), ("acme/unknown", "neither a folder nor in the cache")],
)
def test_weights_may_be_on_another_machine(folder: str, message: str) -> None:
    with pytest.raises(ModelCrash, match=message):
        DiffusersModel().load(Entry("tiny", 1, {"pipeline": "WanPipeline", "weights": folder}))


def test_accepts_the_example() -> None:
    example = Path(__file__).parent.parent / "examples" / "models.yaml"
    models = yaml.safe_load(example.read_text())["models"]
    assert {settings.parse(model["settings"]).pipeline for model in models} <= set(KINDS)
    for model in models:
        assert set(model["params"]["properties"]) <= request.PARAMETERS


@pytest.mark.parametrize("pipeline", ["LTXPipeline", "WanPipeline"])
def test_tiles(bench: Benches, pipeline: str) -> None:
    rig = bench(pipeline, vaeTiling=True)
    assert loaded(rig).pipe.vae.use_tiling
    undisturbed = rig.attempt()
    path = undisturbed.checkpoint(2)["path"]
    assert rig.attempt(path, determinism="strict").digest == undisturbed.digest
    (rejected,) = bench(pipeline).attempt(path, determinism="strict").of("checkpointRejected")
    assert "vaeTiling True → False" in rejected["reason"]


def copy(weights: dict[str, Path], to: Path) -> Path:
    return Path(shutil.copytree(weights["WanPipeline"], to / "weights"))


def test_downloads_only_with_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []

    def snapshot_download(name: str, **arguments: Any) -> str:
        asked.append({"name": name} | arguments)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    given = {"pipeline": "WanPipeline", "weights": "acme/unknown"}
    assert find(settings.parse(given)) == tmp_path
    assert find(settings.parse(given | {"hub": True, "revision": "abc"})) == tmp_path
    assert [call["local_files_only"] for call in asked] == [True, False]
    assert asked[1]["revision"] == "abc"
    assert not any("bin" in pattern for pattern in asked[1]["allow_patterns"])


def test_refuses_pickles(bench: Benches, weights: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(weights, tmp_path)
    (file,) = (folder / "transformer").glob("*.safetensors")
    file.rename(file.with_suffix(".bin"))
    with pytest.raises(InvalidInput, match=r"transformer/.*\.bin can run any code.*Convert"):
        bench("WanPipeline", weights=str(folder))


def test_refuses_other_libraries(bench: Benches, weights: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(weights, tmp_path)
    index = folder / "model_index.json"
    index.write_text(index.read_text().replace('"diffusers",\n    "AutoencoderKLWan"', '"os",\n    "system"'))
    with pytest.raises(InvalidInput, match="takes vae from 'os'"):
        bench("WanPipeline", weights=str(folder))


def test_finds_files_that_are_cut_short(bench: Benches, weights: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(weights, tmp_path)
    (file,) = (folder / "vae").glob("*.safetensors")
    content = file.read_bytes()
    for size in (len(content) - 1, 100, 5, 0):
        file.write_bytes(content[:size])
        with pytest.raises(ModelCrash, match=f"{file.name} is (cut short|damaged)"):
            bench("WanPipeline", weights=str(folder))


def test_digest_of_weights(weights: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(weights, tmp_path)
    before = check(folder)
    assert before == check(weights["WanPipeline"]), "the place does not matter"
    (folder / ".cache").mkdir()
    (folder / ".cache" / "note.json").write_text("downloaded at noon")
    (folder / "README.md").write_text("about the model")
    assert check(folder) == before
    config = folder / "scheduler" / "scheduler_config.json"
    config.write_text(config.read_text().replace("3.0", "4.0"))
    assert check(folder) != before


def lora(rig: Bench, folder: Path) -> Path:
    """Writes an adapter with random weights."""
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    transformer = loaded(rig).pipe.transformer
    transformer.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_v"], init_lora_weights=False))
    layers = get_peft_model_state_dict(transformer)
    kind = type(loaded(rig).pipe)
    kind.save_lora_weights(folder, transformer_lora_layers=layers)
    (file,) = folder.glob("*.safetensors")
    return file


@pytest.mark.parametrize("pipeline", ["LTXPipeline", "WanPipeline"])
def test_adapters(bench: Benches, tmp_path: Path, pipeline: str) -> None:
    plain = bench(pipeline)
    undisturbed = plain.attempt()
    file = lora(bench(pipeline), tmp_path / "lora")
    # Random adapters of a tiny model do little; make this one do more.
    save_file({name: tensor * 5 for name, tensor in load_file(file).items()}, file)
    adapter = {"path": str(file), "sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "weight": 0.8}

    adapted = bench(pipeline, adapters=[adapter])
    video = adapted.attempt()
    assert video.digest != undisturbed.digest
    assert adapted.attempt(video.checkpoint(2)["path"]).digest == video.digest
    without = plain.attempt(video.checkpoint(2)["path"])
    assert without.of("checkpointRejected"), "a checkpoint belongs to its adapters"
    stronger = bench(pipeline, adapters=[adapter | {"weight": 1.6}]).attempt(video.checkpoint(2)["path"])
    assert stronger.of("checkpointRejected")
    assert stronger.digest != video.digest

    with pytest.raises(ModelCrash, match="SHA-256"):
        bench(pipeline, adapters=[adapter | {"sha256": "0" * 64}])


def asks(rig: Bench, **fields: Any) -> request.Request:
    return request.parse(rig.job(**fields), loaded(rig))


def test_rounds_sizes_and_lengths(bench: Benches) -> None:
    ltx, wan = bench("LTXPipeline"), bench("WanPipeline")
    wide = asks(ltx, params={"resolution": "480p"})
    assert (wide.width, wide.height, wide.frames, wide.fps) == (832, 480, 97, 24)
    tall = asks(wan, params={"resolution": "720p", "aspectRatio": "9:16", "durationSeconds": 5})
    assert (tall.width, tall.height, tall.frames, tall.fps) == (720, 1280, 81, 16)
    assert asks(wan, params={"size": "70x40", "frames": 2}).frames == 1
    assert asks(wan, params={"size": "70x40"}).width == 64
    assert asks(wan, params={"allowDark": True, "allowStill": True}).width == asks(wan, params={}).width
    steps = bench("WanPipeline", defaults={"steps": 9, "guidanceScale": 1.0, "fps": 12})
    assert (asks(steps, params={}).steps, asks(steps, params={}).guided) == (9, False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompt": " "}, "prompt is empty"),
        ({"params": {"speed": 3}}, "'speed' is not a parameter"),
        ({"params": {"size": "big"}}, "like 832x480"),
        ({"params": {"size": "8x8"}}, "16 to 4096 pixels"),
        ({"params": {"size": "99999x16"}}, "16 to 4096 pixels"),
        ({"params": {"steps": 0}}, "steps is 0"),
        ({"params": {"durationSeconds": 1e9}}, "durationSeconds"),
        ({"params": {"seed": -1}}, "seed"),
        ({"inputs": {"referenceImage": "/tmp/a"}}, "takes no image"),
    ],
)
def test_refuses_parameters(bench: Benches, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        asks(bench("WanPipeline"), **fields)


def test_images(bench: Benches, tmp_path: Path) -> None:
    rig = bench("LTXImageToVideoPipeline")
    with pytest.raises(InvalidInput, match="begins with an image"):
        asks(rig, inputs={})
    image = open_image(picture(tmp_path / "a", 1), 64, 32)
    assert (image.size, image.mode) == ((64, 32), "RGB")

    broken = tmp_path / "broken"
    broken.write_bytes(picture(tmp_path / "b", 1).read_bytes()[:200])
    large = tmp_path / "large"
    Image.new("1", (6000, 5000)).save(large, "PNG")
    other = tmp_path / "other"
    Image.new("L", (10, 10)).save(other, "GIF")
    for path, message in ((broken, "cannot be decoded"), (large, "million pixels"), (other, "decoded")):
        with pytest.raises(InvalidInput, match=message):
            open_image(path, 64, 32)
    one = rig.attempt(inputs={"referenceImage": str(picture(tmp_path / "c", 1))})
    two = rig.attempt(inputs={"referenceImage": str(picture(tmp_path / "d", 3))})
    assert one.digest != two.digest


def test_failures_of_the_gpu(bench: Benches, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = bench("WanPipeline")
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    cases: list[tuple[Exception, str]] = [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB"), "OUT_OF_MEMORY"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), "OUT_OF_MEMORY"),
        (torch.AcceleratorError("CUDA error: an illegal memory access\nhint", 700), "MODEL_CRASH"),
        (RuntimeError("CUDA error: device-side assert triggered"), "MODEL_CRASH"),
    ]
    for error, failure_class in cases:
        failure = rig.model.translate(error)
        assert isinstance(failure, Failure)
        assert failure.failure_class == failure_class
    assert rig.model.translate(ValueError("anything")) is None


def test_values_that_are_not_finite(bench: Benches, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = bench("WanPipeline")
    forward = loaded(rig).pipe.transformer.forward
    calls = 0

    def spoil(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        (output,) = forward(*arguments, **named)
        if calls == 5:  # two calls for each step: the third step
            output[0, 0, 0, 0, 0] = torch.nan
        return (output,)

    monkeypatch.setattr(loaded(rig).pipe.transformer, "forward", spoil)
    saved: list[Path] = []
    monkeypatch.setattr(
        rig.model, "save", lambda path: saved.append(path) or type(rig.model).save(rig.model, path)
    )
    with pytest.raises(ModelCrash, match="after step 3 has values that are not finite"):
        rig.attempt()
    assert len(saved) == 3, "the prompt, and two steps"


def test_params_are_those_of_the_tests(bench: Benches) -> None:
    assert asks(bench("LTXPipeline"), params=PARAMS).frames == 9
