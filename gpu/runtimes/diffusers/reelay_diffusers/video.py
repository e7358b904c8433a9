"""Writes the files of a result. The same frames give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy
from av.codec.context import Flags
from PIL import Image

THUMBNAIL_SIDE = 640  # the longer side, in pixels
SPRITE_SIDE = 240
SHEET_COLUMNS = 5
BT709 = 1

Frames = numpy.ndarray[Any, numpy.dtype[numpy.uint8]]


def write_mp4(path: Path, frames: Frames, fps: int) -> Iterator[int]:
    """Writes an H.264 video, and yields after each frame. The file appears when it is complete."""
    unfinished = path.with_name(f".{path.name}.tmp")
    # Neither the host nor the time is written, and the number of threads is fixed, so that
    # the file depends only on the frames.
    options = {"movflags": "+faststart", "fflags": "+bitexact"}
    with av.open(str(unfinished), "w", format="mp4", options=options) as container:
        stream: Any = container.add_stream("libx264", rate=fps, options={"crf": "18", "preset": "medium"})
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"
        context = stream.codec_context
        context.thread_count = 2
        context.flags |= Flags.bitexact
        context.color_primaries = context.color_trc = context.colorspace = BT709
        for number, pixels in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            # Several threads now and then convert some rows of a frame with another matrix.
            picture = picture.reformat(format="yuv420p", dst_colorspace="ITU709", threads=1)
            for packet in stream.encode(picture):
                container.mux(packet)
            yield number + 1
        for packet in stream.encode():
            container.mux(packet)
    unfinished.rename(path)


def write_thumbnail(path: Path, frames: Frames) -> None:
    """Writes the frame in the middle as a WebP."""
    _scaled(frames[len(frames) // 2], THUMBNAIL_SIDE).save(path, "WEBP", quality=85)


def write_spritesheet(path: Path, frames: Frames) -> None:
    """Writes up to 25 frames at equal distances, beginning with the first, in rows of 5."""
    count = min(len(frames), SHEET_COLUMNS * SHEET_COLUMNS)
    sprites = [_scaled(frames[number * len(frames) // count], SPRITE_SIDE) for number in range(count)]
    columns = min(count, SHEET_COLUMNS)
    rows = -(-count // columns)
    width, height = sprites[0].size
    sheet = Image.new("RGB", (columns * width, rows * height))
    for number, sprite in enumerate(sprites):
        sheet.paste(sprite, (number % columns * width, number // columns * height))
    sheet.save(path, "JPEG", quality=90)


def _scaled(pixels: Frames, side: int) -> Image.Image:
    image = Image.fromarray(pixels)
    longest = max(image.size)
    size = max(image.width * side // longest, 1), max(image.height * side // longest, 1)
    return image.resize(size, Image.Resampling.BICUBIC)
