import io
import wave

import numpy as np
import pytest
import torch

from rince._support.regular_files import Unreadable
from rince.audit.encode import encoder_for
from rince.audit.encode.encoders import (
    BANDS,
    IMAGENET_MEAN,
    IMAGENET_STD,
    PARTS,
    SAMPLE_RATE,
    Exported,
    NGrams,
    Patches,
    SentenceModel,
    Spectrogram,
)
from rince.audit.encode.run import MAX_SECONDS, decode_audio
from rince.encoders.files import save_encoder
from rince.encoders.images import ConvNet
from rince.errors import UsageError


def test_every_kind_has_an_encoder_that_needs_no_model():
    names = {kind: encoder_for(kind).name for kind in ("texts", "pictures", "sounds")}
    assert names == {
        "texts": "hashed n-grams",
        "pictures": "random patches of the images",
        "sounds": "spectrogram statistics",
    }
    assert not any(encoder_for(kind).comparable for kind in names)


@pytest.mark.parametrize(
    "kind, spec, message",
    [
        ("videos", None, "module:function"),
        ("texts", "patches", "patches takes pictures, but the column holds texts"),
        ("sounds", "x.onnx", "the encoder x.onnx takes pictures"),
        ("sounds", "all-MiniLM-L6-v2", "takes texts or pictures, but the column holds sounds"),
        ("texts", "no_such_module:f", "the module no_such_module of the encoder no_such_module:f does not exist"),
        ("texts", "json:nothing", "the module json has no nothing"),
        ("texts", "json:__name__", "must be a function of a list of items, got str"),
    ],
)
def test_an_encoder_that_does_not_fit_is_one_sentence(kind, spec, message):
    with pytest.raises(UsageError, match=message.replace(".", r"\.")):
        encoder_for(kind, spec)


def test_a_function_of_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "my_encoders.py").write_text(
        "import torch\n"
        "def lengths(texts):\n    return torch.tensor([[len(t), 1.0] for t in texts])\n"
        "def flat(texts):\n    return [1.0] * len(texts)\n"
        "class Counting:\n    def __init__(self): self.n = 0\n"
        "    def __call__(self, texts):\n        self.n += 1\n        return [[self.n, 0.0]] * len(texts)\n"
    )
    monkeypatch.chdir(tmp_path)
    lengths = encoder_for("texts", "my_encoders:lengths")
    assert lengths.encode(["a", "bcd"]).tolist() == [[1, 1], [3, 1]] and lengths.comparable
    counting = encoder_for("texts", "my_encoders:Counting")
    assert counting.encode(["a"]).tolist() == [[1, 0]] and counting.encode(["a"]).tolist() == [[2, 0]]
    with pytest.raises(UsageError, match=r"shape \(items, width\): for 2 items"):
        encoder_for("texts", "my_encoders:flat").encode(["a", "b"])
    before = lengths.identity()
    (tmp_path / "my_encoders.py").write_text("def lengths(texts): return [[0.0]] * len(texts)\n")
    assert lengths.identity() != before, "a changed file must not meet its old rows in the cache"


def test_an_exported_encoder_sees_pictures_as_it_was_trained(tmp_path):
    pytest.importorskip("safetensors")
    Image = pytest.importorskip("PIL.Image")
    from rince.encoders.files import save_encoder
    from rince.encoders.images import ConvNet

    network = ConvNet(width=8).eval()
    recipe = {"class_path": "rince.encoders.images.ConvNet", "init_args": {"width": 8}}
    about = {"normalize": {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.2, 0.2], "size": 16}}
    save_encoder(tmp_path / "encoder.safetensors", network, recipe, about)
    pictures = [Image.fromarray(p) for p in np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), np.uint8)]
    found = encoder_for("pictures", str(tmp_path / "encoder.safetensors")).encode(pictures)
    pixels = torch.stack([torch.from_numpy(np.array(p)) for p in pictures]).permute(0, 3, 1, 2) / 255
    mean, std = (torch.tensor(about["normalize"][name])[:, None, None] for name in ("mean", "std"))
    with torch.no_grad():
        wanted = network((pixels - mean) / std)
    assert np.allclose(found, wanted, atol=1e-5)
    assert encoder_for("pictures", str(tmp_path)).encode(pictures[:1]).shape == (1, found.shape[1])
    with pytest.raises(FileNotFoundError, match="does not exist"):
        encoder_for("pictures", "nowhere.safetensors")


