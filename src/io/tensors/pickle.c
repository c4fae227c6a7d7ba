/* A stack machine with a memo, as Python's Lib/pickle.py describes it, that builds values and runs nothing. */
#include "io/tensors/pickle.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "io/regular.h"

enum {
    BUFFER = 65536,
    MOST_VALUES = 1 << 21, /* in a pickle, on its stack, in its memo */
    MOST_BYTES = 1 << 26,  /* of a pickle */
    NEWEST = 5,            /* protocol */
};

/* Opcodes. */
enum {
    MARK = '(',
    STOP = '.',
    POP = '0',
    POP_MARK = '1',
    DUP = '2',
    FLOAT = 'F',
    INT = 'I',
    BININT = 'J',
    BININT1 = 'K',
    LONG = 'L',
    BININT2 = 'M',
    NONE = 'N',
    PERSID = 'P',
    BINPERSID = 'Q',
    REDUCE = 'R',
    STRING = 'S',
    BINSTRING = 'T',
    SHORT_BINSTRING = 'U',
    UNICODE = 'V',
    BINUNICODE = 'X',
    APPEND = 'a',
    BUILD = 'b',
    GLOBAL = 'c',
    DICT = 'd',
    APPENDS = 'e',
    GET = 'g',
    BINGET = 'h',
    INST = 'i',
    LONG_BINGET = 'j',
    LIST = 'l',
    OBJ = 'o',
    PUT = 'p',
    BINPUT = 'q',
    LONG_BINPUT = 'r',
    SETITEM = 's',
    TUPLE = 't',
    SETITEMS = 'u',
    BINFLOAT = 'G',
    EMPTY_DICT = '}',
    EMPTY_LIST = ']',
    EMPTY_TUPLE = ')',
    BINBYTES = 'B',
    SHORT_BINBYTES = 'C',
    PROTO = 0x80,
    NEWOBJ = 0x81,
    TUPLE1 = 0x85,
    TUPLE2 = 0x86,
    TUPLE3 = 0x87,
    NEWTRUE = 0x88,
    NEWFALSE = 0x89,
    LONG1 = 0x8a,
    LONG4 = 0x8b,
    SHORT_BINUNICODE = 0x8c,
    BINUNICODE8 = 0x8d,
    BINBYTES8 = 0x8e,
    EMPTY_SET = 0x8f,
    ADDITEMS = 0x90,
    FROZENSET = 0x91,
    NEWOBJ_EX = 0x92,
    STACK_GLOBAL = 0x93,
    MEMOIZE = 0x94,
    FRAME = 0x95,
    BYTEARRAY8 = 0x96,
};

typedef charl__pickle_value value;

typedef struct machine {
    const char *path;
    int fd;
    int64_t at, end;       /* of the file: what is read next, and where the pickle must have ended */
    bool limited;          /* `end` is that of MOST_BYTES */
    unsigned char *buffer; /* [BUFFER] */
    int64_t filled, used;  /* bytes of the buffer */
    charl__pickle *made;
    value **stack, **memo;
    int64_t n_stack, n_memo; /* memo: [0, n_memo), NULL where nothing was put */
    int64_t *mark, n_mark;   /* heights of the stack */
} machine;

#define CHECK(m, cond)                                                                                                 \
    CHARL_REQUIRE(cond, CHARL_ERR_CHECKPOINT, "%s: the pickle is damaged at byte %lld", (m)->path,                     \
                  (long long)at_byte(m))

/* ------------------------------------------------------------------ bytes */

static int64_t at_byte(const machine *m)
{
    return m->at - m->filled + m->used;
}

