#ifndef CHARL_DATA_TOKENIZER_PRETRAINED_H
#define CHARL_DATA_TOKENIZER_PRETRAINED_H
/** A published tokenizer while its files are read. The readers fill this in; its state is then created from it. */
#include "base/text/text.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/tokenizer_private.h"

/** A token of the vocabulary; without text: no token has this number. */
typedef struct charl__pretrained_token {
    size_t at, bytes;  /* in `texts` */
    unsigned char use; /* bits, below */
} charl__pretrained_token;

enum {
    CHARL__TOKEN_MERGED = 1,     /* part of the vocabulary that words are made of */
    CHARL__TOKEN_ADDED = 2,      /* found in a text before the text is split */
    CHARL__TOKEN_SPECIAL = 4,    /* ADDED, but only if requested */
    CHARL__TOKEN_NORMALIZED = 8, /* ADDED, found in the normalized text */
    CHARL__TOKEN_BYTE = 16,      /* stands for a byte of a character that has no token */
    CHARL__TOKEN_LSTRIP = 32,    /* ADDED, and takes the white space before it with it */
    CHARL__TOKEN_RSTRIP = 64,    /* ADDED, and the white space after it */
    CHARL__TOKEN_UNKNOWN = 128,  /* stands for what has no other token */
};

enum {
    /* 1 was normal form C, which is a normalizer now */
    CHARL__PRETRAINED_WHOLE_WORDS = 2, /* a word that is a token is encoded as that token */
    CHARL__PRETRAINED_BY_RANK =
        4, /* tokens are numbered by rank, and two of them that make a token are a merge of its rank */
    /* As in SentencePiece: characters are merged, not bytes; those without a token are their bytes. A space is written as U+2581 in the
     * files, as a space here, and U+2581 in a text is a space. */
    CHARL__PRETRAINED_CHARACTERS = 8,
    /* CHARACTERS: a space is put in front of each stretch of text between added tokens, and taken away again when tokens are decoded ... */
    CHARL__PRETRAINED_PREFIX = 16,
    CHARL__PRETRAINED_PREFIX_FIRST = 32,  /* ... but only of the first, if it is at the beginning of the text */
    CHARL__PRETRAINED_PREFIX_UNLESS = 64, /* ... unless the stretch begins with a space */
    CHARL__PRETRAINED_UNIGRAM = 128,      /* tokens have scores, and no merges */
    CHARL__PRETRAINED_WORDPIECE = 256, /* the longest token is taken; those that begin a word have a space in front */
    CHARL__PRETRAINED_FUSE_UNKNOWN = 512, /* one UNKNOWN token for several in a row */
    CHARL__PRETRAINED_SINGLE = 1024,      /* UNIGRAM: scores are summed in f32 ... */
    CHARL__PRETRAINED_SENTENCE = 2048,    /* ... over all words of a stretch of text */
    CHARL__PRETRAINED_FLAGS = 4094,
};

/** U+2581, which stands for a space in the vocabularies of SentencePiece. */
#define CHARL__SPACE_MARK "\xe2\x96\x81"

/** With CHARACTERS: words begin with at most one space (Metaspace with split). */
#define CHARL__PATTERN_METASPACE " [^ ]*"

/** BertPreTokenizer: punctuation, and what is between it and white space. */
#define CHARL__PUNCTUATION "!-/:-@\\[-`{-~\\p{P}"
#define CHARL__PATTERN_BERT "[" CHARL__PUNCTUATION "]|[^\\s" CHARL__PUNCTUATION "]+"

typedef struct charl__pretrained {
    uint32_t flags;
    int n_steps;
    struct charl__pretrained_step {
        char *pattern;
        bool matches_only;
    } step[CHARL__SPLITTER_STEPS];
    int n_normalizers;
    struct charl__pretrained_normalizer {
        charl__normalizer_kind kind;
        charl__text from, to;
    } normalizer[CHARL__NORMALIZERS];
    charl__pretrained_token *tokens; /* [vocab] */
    int64_t vocab, capacity;
    charl__text texts;
    uint32_t *
        merges; /* [n_merges, 2]: two tokens; with BY_RANK none, or of CHARACTERS a token and its rank; with UNIGRAM [vocab,
                       * 2]: the scores of all tokens, an f64 each, low half first */
    int64_t n_merges;
} charl__pretrained;

