"""Writing of frames as MP4 (H.264), by the ffmpeg of the package imageio-ffmpeg."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import BinaryIO

from arena.core.errors import ArenaError
from arena.core.text import shorten
from replays.film.options import FilmOptions, FrameSink

FRAME_RATE = 10
"""Frames of the file per second: programs that play films expect more than one."""


class Mp4Sink:
    """Frames for ffmpeg, which reads them while they are made."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        self._pipe = process.stdin

    def add(self, picture: bytes) -> None:
        """Take the next frame."""
        self._pipe.write(picture)

    def close(self) -> None:
        """Close the pipe; ffmpeg has ended."""
        with suppress(BrokenPipeError):
            self._pipe.close()


@contextmanager
def mp4_sink(file: BinaryIO, options: FilmOptions) -> Iterator[FrameSink]:
    """Encode the frames; the file is complete when the context ends without an error.

    Raises:
        ArenaError: ffmpeg does not start or fails.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            _command(file.name, options),
            stdin=subprocess.PIPE,
            stderr=errors,
            # Ctrl-C is for this process, which then ends the other one.
            start_new_session=True,
        )
        ended_early = False
        sink = Mp4Sink(process)
        try:
            yield sink
            process.communicate()
        except BrokenPipeError:
            process.wait()
            ended_early = True
        finally:
            process.kill()
            process.wait()
            sink.close()
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