static charl_status get_bytes(machine *m, void *dst, int64_t n)
{
    for (int64_t done = 0; done < n;) {
        const int64_t left = m->filled - m->used, part = n - done < left ? n - done : left;

        memcpy((char *)dst + done, m->buffer + m->used, (size_t)part);
        done += part;
        m->used += part;
        if (done < n) {
            const int64_t wanted = m->end - m->at < BUFFER ? m->end - m->at : BUFFER;

            CHARL_REQUIRE(wanted > 0 || !m->limited, CHARL_ERR_CHECKPOINT, "%s: a pickle of more than %d bytes",
                          m->path, MOST_BYTES);
            CHARL_REQUIRE(wanted > 0 && charl__regular_read(m->fd, m->buffer, wanted, m->at) == wanted,
                          CHARL_ERR_CHECKPOINT, "%s: the file is cut short: a pickle does not end", m->path);
            m->at += wanted;
            m->filled = wanted;
            m->used = 0;
        }
    }
    return CHARL_OK;
}

/* A number of `bytes` bytes, the lowest first; of more than 8 the lowest 8. */
static charl_status get_number(machine *m, int bytes, uint64_t *out)
{
    unsigned char raw[8];

    CHARL_TRY(get_bytes(m, raw, bytes));
    *out = 0;
    for (int i = bytes - 1; i >= 0; i--) {
        *out = *out << 8 | raw[i];
    }
    return CHARL_OK;
}

/* ------------------------------------------------------------------ values */

static charl_status push(machine *m, value *v)
{
    CHECK(m, m->n_stack < MOST_VALUES);
    CHARL_TRY(charl__grow(m->n_stack, sizeof(value *), &m->stack));
    m->stack[m->n_stack++] = v;
    return CHARL_OK;
}

static charl_status push_new(machine *m, charl__pickle_kind kind, value **out)
{
    charl__pickle *p = m->made;
    value *v = NULL;

    CHARL_REQUIRE(p->n < MOST_VALUES, CHARL_ERR_CHECKPOINT, "%s: a pickle of more than %d values", m->path,
                  MOST_VALUES);
    CHARL_TRY(charl__grow(p->n, sizeof(value *), &p->all));
    CHARL_TRY(charl__alloc(sizeof *v, &v));
    v->kind = kind;
    p->all[p->n++] = v;
    if (out) {
        *out = v;
    }
    return push(m, v);
}

static charl_status push_number(machine *m, charl__pickle_kind kind, int64_t number)
{
    value *v = NULL;

    CHARL_TRY(push_new(m, kind, &v));
    v->integer = number;
    return CHARL_OK;
}

/* What is above the last mark is the caller's to take. */
static int64_t floor_of(const machine *m)
{
    return m->n_mark > 0 ? m->mark[m->n_mark - 1] : 0;
}

static charl_status pop(machine *m, value **out)
{
    CHECK(m, m->n_stack > floor_of(m));
    *out = m->stack[--m->n_stack];
    return CHARL_OK;
}

static charl_status top(machine *m, value **out)
{
    CHECK(m, m->n_stack > floor_of(m));
    *out = m->stack[m->n_stack - 1];
    return CHARL_OK;
}

/* Take the last mark away; *from is the height that it marked. */
static charl_status unmark(machine *m, int64_t *from)
{
    CHECK(m, m->n_mark > 0);
    *from = m->mark[--m->n_mark];
    return CHARL_OK;
}

static charl_status append(value *to, value *v)
{
    CHARL_TRY(charl__grow(to->n, sizeof(value *), &to->item));
    to->item[to->n++] = v;
    return CHARL_OK;
}

/* The values of the stack from `from` on become items of `to`. */
static charl_status move_items(machine *m, int64_t from, value *to)
{
    CHECK(m, to->kind == CHARL__PICKLE_LIST || to->kind == CHARL__PICKLE_DICT || to->kind == CHARL__PICKLE_CALL);
    CHECK(m, to->kind != CHARL__PICKLE_DICT || (m->n_stack - from) % 2 == 0);
    for (int64_t i = from; i < m->n_stack; i++) {
        CHARL_TRY(append(to, m->stack[i]));
    }
    m->n_stack = from;
    return CHARL_OK;
}

