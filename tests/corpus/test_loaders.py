import gzip
import json
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from hoptrail.corpus.loaders import load_documents
from hoptrail.corpus.types import Document
from hoptrail.errors import DocumentError

FACT = "Port Blair is the capital of the Andaman Islands."


def loaded(*paths: Path) -> tuple[list[Document], list[DocumentError]]:
    found = list(load_documents(paths))
    return [d for d in found if isinstance(d, Document)], [d for d in found if isinstance(d, DocumentError)]


def write_pdf(path: Path, lines: Iterable[str]) -> None:
    """The smallest file that PDF readers take."""
    shown = "".join(f"({line}) Tj 0 -16 Td " for line in lines)
    stream = f"BT /F1 12 Tf 72 700 Td {shown}ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body, offsets = "%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"xref\n0 6\n0000000000 65535 f \n{table}trailer << /Size 6 /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    path.write_bytes((body + end).encode("latin-1"))


def write_docx(path: Path, heading: str, text: str) -> None:
    space = "http://schemas.openxmlformats.org"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{space}/package/2006/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{space}/package/2006/relationships"><Relationship Id="r1" '
        f'Type="{space}/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{space}/wordprocessingml/2006/main"><w:body><w:p><w:pPr>'
        f'<w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>{heading}</w:t></w:r></w:p><w:p><w:r><w:t>{text}</w:t></w:r></w:p>'
        "</w:body></w:document>",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def test_rows_keep_ids_titles_and_texts_and_bad_ones_are_named_by_line(tmp_path: Path) -> None:
    lines = [
        '\ufeff{"id": "a", "title": "Port Blair", "text": "Capital."}',
        "not json",
        "",
        '["a list"]',
        '{"id": 7, "text": "A number as id."}',
        '{"_id": "beir", "text": "BEIR calls it so.", "title": null}',
        '{"text": "no id"}',
        '{"id": "\\u0000", "text": "no id either"}',
        '{"id": true, "text": "nor this"}',
        '{"id": "b", "text": ["list"]}',
        '{"id": "c", "text": "  \\u0000 "}',
        '{"id": "d", "text": "lone \\ud800 surrogate", "title": "two\\nlines"}',
        "[" * 100_000,
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    documents, errors = loaded(path)
    assert [(d.id, d.title, d.text) for d in documents] == [
        ("a", "Port Blair", "Capital."),
        ("7", "", "A number as id."),
        ("beir", "", "BEIR calls it so."),
        ("d", "two lines", "lone \ufffd surrogate"),
    ]
    assert [str(e.source).rpartition(":")[2] for e in errors] == ["2", "4", "7", "8", "9", "10", "11", "13"]
    assert all(d.form == "row" for d in documents)
    assert all("\n" not in str(e) for e in errors)


def test_gzip_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"id": str(i), "text": os.urandom(200).hex()}) + "\n" for i in range(2000))
    whole = gzip.compress(rows.encode())
    (tmp_path / "whole.jsonl.gz").write_bytes(whole)
    assert len(loaded(tmp_path / "whole.jsonl.gz")[0]) == 2000
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    documents, errors = loaded(tmp_path / "cut.jsonl.gz")
    assert 500 < len(documents) < 1500
    assert len(errors) == 1
    (tmp_path / "none.jsonl.gz").write_bytes(b"plain text")
    assert len(loaded(tmp_path / "none.jsonl.gz")[1]) == 1


