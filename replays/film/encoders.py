"""Writing of frames: GIF by Pillow, MP4 (H.264) by the ffmpeg of the package imageio-ffmpeg."""

from __future__ import annotations

import io
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from arena.core.errors import ArenaError
from arena.core.text import shorten
from replays.film import FilmOptions, FrameSink

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

COLORS = 255
"""Colours of the film; one more index means that a pixel is as before."""
COMMON = 64
"""Colours that are chosen because they are the most frequent ones: the areas."""
DISTANCES = (48, 32, 24, 16, 12, 8, 4, 1, 0)
"""Least distances in RGB of the others from those that were chosen before. Without them the edges
of large areas would take all colours, and none would be left for a small pawn."""
SAMPLES = 24
"""Frames from which the colours are chosen."""
FRAME_RATE = 10
"""Frames of the file per second: programs that play films expect more than one."""


@contextmanager
def gif_sink(file: BinaryIO, options: FilmOptions) -> Iterator[FrameSink]:
    """Encode the frames, which repeat without end, when the context ends without an error."""
    # Frames are kept until the last one, since all share their colours.
    pictures: list[bytes] = []
    yield pictures.append
    from PIL import Image

    palette, no_dither = _shared_palette(pictures), Image.Dither.NONE
    frames = (
        _open(picture, options).quantize(palette=palette, dither=no_dither) for picture in pictures
    )
    next(frames).save(
        file,
        format="GIF",
        save_all=True,
        append_images=frames,
        duration=[round(seconds * 1000) for seconds in options.durations],
        loop=0,
        disposal=1,
        # Of each frame only what has changed is stored.
        optimize=True,
        transparency=COLORS,
        palette=palette.getpalette(),
    )


def _open(picture: bytes, options: FilmOptions) -> Image:
    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    size = (options.size.width, options.size.height)
    return image if image.size == size else image.resize(size)


def _shared_palette(pictures: list[bytes]) -> Image:
    """Return an image with the colours of frames from the whole film."""
    from PIL import Image

    step = max(1, len(pictures) // SAMPLES)
    counts: dict[int, int] = {}
    for picture in [*pictures[::step], pictures[-1]]:
        pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"), dtype=np.uint32)
        codes = (pixels[..., 0] << 16) | (pixels[..., 1] << 8) | pixels[..., 2]
        for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
            counts[int(code)] = counts.get(int(code), 0) + int(count)
    by_frequency = sorted(counts, key=lambda code: (-counts[code], code))
    chosen = choose_colors(np.array(by_frequency, dtype=np.int64))
    palette = Image.new("P", (1, 1))
    palette.putpalette(chosen.astype(np.uint8).tobytes())
    return palette


def choose_colors(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most `COLORS` rows of red, green and blue.

    `codes` are different colours as 0xRRGGBB, the most frequent first.
    """
    colors = np.stack([codes >> 16, (codes >> 8) & 255, codes & 255], axis=1)
    chosen = list(colors[:COMMON])
    # Squared distance of each colour from the nearest chosen one.
    nearest = np.min([((colors - each) ** 2).sum(axis=1) for each in chosen], axis=0)
    for distance in DISTANCES:
        while len(chosen) < COLORS and (far := np.flatnonzero(nearest > distance**2)).size:
            chosen.append(colors[far[0]])
            nearest = np.minimum(nearest, ((colors - chosen[-1]) ** 2).sum(axis=1))
    return np.array(chosen)


@contextmanager
def mp4_sink(file: BinaryIO, options: FilmOptions) -> Iterator[FrameSink]:
    """Encode the frames while they are made; the file is complete when the context has ended.

    Raises ArenaError if ffmpeg does not start or fails.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            _command(file.name, options),
            stdin=subprocess.PIPE,
            stderr=errors,
            # Ctrl-C is for this process, which then ends the other one.
            start_new_session=True,
        )
        assert process.stdin is not None
        ended_early = False
        try:
            yield process.stdin.write
            process.communicate()
        except BrokenPipeError:
            process.wait()
            ended_early = True
        finally:
            process.kill()
            process.wait()
            with suppress(BrokenPipeError):
                process.stdin.close()
        if process.returncode or ended_early:
            errors.seek(0)
            message = " ".join(errors.read().decode(errors="replace").split()) or "no message"
            raise ArenaError(f"ffmpeg could not write the film: {shorten(message)}")


def _command(out: str, options: FilmOptions) -> list[str]:
    from imageio_ffmpeg import get_ffmpeg_exe

    try:
        program = get_ffmpeg_exe()
    except RuntimeError as error:  # A wheel without a binary, on an unusual machine.
        raise ArenaError(
            "--export mp4 needs ffmpeg, which imageio-ffmpeg does not bring for this machine: "
            "install ffmpeg, or use --export gif"
        ) from error
    rate = 1 / Fraction(str(options.seconds)).limit_denominator(1000)
    hold = options.durations[-1] - options.seconds
    filters = (
        f"tpad=stop_mode=clone:stop_duration={hold:g},fps={FRAME_RATE},"
        # Colours of HD video, also for small films.
        f"scale={options.size.width}:{options.size.height}:out_color_matrix=bt709:out_range=tv,"
        "format=yuv420p"
    )
    return [
        program, "-nostdin", "-loglevel", "error", "-y",
        "-f", "image2pipe", "-framerate", f"{rate.numerator}/{rate.denominator}",
        "-c:v", "png", "-i", "-", "-vf", filters,
        "-c:v", "libx264", "-preset", "veryfast", "-tune", "animation", "-crf", "20",
        "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709",
        "-movflags", "+faststart", "-f", "mp4", out,
    ]  # fmt: skip