/** A step of splitting; the pattern is copied. Errors: ERR_DATA, ERR_NOMEM. */
charl_status charl__pretrained_add_step(charl__pretrained *p, const char *pattern, bool matches_only) CHARL_MUST_CHECK;
/** The next normalizer; the texts are copied. Errors: ERR_DATA  too many; ERR_NOMEM. */
charl_status charl__pretrained_add_normalizer(charl__pretrained *p, charl__normalizer_kind kind, const void *from,
                                              size_t from_bytes, const void *to, size_t to_bytes) CHARL_MUST_CHECK;
/** Add `use` to token `id`. Errors: ERR_DATA  the number is too large, or has another text; ERR_NOMEM. */
charl_status charl__pretrained_add_token(charl__pretrained *p, int64_t id, const void *text, size_t bytes,
                                         unsigned use) CHARL_MUST_CHECK;
/** Append a text with a space for each U+2581. Errors: ERR_NOMEM. */
charl_status charl__pretrained_put_spaces(charl__text *out, const char *text, size_t bytes) CHARL_MUST_CHECK;
/** With CHARACTERS and no step yet: split before spaces that follow another character, unless a token goes across such a place. Merging
 *  gives the same tokens, in less time. Errors: ERR_NOMEM. */
charl_status charl__pretrained_split_at_spaces(charl__pretrained *p) CHARL_MUST_CHECK;
/** With CHARACTERS: token `id`, whose text is `word` with U+2581 for spaces, or <0x41> for a byte. Errors: as charl__pretrained_add_token. */
charl_status charl__pretrained_add_piece(charl__pretrained *p, int64_t id, const char *word, size_t bytes,
                                         unsigned use) CHARL_MUST_CHECK;
/** The next merge. Errors: ERR_NOMEM. */
charl_status charl__pretrained_add_merge(charl__pretrained *p, int32_t left, int32_t right) CHARL_MUST_CHECK;
/** UNIGRAM: the score of the next token. Errors: ERR_NOMEM. */
charl_status charl__pretrained_add_score(charl__pretrained *p, double score) CHARL_MUST_CHECK;
void charl__pretrained_fini(charl__pretrained *p);

/** The tokenizer. Errors: ERR_DATA  the vocabulary lacks a byte, or the result of a merge; a pattern; ERR_CONFIG, ERR_NOMEM. */
charl_status charl__pretrained_finish(const charl__pretrained *p, charl_tokenizer **out) CHARL_MUST_CHECK;

/** The data of a pretrained tokenizer besides its tokens and merges; borrowed from its state. */
typedef struct charl__pretrained_parts {
    uint32_t flags;
    int n_steps;
    charl__split_step step[CHARL__SPLITTER_STEPS];
    int n_normalizers;
    charl__normalizer normalizer[CHARL__NORMALIZERS];
    const unsigned char *heads; /* [4 * vocab]: heads[4 * i] is the use of token i */
} charl__pretrained_parts;

/** Errors: ERR_DATA  the state is damaged. */
charl_status charl__pretrained_get_parts(const charl_tokenizer *t, charl__pretrained_parts *out) CHARL_MUST_CHECK;

/** A format of published files. */
typedef struct charl__tokenizer_format {
    charl_row row;
    const char *const *files; /* names of such files in a folder, * for any text; ends with NULL */
    /** Whether a file with this name and this beginning, which ends with a NUL, has the format. */
    bool (*is)(const char *path, const char *head, size_t bytes);
    charl_status (*read)(const char *path, charl__pretrained *p);
} charl__tokenizer_format;

/** All of them, charl__tokenizer_format_NAME in a file of this folder, and NULL, in the order in which a folder is searched. Generated by CMake. */
extern const void *const charl__tokenizer_formats[];

/** The bytes of n digits of base 64, of which there are fewer than n; 0: they are malformed. */
size_t charl__base64_bytes(const char *digits, size_t n, unsigned char *out);

/** With WORDPIECE: token `id`, which continues a word if it begins with ##. Errors: as charl__pretrained_add_token. */
charl_status charl__pretrained_add_wordpiece(charl__pretrained *p, int64_t id, const char *word,
                                             size_t bytes) CHARL_MUST_CHECK;

/** A whole file, at most 1 GiB, and a NUL. Errors: ERR_IO, ERR_NOMEM. */
charl_status charl__tokenizer_read_file(const char *path, charl__text *out) CHARL_MUST_CHECK;

/** As charl_tokenizer_encode, of ordinary text that continues another: without the space that SentencePiece puts in front of a text. */
charl_status charl__tokenizer_continue(const charl_tokenizer *t, const char *text, size_t bytes, int32_t **tokens,
                                       int64_t *n) CHARL_MUST_CHECK;

/** Whether a token is special, such as <|endoftext|>. */
bool charl__tokenizer_is_special(const charl_tokenizer *t, int64_t token);

#endif