def test_a_folder_is_walked_in_order_with_ids_relative_to_it(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    (root / "sub" / ".git").mkdir(parents=True)
    (root / "b.md").write_text("# The *b* file\n\nText.", encoding="utf-8")
    (root / "sub" / "a_file.txt").write_text("Plain.", encoding="utf-8")
    (root / "sub" / ".git" / "x.txt").write_text("hidden", encoding="utf-8")
    (root / ".env.txt").write_text("hidden", encoding="utf-8")
    (root / "image.png").write_bytes(b"\x89PNG")
    (root / "Makefile").write_text("all:", encoding="utf-8")
    (root / "empty.txt").write_text(" \n", encoding="utf-8")
    documents, errors = loaded(root)
    assert [(d.id, d.title, d.form) for d in documents] == [
        ("b.md", "The *b* file", "markup"),
        ("sub/a_file.txt", "a file", "text"),
    ]
    assert sorted(Path(str(e.source)).name for e in errors) == ["Makefile", "empty.txt", "image.png"]
    moved = tmp_path / "elsewhere"
    root.rename(moved)
    assert [d.id for d in loaded(moved)[0]] == [d.id for d in documents]


@pytest.mark.parametrize("name", ["no-such-file.txt", "x" * 5_000, "nul\x00.txt"])
def test_paths_that_are_not_there(tmp_path: Path, name: str) -> None:
    documents, errors = loaded(tmp_path / name)
    assert not documents
    assert len(errors) == 1


def test_ids_are_not_taken_twice(tmp_path: Path) -> None:
    for folder, text in (("one", "First."), ("two", "Second."), ("three", "First.")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text(text, encoding="utf-8")
    documents, errors = loaded(tmp_path / "one", tmp_path / "two", tmp_path / "three", tmp_path / "one" / "x.txt")
    assert [d.text for d in documents] == ["First."]
    assert [str(e.source) for e in errors] == [str(tmp_path / "two" / "x.txt")]
    assert str(tmp_path / "one" / "x.txt") in errors[0].reason


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("café\x00 noir".encode("latin-1"))
    named = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    Path(os.fsdecode(named)).write_text("Odd name.", encoding="utf-8")
    documents, errors = loaded(tmp_path)
    assert {d.id: d.text for d in documents} == {"latin.txt": "caf\ufffd  noir", "caf\ufffd.txt": "Odd name."}
    assert not errors
    for document in documents:
        document.model_dump_json()


def test_pdf_docx_and_html_become_text(tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.pdf", [FACT, "It lies in the Bay of Bengal."])
    write_docx(tmp_path / "b.docx", "Islands", FACT)
    head = "<head><title>Of islands</title><script>alert(1)</script></head>"
    html = f"<html>{head}<body><h1>X</h1><p>{FACT}</p></body></html>"
    (tmp_path / "c.html").write_text(html, encoding="utf-8")
    documents, errors = loaded(tmp_path)
    assert not errors
    assert [(d.id, d.title) for d in documents] == [("a.pdf", "a"), ("b.docx", "Islands"), ("c.html", "Of islands")]
    assert all(FACT in d.text for d in documents)
    assert "alert" not in documents[2].text


def test_files_that_are_not_what_they_say(tmp_path: Path) -> None:
    write_pdf(tmp_path / "good.pdf", ["Good."])
    (tmp_path / "cut.pdf").write_bytes((tmp_path / "good.pdf").read_bytes()[:200])
    (tmp_path / "noise.pdf").write_bytes(os.urandom(5_000))
    (tmp_path / "empty.pdf").write_bytes(b"")
    (tmp_path / "noise.docx").write_bytes(os.urandom(5_000))
    write_pdf(tmp_path / "pictures.pdf", [])
    documents, errors = loaded(tmp_path)
    assert [d.id for d in documents] == ["good.pdf"]
    assert len(errors) == 5
    assert all("\n" not in str(e) and len(str(e)) < 600 for e in errors)


def test_unreadable_files_do_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to(tmp_path / "nowhere")
    (tmp_path / "b.txt").write_text("Fine.", encoding="utf-8")
    (tmp_path / "loop").symlink_to(tmp_path)
    documents, errors = loaded(tmp_path)
    assert [d.id for d in documents] == ["b.txt"]
    assert not errors
    assert len(loaded(tmp_path / "a.txt")[1]) == 1


@pytest.mark.shared_data
def test_a_real_handbook(shared_data: Path) -> None:
    documents, errors = loaded(
        shared_data / "northwind_docs" / "PerksPlus.pdf", shared_data / "northwind_docs" / "privacy-policy.md"
    )
    assert not errors
    assert [d.id for d in documents] == ["PerksPlus.pdf", "privacy-policy.md"]
    assert "PerksPlus" in documents[0].text
