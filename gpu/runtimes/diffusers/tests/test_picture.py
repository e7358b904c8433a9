"""Images of every kind that cameras and programs write. None of it needs torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from reelay_runtime import InvalidInput

from reelay_diffusers.picture import open_image

SIZE = (64, 32)


def gradient(path: Path, mode: str, **options: object) -> Path:
    """Writes an image that is dark at the left and bright at the right."""
    grey = Image.linear_gradient("L").rotate(90).resize(SIZE)
    if mode == "I;16":
        image = Image.new("I;16", SIZE)
        for x in range(SIZE[0]):
            for y in range(SIZE[1]):
                image.putpixel((x, y), grey.getpixel((x, y)) * 257)
    elif mode == "P":
        image = grey.convert("RGB").quantize(64)
    else:
        image = grey.convert("RGB").convert(mode)
    image.save(path, **options)
    return path


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("a.png", "L"), ("a.png", "I;16"), ("a.png", "P"), ("a.png", "LA"), ("a.png", "RGBA"),
        ("a.png", "RGB"),
        ("a.jpg", "L"), ("a.jpg", "RGB"), ("a.jpg", "CMYK"), ("a.webp", "RGB"), ("a.webp", "RGBA"),
    ],
)  # fmt: skip
def test_every_mode_shows_the_gradient(tmp_path: Path, name: str, mode: str) -> None:
    image = open_image(gradient(tmp_path / name, mode, quality=95), *SIZE)

    assert image.mode == "RGB"
    assert image.size == SIZE
    values = [image.getpixel((x, 16)) for x in (3, 32, 60)]
    for value, wanted in zip(values, (12, 128, 240), strict=True):
        assert all(abs(channel - wanted) < 16 for channel in value), (mode, values)


def test_black_and_white(tmp_path: Path) -> None:
    Image.new("1", SIZE, 1).save(tmp_path / "a.png")

    assert open_image(tmp_path / "a.png", *SIZE).getpixel((5, 5)) == (255, 255, 255)


def test_what_is_transparent_is_black(tmp_path: Path) -> None:
    for mode in ("RGBA", "LA"):
        image = Image.new("RGBA", SIZE, (200, 200, 200, 0))
        image.paste((200, 200, 200, 255), (32, 0, 64, 32))
        image.convert(mode).save(tmp_path / "a.png")

        shown = open_image(tmp_path / "a.png", *SIZE)

        assert shown.getpixel((5, 5)) == (0, 0, 0), mode
        assert shown.getpixel((60, 5)) == (200, 200, 200), mode
    palette = Image.new("P", SIZE, 0)
    palette.putpalette([250, 10, 10, 10, 250, 10])
    palette.paste(1, (32, 0, 64, 32))
    palette.save(tmp_path / "b.png", transparency=0)
    shown = open_image(tmp_path / "b.png", *SIZE)
    assert shown.getpixel((5, 5)) == (0, 0, 0)
    assert shown.getpixel((60, 5)) == (10, 250, 10)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_stands_upright(tmp_path: Path, orientation: int) -> None:
    upright = Image.new("RGB", SIZE, (30, 30, 30))
    upright.paste((250, 10, 10), (0, 0, 16, 16))
    turn = {
        2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_270,
    }.get(orientation)  # fmt: skip
    stored = upright.transpose(turn) if turn is not None else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    for name in ("a.jpg", "a.png", "a.webp"):
        stored.save(tmp_path / name, exif=exif, quality=95)

        image = open_image(tmp_path / name, *SIZE)

        assert image.getpixel((4, 4))[0] > 200, name
        assert image.getpixel((60, 28))[0] < 80, name


def test_refuses_what_is_no_image(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("no image")
    Image.new("RGB", SIZE).save(tmp_path / "a.gif")
    for name in ("a.png", "a.gif"):
        with pytest.raises(InvalidInput, match="Use a JPEG, PNG or WebP"):
            open_image(tmp_path / name, *SIZE)
