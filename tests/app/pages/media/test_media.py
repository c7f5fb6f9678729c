"""Pictures and sound under the microscope: equal to a look in Python, with grids, streams and sink."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image
from tests.app.export.test_widget import Kernel
from tests.models.media import as_sixteen_bits, hum, picture, png, png_base64, wav_base64

import headscope
from headscope.app.model_registry import ModelRegistry
from headscope.app.pages.attribution import AttributionRequest
from headscope.app.pages.media.shown import ReceivedRequest
from headscope.app.pages.media.upload import MediaRequest
from headscope.app.pages.microscope import ForgottenLookError, LookRequest, Session
from headscope.app.pages.predictions import HeadArrow, PredictRequest
from headscope.app.pages.tiles import WeightsRequest
from headscope.app.server import HOST, application
from headscope.app.wire import unpack
from headscope.errors import InputError
from headscope.scope import Scope

ALL = (0, 2**20)


def test_a_picture_is_shown_as_the_model_read_it(vit: Scope) -> None:
    session = Session(vit)
    assert session.model().reads == ["pictures"]
    found, arrays = session.look_media(MediaRequest(data=png_base64()))
    assert found.media is not None
    grid = found.media.grids["text"]
    assert (grid.first, grid.rows, grid.columns) == (1, 4, 4)
    resized = np.asarray(picture().resize((32, 32), Image.Resampling.BILINEAR))
    assert np.abs(arrays["picture"].astype(int) - resized.astype(int)).max() <= 1
    asked = WeightsRequest(look=found.look, head="1.2", rows=ALL, columns=ALL)
    expected = vit.look(picture()).weights("1.2")
    np.testing.assert_allclose(session.weights(asked)[1]["weights"], expected, atol=1e-6)


def test_the_sink_is_the_key_that_receives_most(vit: Scope) -> None:
    session = Session(vit)
    found, _ = session.look_media(MediaRequest(data=png_base64()))
    told, arrays = session.received(ReceivedRequest(look=found.look, head="0.3"))
    mean = vit.look(picture()).pattern("0.3").mean(0)
    np.testing.assert_allclose(arrays["received"], mean, atol=1e-6)
    assert told.sink == int(mean.argmax())


def test_towers_have_separate_token_sequences(clip: Scope) -> None:
    session = Session(clip)
    assert session.model().reads == ["text", "pictures"]
    found, arrays = session.look_media(MediaRequest(data=png_base64(), text="the horse crossed"))
    assert found.sides == {"vision.0": ("vision", "vision"), "vision.1": ("vision", "vision")}
    assert [token.text for token in found.streams["vision"]][:2] == ["CLS", "patch 0,0"]
    assert found.media is not None
    assert list(found.media.grids) == ["vision"]
    assert found.text == "the horse crossed"
    assert arrays["thumbnails"].shape[1] == 5
    part, _ = session.attribution(AttributionRequest(look=found.look, site="vision.1", position=4))
    assert part.position == 4
    with pytest.raises(InputError, match=r"position 5: the queries of vision.1 are positions 0–4"):
        session.attribution(AttributionRequest(look=found.look, site="vision.1", position=5))


def test_a_sound_has_its_waveform_and_the_decoders_words(whisper: Scope) -> None:
    session = Session(whisper)
    found, arrays = session.look_media(MediaRequest(data=wav_base64(), text="the horse"))
    assert found.media is not None
    assert found.media.covered == {"text": pytest.approx(1.0)}
    assert found.media.seconds == pytest.approx(0.7)
    assert [token.text for token in found.written] == ["[start]", "the", "horse"]
    assert arrays["waveform"].shape == (1200, 2)
    assert arrays["waveform"].max() == pytest.approx(0.3, abs=1e-3)
    samples = as_sixteen_bits(hum(0.7))
    expected = whisper.look((samples, "the horse")).weights("decoder.1.cross.2")
    asked = WeightsRequest(look=found.look, head="decoder.1.cross.2", rows=ALL, columns=ALL)
    np.testing.assert_allclose(session.weights(asked)[1]["weights"], expected, atol=1e-6)


def test_heads_and_arrows_are_edited_as_in_a_text(whisper: Scope) -> None:
    session = Session(whisper)
    found, _ = session.look_media(MediaRequest(data=wav_base64(), text="the horse"))
    cut = HeadArrow(head="decoder.1.cross.2", query=2, key=7)
    told = session.predict(PredictRequest(look=found.look, position=2, off=["decoder.0.cross.1"], cuts=[cut]))
    assert told.kl is not None
    assert told.kl > 0


def test_a_bad_file_is_rejected_with_a_clear_message(vit: Scope) -> None:
    session = Session(vit)
    for data, message in (
        (base64.b64encode(b"letters").decode(), "neither a picture"),
        ("no base64!", "did not arrive whole"),
        (wav_base64(), "takes no sound; it reads pictures"),
    ):
        with pytest.raises(InputError, match=message):
            session.look_media(MediaRequest(data=data))


def test_what_was_sent_is_dropped_with_its_look(vit: Scope) -> None:
    session = Session(vit)
    name = session.look_media(MediaRequest(data=png_base64()))[0].look
    assert session.look(LookRequest(look=name))[0].media is not None
    assert session.kept.text(name) is None
    session.forget()
    with pytest.raises(ForgottenLookError, match="no longer kept; type it or drop its file again"):
        session.look(LookRequest(look=name))


def test_another_client_cannot_find_a_picture_by_its_content(vit: Scope) -> None:
    session = Session(vit)
    names = {session.look_media(MediaRequest(data=png_base64()), owner)[0].look for owner in ("one", "other")}
    assert len(names) == 2


def test_the_routes_return_containers_and_problems(vit: Scope) -> None:
    with TestClient(application(ModelRegistry(Session(vit))), base_url=f"http://{HOST}") as client:
        found = unpack(client.post("/api/media", json={"data": png_base64()}).content)
        assert found.arrays["picture"].shape == (32, 32, 3)
        asked = {"look": found.values["look"], "head": "1.0"}
        told = unpack(client.post("/api/received", json=asked).content)
        assert told.arrays["received"].sum() == pytest.approx(1.0, abs=1e-5)
        bombs = [io.BytesIO(), io.BytesIO()]  # of 5 and 50 kB
        for side, file in zip((6_000, 20_000), bombs, strict=True):
            Image.new("1", (side, side)).save(file, "PNG")
        for sent, said in (
            (b"letters", "neither a picture"),
            (png()[:-60], "is a picture that cannot be read to its end"),
            (bombs[0].getvalue(), "has 6000×6000 pixels, and at most 24 million are read"),
            (bombs[1].getvalue(), "400000000 pixels"),
        ):
            refused = client.post("/api/media", json={"data": base64.b64encode(sent).decode()})
            assert (refused.status_code, said in refused.json()["message"]) == (422, True), refused.text
        assert client.post("/api/media", json={"data": "A" * 8_000_100}).status_code == 422
        assert client.post("/api/media", content=b"A" * 100_000_000).status_code == 413


def test_a_module_of_another_library_shows_its_input(vit: Scope) -> None:
    """Pixels given as a tensor by name, through a look that a notebook has adopted."""
    tensors = vit.look(picture()).prepared.inputs
    session = Session(vit)
    name = session.adopt(vit.look(dict(tensors)))
    assert session.look(LookRequest(look=name))[1]["picture"].shape == (32, 32, 3)
    other = session.adopt(vit.look(Image.new("RGB", (40, 40))))
    assert other != name


def test_a_saved_look_keeps_its_waveform(whisper: Scope, tmp_path) -> None:
    whisper.look((hum(0.5), "the horse")).save(tmp_path / "a.headscope")
    opened = headscope.open_look(tmp_path / "a.headscope", whisper)
    session = Session(whisper)
    found, arrays = session.look(LookRequest(look=session.adopt(opened)))
    assert found.media is not None
    assert found.media.seconds == pytest.approx(0.5)
    assert len(arrays["waveform"]) == 1200


def test_a_notebook_is_sent_pictures_too(vit: Scope) -> None:
    widget = Kernel(vit.look(picture()))
    answer, (data,) = widget.hear(ask="media", body={"data": png_base64()})
    assert answer == {"id": 7}
    name = unpack(data).values["look"]
    _, (data,) = widget.hear(ask="received", body={"look": name, "head": "0.1"})
    assert unpack(data).arrays["received"].shape == (17,)
