"""The options of ``rince audit``."""

import argparse
from pathlib import Path

from rince._support.command_options import local_path

EPILOG = """
A and B have one pair per row: .npy, .npz, .parquet, .arrow, .csv, .tsv, .pt (one tensor), .safetensors, a pattern of
Parquet files, or a folder of Hugging Face datasets. Name an array or columns after a colon:
  rince audit images.npy captions.npy
  rince audit pairs.npz:image pairs.npz:caption
  rince audit 'data/*.parquet:image_embedding' 'data/*.parquet:text_embedding' --ids 'data/*.parquet:id'
  rince audit sensors.csv:left_* sensors.csv:right_* --fit
Raw texts, pictures and sounds are encoded first; a column of texts, a column of paths, a folder, or a .txt file:
  rince audit pairs.csv:question pairs.csv:answer --encode --groups source
  rince audit photos/ captions.txt --encode --encoder-b all-MiniLM-L6-v2
An encoder is the name or folder of a sentence-transformers model, an encoder.safetensors of rince, an .onnx file,
module:function, or one of ngrams (texts), patches (pictures), spectrogram (sounds), which need no model.
What else to show in the page: a folder of pictures, sounds or videos (named like the ids, or else in the order of their
names), an .npy array of images, a column of paths, a column of texts, or a .txt file with one text per line.
On a cluster (pip install 'rince[cluster]'), partition by partition; files may lie wherever fsspec finds them:
  rince audit 's3://bucket/*.parquet:image' 's3://bucket/*.parquet:text' --ids id --scheduler tcp://10.0.0.1:8786
  rince audit 'data/*.parquet:image' 'data/*.parquet:text' --workers 8
A review that was exported from the page is read back:
  rince audit --review review.csv --out audit
"""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "rince audit",
        description="Find the wrong pairs of two columns: how many, which ones, how sure.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
    )
    parser.add_argument("a", metavar="A", nargs="?", help="the first column")
    parser.add_argument("b", metavar="B", nargs="?", help="the second column")
    parser.add_argument(
        "--fit",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="learn a common space: A and B may be any features (by itself where raw items have no common encoder)",
    )
    parser.add_argument("--fdr", type=float, default=0.1, help="expected share of false alarms among flagged (0.1)")
    parser.add_argument("--seed", type=int, default=0)
    _columns(parser)
    _encoding(parser)
    _page(parser)
    _cluster(parser)
    parser.add_argument("--out", default="audit", help="folder for the results (audit)")
    parser.add_argument(
        "--table", choices=("csv", "parquet"), help="the table of all pairs (csv; on a cluster always parquet)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite existing results")
    return parser


def _cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scheduler", metavar="ADDRESS", help="audit on the Dask cluster of this scheduler")
    parser.add_argument("--workers", type=int, metavar="N", help="audit on N processes of this machine, by Dask")


def _columns(parser: argparse.ArgumentParser) -> None:
    column = "FILE[:COLUMN]"
    parser.add_argument("--ids", metavar=column, help="names of the pairs; equal ids never make a mismatched pair")
    parser.add_argument("--groups", metavar=column, help="such as sources: the noise rate of every group is reported")
    parser.add_argument("--duplicates", metavar=column, help="equal values are the same thing: no mismatched pairs")
    parser.add_argument(
        "--near-duplicates",
        type=float,
        nargs="?",
        const=0.98,
        metavar="COSINE",
        help="find rows that are nearly the same (0.98) and treat them like --duplicates",
    )
    parser.add_argument(
        "--no-header", action="store_true", help="CSV and TSV files have no header: columns 0, 1, 2, ..."
    )
    parser.add_argument("--drop-bad", action="store_true", help="leave out pairs with NaN, missing or unreadable items")


def _encoding(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--encode", action="store_true", help="A and B are raw texts, pictures or sounds")
    parser.add_argument("--encoder", metavar="NAME", help="the encoder of both sides")
    for side in "ab":
        parser.add_argument(f"--encoder-{side}", metavar="NAME", help=f"the encoder of {side.upper()}")
    parser.add_argument(
        "--cache", type=local_path, metavar="FOLDER", help="where encoded columns are kept (OUT/encoded)"
    )
    parser.add_argument(
        "--media-root", type=Path, metavar="FOLDER", help="files named by a table may lie below this folder"
    )


def _page(parser: argparse.ArgumentParser) -> None:
    for side in "ab":
        parser.add_argument(
            f"--images-{side}",
            f"--media-{side}",
            metavar="WHAT",
            help=f"pictures, sounds or videos of {side.upper()} to show",
        )
        parser.add_argument(f"--texts-{side}", metavar="WHAT", help=f"texts of {side.upper()} to show")
    parser.add_argument("--title", default=None, help="heading of the page")
    parser.add_argument("--review", type=Path, metavar="CSV", help="marks made in the page: precision, corrected rate")