def test_a_network_in_an_onnx_file(tmp_path):
    onnx, _ = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    Image = pytest.importorskip("PIL.Image")

    make, number = onnx.helper, onnx.TensorProto.FLOAT
    pool = make.make_node("GlobalAveragePool", ["x"], ["y"])
    shapes = [
        make.make_tensor_value_info(name, number, ["n", 3, *side]) for name, side in (("x", [8, 8]), ("y", [1, 1]))
    ]
    graph = make.make_graph([pool], "means", shapes[:1], shapes[1:])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "means.onnx")
    colors = np.array([[255, 0, 0], [0, 128, 64]], np.uint8)
    pictures = [Image.new("RGB", (20, 10), tuple(map(int, color))) for color in colors]
    found = encoder_for("pictures", str(tmp_path / "means.onnx")).encode(pictures)
    assert np.allclose(found, (colors / 255 - IMAGENET_MEAN) / IMAGENET_STD, atol=1e-4)
    (tmp_path / "broken.onnx").write_bytes(b"no network")
    with pytest.raises(UsageError, match=r"broken\.onnx"):
        encoder_for("pictures", str(tmp_path / "broken.onnx"))


WORDS = [
    "dog",
    "cat",
    "red",
    "blue",
    "runs",
    "sleeps",
    "house",
    "street",
    "small",
    "large",
    "man",
    "woman",
    "ball",
    "car",
]


def sentences(n=300, seed=0):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, 6)) for _ in range(n)]


def test_texts_that_share_words_lie_close_and_batches_do_not_matter():
    pytest.importorskip("sklearn")
    encoder = NGrams(width=32)
    texts = sentences()
    encoder.learn(texts)
    rows = encoder.encode(texts)
    assert rows.shape == (300, 32) and rows.dtype == np.float32
    assert np.allclose(rows[100:110], encoder.encode(texts[100:110]), atol=1e-5)
    one, same, other, empty = encoder.encode(["small red dog", "red dog, small!", "large blue car", ""])
    cosine = lambda x, y: x @ y / np.linalg.norm(x) / np.linalg.norm(y)  # noqa: E731
    assert cosine(one, same) > 0.8 > 0.4 > cosine(one, other)
    assert not empty.any()


def test_the_same_texts_give_the_same_rows():
    pytest.importorskip("sklearn")
    first, second = NGrams(width=16), NGrams(width=16)
    for encoder in (first, second):
        encoder.learn(sentences())
    assert (first.encode(sentences(20)) == second.encode(sentences(20))).all()


def test_texts_without_words_are_too_few():
    pytest.importorskip("sklearn")
    with pytest.raises(UsageError, match="60 texts with 0 n-grams are too few"):
        NGrams().learn([""] * 60)


