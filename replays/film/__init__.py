"""Films of games, as MP4 or GIF: pictures of the viewer's own drawings, one for each position.

The tables of games are drawn by scripts of the page, so a browser of this machine draws the frames,
without a window. It gets one HTML file with the documents of one perspective and can load nothing
else; a film through the eyes of one seat is made from what that seat could know.
"""

from replays.film.options import FilmFormat, FilmOptions, FrameSize
from replays.film.write import FilmResult, write_film

__all__ = ["FilmFormat", "FilmOptions", "FilmResult", "FrameSize", "write_film"]
