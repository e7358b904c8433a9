"""The image with which a video begins, as a customer uploaded it."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageOps
from reelay_runtime import InvalidInput

MAX_IMAGE_PIXELS = 25_000_000


def open_image(path: Path, width: int, height: int) -> Image.Image:
    """Returns an image in the size of the video: upright, scaled, and cropped around its middle.

    Where it is transparent it is black, as in the model testcard.
    """
    try:
        with Image.open(path, formats=["JPEG", "PNG", "WEBP"]) as image:
            if image.width * image.height > MAX_IMAGE_PIXELS:
                raise InvalidInput(f"The image has more than {MAX_IMAGE_PIXELS // 1_000_000} million pixels.")
            upright = to_rgb(ImageOps.exif_transpose(image))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InvalidInput(f"The image cannot be decoded: {error}. Use a JPEG, PNG or WebP.") from error
    return ImageOps.fit(upright, (width, height), Image.Resampling.LANCZOS)


def to_rgb(image: Image.Image) -> Image.Image:
    """Returns an image of any mode with three channels of 8 bits."""
    if image.mode.startswith("I;16") or image.mode == "I":
        # 16 bits of grey. Pillow would cut at 255 rather than scale. In the mode I, which
        # takes all of these, a point is scaled and moved.
        image = image.convert("I").point(lambda value: value * (1 / 257) + 0.5).convert("L")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
    return image.convert("RGB")
