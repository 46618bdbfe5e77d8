"""Films are stored so that no damage goes unseen, and resolve to what the samples were."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer import film as f
from tracer.errors import FilmInvalid

KEY, TILE = "ab" * 32, "x0000y0000w0003h0002"


def some_film() -> f.Film:
    return np.random.default_rng(1).normal(size=(2, 3, f.CHANNELS))


def encoded() -> bytes:
    return f.encode_film(some_film(), sample_key=KEY, tile_id=TILE, samples=7)


def decode(
    data: bytes, key: str = KEY, tile: str = TILE, shape: tuple[int, int] = (2, 3)
) -> tuple[f.Film, int]:
    return f.decode_film(data, sample_key=key, tile_id=tile, shape=shape)


def test_what_was_stored_comes_back() -> None:
    film, samples = decode(encoded())
    assert film.tobytes() == some_film().tobytes()
    assert samples == 7
    film += 1.0  # a film that is resumed is added to


def test_the_same_film_gives_the_same_bytes() -> None:
    assert hashlib.sha256(encoded()).hexdigest() == hashlib.sha256(encoded()).hexdigest()
    strided = np.asfortranarray(some_film())
    assert f.encode_film(strided, sample_key=KEY, tile_id=TILE, samples=7) == encoded()


@given(st.data())
def test_every_flipped_bit_is_found(data: st.DataObject) -> None:
    good = encoded()
    at = data.draw(st.integers(0, len(good) - 1))
    bit = data.draw(st.integers(0, 7))
    bad = good[:at] + bytes([good[at] ^ (1 << bit)]) + good[at + 1 :]
    with pytest.raises(FilmInvalid):
        decode(bad)


@given(st.integers(0, len(encoded()) - 1))
def test_every_truncation_is_found(length: int) -> None:
    with pytest.raises(FilmInvalid):
        decode(encoded()[:length])


def test_a_film_of_something_else_is_refused_by_name() -> None:
    with pytest.raises(FilmInvalid, match="sample_key"):
        decode(encoded(), key="cd" * 32)
    with pytest.raises(FilmInvalid, match="tile"):
        decode(encoded(), tile="x0064y0000w0003h0002")
    with pytest.raises(FilmInvalid, match="shape"):
        decode(encoded(), shape=(3, 2))


def test_a_header_that_promises_more_than_there_is_is_refused() -> None:
    body = encoded()[: -f.DIGEST - 8]
    with pytest.raises(FilmInvalid, match="do not fill"):
        decode(body + hashlib.sha256(body).digest())


@pytest.mark.parametrize("header", [b"[]\n", b"{\n", b"\xff\n"])
def test_a_header_that_is_none_is_refused(header: bytes) -> None:
    body = f.MAGIC + header
    with pytest.raises(FilmInvalid):
        decode(body + hashlib.sha256(body).digest())


def test_a_film_must_be_one() -> None:
    with pytest.raises(ValueError, match="not a film"):
        f.encode_film(np.zeros((2, 3, 4)), sample_key=KEY, tile_id=TILE, samples=1)


def test_resolve_gives_means_and_the_variance_of_one_sample() -> None:
    values = np.random.default_rng(2).gamma(1.0, 1.0, (50, 3))
    film = f.new_film(2, 1)
    film[0, 0, f.RADIANCE] = values.sum(axis=0)
    film[0, 0, f.SQUARES] = (values**2).sum(axis=0)
    film[0, 0, f.COVERAGE] = 40
    film[0, 0, f.DEPTH] = 80.0
    film[0, 0, f.ALBEDO] = (40.0, 20.0, 10.0)
    film[0, 0, f.NORMAL] = (0.0, 0.0, 40.0)
    layers = f.resolve(film, 50)
    assert {a.dtype for a in layers.values()} == {np.dtype(np.float32)}
    assert {a.shape for a in layers.values()} == {(1, 2)}
    for k, c in enumerate("RGB"):
        assert layers[c][0, 0] == pytest.approx(values[:, k].mean(), rel=1e-6)
        assert layers[f"variance.{c}"][0, 0] == pytest.approx(values[:, k].var(ddof=1), rel=1e-5)
        assert layers[f"albedo.{c}"][0, 0] == pytest.approx((0.8, 0.4, 0.2)[k])
    assert layers["normal.Z"][0, 0] == pytest.approx(0.8)
    assert layers["A"][0].tolist() == [pytest.approx(0.8), 0.0]
    assert layers["Z"][0].tolist() == [2.0, float(f.NO_DEPTH)]  # over the samples that hit something
    assert layers["samples"][0].tolist() == [50.0, 50.0]


def test_one_sample_has_no_variance_and_rounding_makes_no_negative_one() -> None:
    film = f.new_film(1, 1)
    film[..., f.RADIANCE], film[..., f.SQUARES] = 0.3, 0.09
    assert f.resolve(film, 1)["variance.R"][0, 0] == 0.0
    film[..., f.RADIANCE], film[..., f.SQUARES] = 0.1 * 3, np.nextafter(0.03, 0.0)
    assert f.resolve(film, 3)["variance.R"][0, 0] >= 0.0