/* The values of the stack from `from` on become one of `kind`. */
static charl_status collect(machine *m, int64_t from, charl__pickle_kind kind)
{
    value *v = NULL;

    CHARL_TRY(push_new(m, kind, &v));
    m->n_stack--;
    CHARL_TRY(move_items(m, from, v));
    return push(m, v);
}

/* The last `n` values of the stack become a list. */
static charl_status push_list(machine *m, int64_t n)
{
    CHECK(m, m->n_stack - n >= floor_of(m));
    return collect(m, m->n_stack - n, CHARL__PICKLE_LIST);
}

static charl_status push_marked(machine *m, charl__pickle_kind kind)
{
    int64_t from = 0;

    CHARL_TRY(unmark(m, &from));
    return collect(m, from, kind);
}

/* ------------------------------------------------------------------ texts */

static charl_status push_text(machine *m, int width)
{
    uint64_t bytes = 0;
    value *v = NULL;

    CHARL_TRY(get_number(m, width, &bytes));
    CHECK(m, bytes <= (uint64_t)(m->end - at_byte(m)));
    CHARL_TRY(push_new(m, CHARL__PICKLE_TEXT, &v));
    CHARL_TRY(charl__alloc((size_t)bytes + 1, &v->text));
    v->bytes = (int64_t)bytes;
    return get_bytes(m, v->text, v->bytes);
}

/* The bytes before the next line feed, which is skipped. */
static charl_status get_line(machine *m, charl__text *line)
{
    char c = 0;

    charl__text_clear(line);
    for (;;) {
        CHARL_TRY(get_bytes(m, &c, 1));
        if (c == '\n') {
            return CHARL_OK;
        }
        CHARL_TRY(charl__text_append(line, &c, 1));
    }
}

/* `line` as a new value; quotes around it are left away where `quoted`. */
static charl_status push_line(machine *m, charl__pickle_kind kind, charl__text *line, bool quoted)
{
    const char *s = charl__text_string(line);
    const size_t n = strlen(s), skip = quoted && n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n - 1] == s[0] ? 1 : 0;
    value *v = NULL;

    CHARL_TRY(push_new(m, kind, &v));
    CHARL_TRY(charl__alloc(n + 1, &v->text));
    v->bytes = (int64_t)(n - 2 * skip);
    memcpy(v->text, s + skip, n - 2 * skip);
    return CHARL_OK;
}

/* The number of a line; "00" and "01" are False and True, and longs end in L. */
static charl_status push_decimal(machine *m, charl__text *line)
{
    const char *s = charl__text_string(line);
    char *end = NULL;
    const long long number = strtoll(s, &end, 10);

    CHECK(m, end > s && (*end == '\0' || strcmp(end, "L") == 0));
    return push_number(m, strcmp(s, "00") == 0 || strcmp(s, "01") == 0 ? CHARL__PICKLE_BOOL : CHARL__PICKLE_INT,
                       number);
}

static charl_status push_long(machine *m, int width)
{
    uint64_t bytes = 0, number = 0;
    char rest[256];

    CHARL_TRY(get_number(m, width, &bytes));
    if (bytes > 8) {
        for (; bytes > 0; bytes -= bytes < sizeof rest ? bytes : sizeof rest) {
            CHARL_TRY(get_bytes(m, rest, (int64_t)(bytes < sizeof rest ? bytes : sizeof rest)));
        }
        return push_new(m, CHARL__PICKLE_OTHER, NULL);
    }
    CHARL_TRY(get_number(m, (int)bytes, &number));
    if (bytes > 0 && bytes < 8 && (number >> (8 * bytes - 1)) & 1) {
        number |= ~(uint64_t)0 << (8 * bytes);
    }
    return push_number(m, CHARL__PICKLE_INT, (int64_t)number);
}

/* ------------------------------------------------------------------ objects */

static charl_status push_call(machine *m, const value *callable, const value *args)
{
    value *v = NULL;

    CHARL_TRY(push_new(m, CHARL__PICKLE_CALL, &v));
    v->callable = callable;
    v->args = args;
    return CHARL_OK;
}