def test_a_folder_of_sentence_transformers(tmp_path):
    models = pytest.importorskip("sentence_transformers")
    from sentence_transformers.models import StaticEmbedding
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers import models as parts

    tokenizer = Tokenizer(parts.WordLevel({word: k for k, word in enumerate(["[UNK]", *WORDS])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    models.SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu").save(
        str(tmp_path / "m")
    )
    encoder = SentenceModel(str(tmp_path / "m"))
    rows = encoder.encode(["red dog", "dog red", "large car"])
    assert rows.shape == (3, 8) and np.allclose(rows[0], rows[1], atol=1e-6) and encoder.comparable
    with pytest.raises(UsageError, match="there is no encoder"):
        SentenceModel(str(tmp_path / "nowhere")).encode(["a"])


Image = pytest.importorskip("PIL.Image")


def pictures(n=120, seed=0):
    random = np.random.default_rng(seed)
    base = random.integers(0, 256, (n, 6, 6, 3), np.uint8)
    return [Image.fromarray(small).resize((40, 24)) for small in base]


def test_picture_rows_are_independent_of_the_batch():
    encoder = Patches()
    encoder.learn(pictures())
    rows = encoder.encode(pictures(20, seed=1))
    assert rows.shape == (20, 60) and np.isfinite(rows).all()
    assert np.allclose(rows[5:8], encoder.encode(pictures(20, seed=1)[5:8]), atol=1e-4)
    shifted = [picture.rotate(2) for picture in pictures(20, seed=1)]
    distance = np.linalg.norm(rows[:, None] - encoder.encode(shifted)[None], axis=2)
    assert (distance.argmin(1) == np.arange(20)).mean() > 0.8


def exported(path, **normalize):
    recipe = {"class_path": "rince.encoders.ConvNet", "init_args": {"width": 4}}
    save_encoder(path, ConvNet(width=4), recipe, {"normalize": normalize.pop("facts", normalize)})
    return path


@pytest.mark.parametrize(
    "facts",
    [{"size": 10**6}, {"size": -3}, {"size": "x"}, {"size": [8, "x"]}, {"mean": "x"}, {"std": [1, 2]}, {"facts": [1]}],
)
def test_what_a_file_says_of_its_pictures_is_checked(tmp_path, facts):
    with pytest.raises(UsageError, match=r"e\.safetensors"):
        Exported(exported(tmp_path / "e.safetensors", **facts))


def test_an_exported_encoder_gives_rows(tmp_path):
    encoder = Exported(exported(tmp_path / "e.safetensors", size=[16, 16], mean=[0.5, 0.4, 0.3], std=[0.2] * 3))
    assert encoder.encode(pictures(6)).shape == (6, 16)


def wav(samples, rate=SAMPLE_RATE, width=2, channels=1):
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        whole = np.rint(np.asarray(samples) * (2 ** (8 * width - 1) - 1)).astype(np.int64)
        whole = whole + 128 if width == 1 else whole
        file.writeframes(
            b"".join(int(v).to_bytes(width, "little", signed=width > 1) for v in np.repeat(whole, channels))
        )
    return buffer.getvalue()


def tone(frequency, seconds=0.5, rate=SAMPLE_RATE):
    return 0.5 * np.sin(2 * np.pi * frequency * np.arange(int(seconds * rate)) / rate)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_wav_of_any_width_reads_as_its_samples(width, channels):
    found = decode_audio(wav(tone(440, 0.05), width=width, channels=channels), "x.wav")
    assert np.allclose(found, tone(440, 0.05), atol=0.02 if width == 1 else 1e-4)


def test_another_rate_gives_the_same_decode_audio():
    pytest.importorskip("scipy")
    found = decode_audio(wav(tone(440, rate=8000), rate=8000), "x.wav")
    assert abs(len(found) - 0.5 * SAMPLE_RATE) < 5
    assert np.abs(found - tone(440)[: len(found)])[200:-200].max() < 0.01


def test_long_sounds_are_cut_and_broken_ones_named():
    assert len(decode_audio(wav(np.zeros(100), rate=1), "x.wav")) <= MAX_SECONDS * SAMPLE_RATE
    pytest.importorskip("av")
    for content in (b"RIFF broken", b"", b"no sound at all" * 100):
        with pytest.raises(Unreadable, match=r"x\.wav cannot be read as audio"):
            decode_audio(content, "x.wav")


def test_other_formats_through_ffmpeg():
    av = pytest.importorskip("av")
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="flac") as container:
        stream = container.add_stream("flac", rate=SAMPLE_RATE, layout="mono")
        frame = av.AudioFrame.from_ndarray((tone(440)[None] * 32767).astype(np.int16), format="s16", layout="mono")
        frame.sample_rate = SAMPLE_RATE
        container.mux([*stream.encode(frame), *stream.encode(None)])
    found = decode_audio(buffer.getvalue(), "x.flac")
    assert np.abs(found - tone(440)[: len(found)]).max() < 0.01 and len(found) == len(tone(440))


def test_statistics_hear_the_pitch_and_when_it_sounds_but_not_how_loud():
    low, high = tone(300), tone(3000)
    rows = Spectrogram().encode([x.astype(np.float32) for x in (low, 0.1 * low, high, np.concatenate([low, high]))])
    assert rows.shape == (4, BANDS * (PARTS + 2))
    assert np.allclose(rows[0], rows[1], atol=0.01)
    bands = rows[:, : BANDS * PARTS].reshape(4, BANDS, PARTS)
    assert bands[0].mean(1).argmax() < bands[2].mean(1).argmax()
    assert bands[3, :, 0].argmax() == bands[0, :, 0].argmax() and bands[3, :, -1].argmax() == bands[2, :, 0].argmax()


def test_silence_around_a_sound_does_not_count():
    sound = np.sin(np.arange(8000) * 0.3).astype(np.float32)
    padded = np.pad(sound, (3000, 5000))
    plain, with_silence = Spectrogram().encode([sound, padded])
    assert np.allclose(plain, with_silence, atol=1e-3)


def test_a_very_short_sound_and_silence_have_rows():
    rows = Spectrogram().encode([np.ones(3, np.float32), np.zeros(16_000, np.float32)])
    assert np.isfinite(rows).all()


def test_chunks_that_end_beyond_the_file_are_told_of_that_sound():
    """For which the reader of Python has an error without a word."""
    content = b"RIFF\xff\x00\x00\x00WAVE" + b"junk\xf0\xff\xff\x7f" + bytes(40)
    with pytest.raises(Unreadable, match="s cannot be read as audio"):
        decode_audio(content, "s")


@pytest.mark.parametrize("rate", (200_001, 2**31 - 1))
def test_rates_that_no_sound_has_are_told(rate):
    with pytest.raises(Unreadable, match=f"s has a sample rate of {rate}"):
        decode_audio(wav([0.1, 0.2], rate), "s")