/* Of the stack: the callable, then its arguments, then `extra` more that are not kept. */
static charl_status call(machine *m, int extra)
{
    value *callable = NULL, *args = NULL, *left = NULL;

    for (int i = 0; i < extra; i++) {
        CHARL_TRY(pop(m, &left));
    }
    CHARL_TRY(pop(m, &args));
    CHARL_TRY(pop(m, &callable));
    CHECK(m, args->kind == CHARL__PICKLE_LIST);
    return push_call(m, callable, args);
}

/* Of the stack since the mark: the class unless given, then the arguments. */
static charl_status call_marked(machine *m, const value *class)
{
    value *args = NULL;
    int64_t from = 0;

    CHARL_TRY(unmark(m, &from));
    if (!class) {
        CHECK(m, from < m->n_stack);
        class = m->stack[from];
    }
    CHARL_TRY(push_new(m, CHARL__PICKLE_LIST, &args));
    m->n_stack--;
    for (int64_t i = from; i < m->n_stack; i++) {
        if (m->stack[i] != class) {
            CHARL_TRY(append(args, m->stack[i]));
        }
    }
    m->n_stack = from;
    return push_call(m, class, args);
}

static charl_status push_global(machine *m, const char *module, const char *name)
{
    const size_t bytes = strlen(module) + strlen(name) + 2;
    value *v = NULL;

    CHARL_TRY(push_new(m, CHARL__PICKLE_GLOBAL, &v));
    CHARL_TRY(charl__alloc(bytes, &v->text));
    snprintf(v->text, bytes, "%s %s", module, name);
    v->bytes = (int64_t)bytes - 1;
    return CHARL_OK;
}

static charl_status push_global_lines(machine *m)
{
    CHARL_SCOPED(charl__text_fini) charl__text module = {0}, name = {0};

    CHARL_TRY(get_line(m, &module));
    CHARL_TRY(get_line(m, &name));
    return push_global(m, charl__text_string(&module), charl__text_string(&name));
}

static charl_status push_global_stack(machine *m)
{
    value *module = NULL, *name = NULL;

    CHARL_TRY(pop(m, &name));
    CHARL_TRY(pop(m, &module));
    CHECK(m, module->kind == CHARL__PICKLE_TEXT && name->kind == CHARL__PICKLE_TEXT);
    return push_global(m, module->text, name->text);
}

static charl_status push_outside(machine *m, const value *identity)
{
    value *v = NULL;

    CHARL_TRY(push_new(m, CHARL__PICKLE_OUTSIDE, &v));
    v->args = identity;
    return CHARL_OK;
}

/* ------------------------------------------------------------------ memo */

static charl_status put(machine *m, uint64_t i)
{
    value *v = NULL;

    CHARL_TRY(top(m, &v));
    CHECK(m, i < MOST_VALUES);
    while (m->n_memo <= (int64_t)i) {
        CHARL_TRY(charl__grow(m->n_memo, sizeof(value *), &m->memo));
        m->memo[m->n_memo++] = NULL;
    }
    m->memo[i] = v;
    return CHARL_OK;
}

static charl_status get(machine *m, uint64_t i)
{
    CHECK(m, i < (uint64_t)m->n_memo && m->memo[i]);
    return push(m, m->memo[i]);
}

/* ------------------------------------------------------------------ the machine */

/* Opcodes that are followed by a number of `width` bytes, and what is done with it. */
static charl_status run_number(machine *m, int op, int width)
{
    uint64_t number = 0;

    CHARL_TRY(get_number(m, width, &number));
    switch (op) {
    case PROTO:
        CHARL_REQUIRE(number <= NEWEST, CHARL_ERR_CHECKPOINT, "%s: a pickle of protocol %d; at most %d is read",
                      m->path, (int)number, NEWEST);
        return CHARL_OK;
    case BINGET:
    case LONG_BINGET:
        return get(m, number);
    case BINPUT:
    case LONG_BINPUT:
        return put(m, number);
    case BININT:
        return push_number(m, CHARL__PICKLE_INT, (int32_t)(uint32_t)number);
    case BINFLOAT:
        return push_new(m, CHARL__PICKLE_OTHER, NULL);
    case FRAME:
        return CHARL_OK;
    default:
        return push_number(m, CHARL__PICKLE_INT, (int64_t)number);
    }
}

/* Opcodes that are followed by a line. */
static charl_status run_line(machine *m, int op)
{
    CHARL_SCOPED(charl__text_fini) charl__text line = {0};
    value *class = NULL, *identity = NULL;
    char *end = NULL;

    if (op == GLOBAL) {
        return push_global_lines(m);
    }
    if (op == INST) {
        CHARL_TRY(push_global_lines(m));
        class = m->stack[--m->n_stack];
        return call_marked(m, class);
    }
    CHARL_TRY(get_line(m, &line));
    switch (op) {
    case INT:
    case LONG:
        return push_decimal(m, &line);
    case GET:
    case PUT: {
        const char *s = charl__text_string(&line);
        const unsigned long long i = strtoull(s, &end, 10);

        CHECK(m, end > s && *end == '\0');
        return op == GET ? get(m, i) : put(m, i);
    }
    case PERSID:
        CHARL_TRY(push_line(m, CHARL__PICKLE_TEXT, &line, false));
        CHARL_TRY(pop(m, &identity));
        return push_outside(m, identity);
    case FLOAT:
        return push_new(m, CHARL__PICKLE_OTHER, NULL);
    default: /* STRING, UNICODE */
        return push_line(m, CHARL__PICKLE_TEXT, &line, op == STRING);
    }
}

/* Opcodes that take values off the stack to change or to make others. */
static charl_status run_stack(machine *m, int op)
{
    value *v = NULL, *to = NULL;
    int64_t from = 0;

    switch (op) {
    case POP:
        if (m->n_mark > 0 && m->mark[m->n_mark - 1] == m->n_stack) {
            return unmark(m, &from);
        }
        return pop(m, &v);
    case POP_MARK:
        CHARL_TRY(unmark(m, &from));
        m->n_stack = from;
        return CHARL_OK;
    case DUP:
        CHARL_TRY(top(m, &v));
        return push(m, v);
    case MEMOIZE:
        return put(m, (uint64_t)m->n_memo);
    case BINPERSID:
        CHARL_TRY(pop(m, &v));
        return push_outside(m, v);
    case BUILD:
        CHARL_TRY(pop(m, &v));
        CHARL_TRY(top(m, &to));
        to->state = v;
        return CHARL_OK;
    case APPEND:
    case SETITEM:
        from = m->n_stack - (op == APPEND ? 1 : 2);
        CHECK(m, from > floor_of(m));
        return move_items(m, from, m->stack[from - 1]);
    default: /* APPENDS, SETITEMS, ADDITEMS */
        CHARL_TRY(unmark(m, &from));
        CHECK(m, from > floor_of(m));
        return move_items(m, from, m->stack[from - 1]);
    }
}

static charl_status run(machine *m, int op)
{
    switch (op) {
    case PROTO:
    case BINGET:
    case BINPUT:
    case BININT1:
        return run_number(m, op, 1);
    case BININT2:
        return run_number(m, op, 2);
    case BININT:
    case LONG_BINGET:
    case LONG_BINPUT:
        return run_number(m, op, 4);
    case BINFLOAT:
    case FRAME:
        return run_number(m, op, 8);
    case LONG1:
        return push_long(m, 1);
    case LONG4:
        return push_long(m, 4);
    case SHORT_BINSTRING:
    case SHORT_BINBYTES:
    case SHORT_BINUNICODE:
        return push_text(m, 1);
    case BINSTRING:
    case BINBYTES:
    case BINUNICODE:
        return push_text(m, 4);
    case BINUNICODE8:
    case BINBYTES8:
    case BYTEARRAY8:
        return push_text(m, 8);
    case INT:
    case LONG:
    case FLOAT:
    case STRING:
    case UNICODE:
    case PERSID:
    case GLOBAL:
    case INST:
    case GET:
    case PUT:
        return run_line(m, op);
    case MARK:
        CHECK(m, m->n_mark < MOST_VALUES);
        CHARL_TRY(charl__grow(m->n_mark, sizeof *m->mark, &m->mark));
        m->mark[m->n_mark++] = m->n_stack;
        return CHARL_OK;
    case NONE:
        return push_new(m, CHARL__PICKLE_NONE, NULL);
    case NEWTRUE:
    case NEWFALSE:
        return push_number(m, CHARL__PICKLE_BOOL, op == NEWTRUE);
    case EMPTY_DICT:
        return push_new(m, CHARL__PICKLE_DICT, NULL);
    case EMPTY_LIST:
    case EMPTY_SET:
    case EMPTY_TUPLE:
        return push_list(m, 0);
    case TUPLE1:
    case TUPLE2:
    case TUPLE3:
        return push_list(m, op - TUPLE1 + 1);
    case TUPLE:
    case LIST:
    case FROZENSET:
        return push_marked(m, CHARL__PICKLE_LIST);
    case DICT:
        return push_marked(m, CHARL__PICKLE_DICT);
    case REDUCE:
    case NEWOBJ:
        return call(m, 0);
    case NEWOBJ_EX:
        return call(m, 1);
    case OBJ:
        return call_marked(m, NULL);
    case STACK_GLOBAL:
        return push_global_stack(m);
    case POP:
    case POP_MARK:
    case DUP:
    case MEMOIZE:
    case BINPERSID:
    case BUILD:
    case APPEND:
    case SETITEM:
    case APPENDS:
    case SETITEMS:
    case ADDITEMS:
        return run_stack(m, op);
    default:
        CHARL_FAIL(CHARL_ERR_CHECKPOINT, "%s: byte %lld: opcode 0x%02x of pickles is not read", m->path,
                   (long long)at_byte(m) - 1, (unsigned)op);
        return CHARL_OK;
    }
}

charl_status charl__pickle_read(const char *path, int fd, int64_t *at, int64_t end, charl__pickle *out)
{
    charl_status st = CHARL_OK;
    machine m = {.path = path, .fd = fd, .at = *at, .end = end, .made = out};
    unsigned char op = 0;

    *out = (charl__pickle){.root = NULL};
    m.limited = end - *at > MOST_BYTES;
    m.end = m.limited ? *at + MOST_BYTES : end;
    CHARL_TRY_CLEANUP(charl__alloc(BUFFER, &m.buffer));
    for (;;) {
        CHARL_TRY_CLEANUP(get_bytes(&m, &op, 1));
        if (op == STOP) {
            break;
        }
        CHARL_TRY_CLEANUP(run(&m, op));
    }
    CHARL_REQUIRE_CLEANUP(m.n_stack == 1 && m.n_mark == 0, CHARL_ERR_CHECKPOINT, "%s: the pickle is damaged at its end",
                          path);
    out->root = m.stack[0];
    *at = at_byte(&m);
cleanup:
    charl_free(m.buffer);
    charl_free(m.stack);
    charl_free(m.memo);
    charl_free(m.mark);
    return st;
}

void charl__pickle_fini(charl__pickle *p)
{
    for (int64_t i = 0; i < p->n; i++) {
        charl_free(p->all[i]->text);
        charl_free(p->all[i]->item);
        charl_free(p->all[i]);
    }
    charl_free(p->all);
    *p = (charl__pickle){.root = NULL};
}

bool charl__pickle_is(const charl__pickle_value *v, const char *name)
{
    return v && v->kind == CHARL__PICKLE_GLOBAL && strcmp(v->text, name) == 0;
}
