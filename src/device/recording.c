/* Recordings: launches stored with kernel objects of their own, so that a replay allocates nothing and sets no arguments except positions
 * in the batch, if the recording is moved along it. Kernels are created when the recording ends: by then all its programs are known, and
 * other processes compile the missing ones (compilers.c). */
#include <string.h>

#include "base/text/text.h"
#include "device/device_private.h"

/* An argument of item `item` that is a position in the batch. */
typedef struct position {
    int item;
    int index;
    charl__arg arg;
    unsigned char *data; /* of a struct: its own copy */
} position;

/* A range of launches that has been replayed and, from the second time on, the graph that replays it in one call, if the driver has graphs. */
typedef struct graph {
    int first, last, moved;
    charl__driver_graph *graph; /* NULL: not yet */
} graph;

enum { GRAPH_LEAST = 2, GRAPHS_MOST = 256 };

/* A launch with copies of its texts and structs, which the caller may free earlier. Texts of pair_params are literals. */
typedef struct kept {
    charl__launch launch;
    charl__text text; /* file, defines, names and texts of its parameters, each with its NUL, and structs */
} kept;

struct charl__recording {
    charl_device *dev; /* retained */
    charl__ready *item;
    char **text; /* entry NUL label NUL of each item: the caller may free its strings earlier */
    int count;
    charl__buffer **held; /* retained, each once */
    int n_held;
    position *position;
    int n_positions, moved; /* moved: slices */
    graph *graph;
    int n_graphs;
    kept *kept;               /* of each item, until the recording ends */
    bool may_pair, is_marked; /* the launch recorded last may be part of a pair; later ones are not paired with it */
};

static charl_status hold(charl__recording *rec, charl__buffer *b)
{
    for (int i = rec->n_held - 1; i >= 0; i--) { /* launches that are close in time share buffers */
        if (rec->held[i] == b) {
            return CHARL_OK;
        }
    }
    CHARL_TRY(charl__grow(rec->n_held, sizeof(charl__buffer *), &rec->held));
    rec->held[rec->n_held++] = charl__buffer_retain(b);
    return CHARL_OK;
}

static charl_status grow(charl__recording *rec)
{
    CHARL_TRY(charl__grow(rec->count, sizeof *rec->item, &rec->item));
    CHARL_TRY(charl__grow(rec->count, sizeof *rec->kept, &rec->kept));
    return charl__grow(rec->count, sizeof(char *), &rec->text);
}

static charl_status keep_text(kept *k, const char *text)
{
    return text ? charl__text_append(&k->text, text, strlen(text) + 1) : CHARL_OK;
}

static charl_status keep_structs(kept *k, const charl__launch *l)
{
    for (const charl__arg *a = l->args; a->kind != CHARL_ARG_END; a++) {
        CHARL_TRY(a->kind == CHARL_ARG_STRUCT ? charl__text_append(&k->text, a->data, a->size) : CHARL_OK);
    }
    return CHARL_OK;
}

/* The kept text at *at, which advances; NULL if there was none. */
static const char *next_text(const char **at, const char *text)
{
    const char *const own = text ? *at : NULL;

    *at += text ? strlen(text) + 1 : 0;
    return own;
}

/* text: its entry and label, which are not copied. */
static charl_status keep(kept *k, const charl__launch *l, const char *text)
{
    charl__kernel_param *const p = k->launch.params;
    const char *at;

    *k = (kept){.launch = *l};
    CHARL_TRY(keep_text(k, l->file));
    CHARL_TRY(keep_text(k, l->defines));
    for (int i = 0; p[i].name; i++) {
        CHARL_TRY(keep_text(k, p[i].name));
        CHARL_TRY(keep_text(k, p[i].text));
    }
    CHARL_TRY(keep_structs(k, l));
    at = charl__text_string(&k->text);
    k->launch.file = next_text(&at, l->file);
    k->launch.defines = next_text(&at, l->defines);
    for (int i = 0; p[i].name; i++) {
        p[i].name = next_text(&at, p[i].name);
        p[i].text = next_text(&at, p[i].text);
    }
    for (charl__arg *a = k->launch.args; a->kind != CHARL_ARG_END; a++) {
        if (a->kind == CHARL_ARG_STRUCT) {
            a->data = at;
            at += a->size;
        }
    }
    k->launch.entry = text;
    k->launch.label = text + strlen(text) + 1;
    return CHARL_OK;
}

static charl_status own_struct(position *p)
{
    if (p->arg.kind == CHARL_ARG_STRUCT) {
        CHARL_TRY(charl__alloc(p->arg.size, &p->data));
        memcpy(p->data, p->arg.data, p->arg.size);
        p->arg.data = p->data;
    }
    return CHARL_OK;
}

/* Collect the positions among the arguments of item `item`. */
static charl_status note_positions(charl__recording *rec, const charl__launch *l, int item)
{
    int at = 0;

    for (int i = 0; i < CHARL_MAX_ARGS && l->args[i].kind != CHARL_ARG_END; i++) {
        if (l->args[i].per_slice != 0) {
            CHARL_TRY(charl__grow(rec->n_positions, sizeof *rec->position, &rec->position));
            rec->position[rec->n_positions++] = (position){item, at, l->args[i], NULL};
            CHARL_TRY(own_struct(&rec->position[rec->n_positions - 1]));
        }
        at += charl__arg_params(&l->args[i]);
    }
    return CHARL_OK;
}

static charl_status prepare(charl__recording *rec, const charl__launch *l, int item, charl__ready *r)
{
    charl__program *program = NULL;
    charl__kernel kernel;

    if (rec->dev->skip_kernels) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__program_get(rec->dev, l, &program));
    CHARL_TRY(charl__kernel_create(rec->dev, program, l->entry, &kernel));
    r->kernel = kernel.kernel;
    CHARL_TRY(charl__args_set(rec->dev, &kernel, l));
    r->program = program;
    CHARL_TRY(note_positions(rec, l, item));
    CHARL_TRY(charl__kernel_is_new(rec->dev, program, l->entry, r->local, &r->compiles));
    rec->dev->progress.known += r->compiles;
    return CHARL_OK;
}

/* The last launch is not paired any more: its program is known. */
static charl_status finish_last(charl__recording *rec)
{
    const bool is_new = rec->may_pair && !rec->dev->skip_kernels;

    rec->may_pair = rec->is_marked = false;
    return is_new ? charl__program_want(rec->dev, &rec->kept[rec->count - 1].launch) : CHARL_OK;
}

/* Replace the last launch and l by one launch. */
static charl_status join(charl__recording *rec, const charl__launch *l, bool l_leads)
{
    charl_status st = CHARL_OK;
    kept last = rec->kept[--rec->count];
    char *text = rec->text[rec->count];
    const double flop = rec->item[rec->count].flop;

    rec->may_pair = rec->is_marked = false;
    st = charl__launch_pair(rec->dev, l_leads ? l : &last.launch, l_leads ? &last.launch : l);
    if (st == CHARL_OK) {
        charl__recording_add_flop(rec, rec->count - 1, flop);
    }
    charl__text_fini(&last.text);
    charl_free(text);
    return st;
}

static charl_status append(charl__recording *rec, const charl__launch *l, charl__ready r)
{
    charl_status st = CHARL_OK;
    const size_t entry = strlen(r.entry) + 1, label = strlen(r.label) + 1;
    char *text = NULL;

    CHARL_TRY_CLEANUP(finish_last(rec));
    CHARL_TRY_CLEANUP(grow(rec));
    CHARL_TRY_CLEANUP(charl__alloc(entry + label, &text));
    memcpy(text, r.entry, entry);
    memcpy(text + entry, r.label, label);
    for (int i = 0; i < CHARL_MAX_ARGS && l->args[i].kind != CHARL_ARG_END; i++) {
        if (charl__arg_is_buffer(l->args[i].kind) && l->args[i].buffer) {
            CHARL_TRY_CLEANUP(hold(rec, l->args[i].buffer));
        }
    }
    r.entry = text;
    r.label = text + entry;
    rec->text[rec->count] = text;
    rec->item[rec->count] = r;
    st = keep(&rec->kept[rec->count++], l, text);
    text = NULL;
    CHARL_TRY_CLEANUP(st);
    rec->may_pair = true;
    CHARL_TRY_CLEANUP(l->pair_first || l->pair_second ? CHARL_OK : finish_last(rec));
cleanup:
    charl_free(text);
    return st;
}

charl_status charl__recording_add(charl__recording *rec, const charl__launch *l, charl__ready r)
{
    const charl__launch *first = NULL;

    if (rec->may_pair && !rec->is_marked && charl__launch_pair_fits(&rec->kept[rec->count - 1].launch, l, &first)) {
        return join(rec, l, first == l);
    }
    return append(rec, l, r);
}

void charl__recording_add_flop(charl__recording *r, int i, double flop)
{
    r->item[i].flop += flop;
}

void charl__recording_mark(charl__recording *rec)
{
    rec->is_marked = true;
}

charl_status charl__record_begin(charl_device *dev, charl__recording **out)
{
    charl__recording *rec = NULL;

    *out = NULL;
    CHARL_REQUIRE(!dev->recording, CHARL_ERR_INVALID, "a recording is already in progress");
    CHARL_TRY(charl__alloc(sizeof *rec, &rec));
    rec->dev = charl__device_retain(dev);
    dev->recording = rec;
    *out = rec;
    return CHARL_OK;
}

static void forget_kept(charl__recording *rec)
{
    for (int i = 0; rec->kept && i < rec->count; i++) {
        charl__text_fini(&rec->kept[i].text);
    }
    charl_free(rec->kept);
    rec->kept = NULL;
}

charl_status charl__record_end(charl_device *dev, charl_status so_far)
{
    charl__recording *rec = dev->recording;
    charl_status st = so_far;

    dev->recording = NULL;
    if (rec) {
        st = st == CHARL_OK ? finish_last(rec) : st;
        for (int i = 0; i < rec->count && st == CHARL_OK; i++) {
            st = prepare(rec, &rec->kept[i].launch, i, &rec->item[i]);
            if (st != CHARL_OK) {
                charl__error_prefix("%s: ", rec->item[i].label);
            }
        }
        forget_kept(rec);
    }
    return st;
}

charl__recording *charl__record_pause(charl_device *dev)
{
    charl__recording *r = dev->recording;

    dev->recording = NULL;
    return r;
}

void charl__record_resume(charl_device *dev, charl__recording *r)
{
    dev->recording = r;
}

int charl__recording_count(const charl__recording *r)
{
    return r->count;
}

static charl_status replay_each(charl__recording *r, int first, int last)
{
    for (int i = first; i < last; i++) {
        charl__ready *item = &r->item[i];

        CHARL_TRY(item->compiles ? charl__ready_compile(r->dev, item) : charl__ready_enqueue(r->dev, item));
    }
    return CHARL_OK;
}

/* Whether launches may run as a graph: no option requires separate launches. */
static bool takes_graphs(const charl_device *dev)
{
    return dev->driver->capture && !dev->sync && !dev->skip_kernels && !dev->timing && !charl__tracing_is_on(dev);
}

static bool is_of_one_queue(const charl__recording *r, int first, int last)
{
    while (first < last && r->item[first].queue == CHARL_QUEUE_COMPUTE) {
        first++;
    }
    return first == last;
}

/* NULL: replay this range launch by launch; next time possibly by a graph. */
static charl_status find_graph(charl__recording *r, int first, int last, graph **out)
{
    *out = NULL;
    if (!takes_graphs(r->dev) || last - first < GRAPH_LEAST) {
        return CHARL_OK;
    }
    for (int i = 0; i < r->n_graphs; i++) {
        graph *g = &r->graph[i];

        if (g->first == first && g->last == last && g->moved == r->moved) {
            *out = g;
            return CHARL_OK;
        }
    }
    if (r->n_graphs < GRAPHS_MOST && is_of_one_queue(r, first, last)) {
        CHARL_TRY(charl__grow(r->n_graphs, sizeof *r->graph, &r->graph));
        r->graph[r->n_graphs++] = (graph){first, last, r->moved, NULL};
    }
    return CHARL_OK;
}

static charl_status capture(charl__recording *r, graph *g)
{
    const charl__driver *d = r->dev->driver;
    const charl__device_counters before = r->dev->counters;
    const int64_t noted = r->dev->noted, commands = r->dev->commands[CHARL_QUEUE_COMPUTE];
    charl_status st;
    int err;

    CHARL_TRY(charl__device_check(r->dev, "recording a graph", d->capture(r->dev, CHARL_QUEUE_COMPUTE)));
    st = replay_each(r, g->first, g->last);
    err = d->graph_create(r->dev, CHARL_QUEUE_COMPUTE, &g->graph);
    r->dev->counters = before; /* they have not been launched */
    r->dev->noted = noted;
    r->dev->commands[CHARL_QUEUE_COMPUTE] = commands;
    CHARL_TRY(st);
    return charl__device_check(r->dev, "recording a graph", err);
}

static charl_status replay_graph(charl__recording *r, graph *g)
{
    charl_device *dev = r->dev;
    const int n = g->last - g->first, shown = n < CHARL__RECENT_COMMANDS ? n : CHARL__RECENT_COMMANDS;

    CHARL_TRY(g->graph ? CHARL_OK : capture(r, g));
    CHARL_TRY(charl__device_check(dev, r->item[g->first].entry,
                                  dev->driver->graph_launch(dev, CHARL_QUEUE_COMPUTE, g->graph)));
    dev->counters.launches += n;
    dev->commands[CHARL_QUEUE_COMPUTE] += n;
    dev->noted += n - shown; /* earlier commands are not remembered */
    for (int i = g->last - shown; i < g->last; i++) {
        charl__command_note(dev, r->item[i].entry, r->item[i].label);
    }
    return CHARL_OK;
}

charl_status charl__recording_replay(charl__recording *r, int first, int last)
{
    graph *g = NULL;

    CHARL_REQUIRE(first >= 0 && first <= last && last <= r->count, CHARL_ERR_INVALID,
                  "launches %d to %d of a recording of %d", first, last, r->count);
    (void)charl__compilers_end(r->dev);
    CHARL_TRY(find_graph(r, first, last, &g));
    return g ? replay_graph(r, g) : replay_each(r, first, last);
}

charl_status charl__recording_move(charl__recording *r, int slices)
{
    for (int i = 0; i < r->n_positions && slices != r->moved; i++) {
        const position *p = &r->position[i];
        charl__arg arg = p->arg;
        int at = p->index;

        arg.v.i64 += slices * arg.per_slice;
        if (p->data) {
            memcpy(p->data + arg.member, &arg.v.i64, sizeof arg.v.i64);
        }
        CHARL_TRY(charl__arg_set(r->dev, r->item[p->item].kernel, r->item[p->item].entry, &arg, &at));
    }
    r->moved = slices;
    return CHARL_OK;
}

void charl__recording_destroy(charl__recording *r)
{
    if (!r) {
        return;
    }
    if (r->dev->recording == r) {
        r->dev->recording = NULL;
    }
    forget_kept(r);
    for (int i = 0; i < r->n_graphs; i++) {
        if (r->graph[i].graph) {
            r->dev->driver->graph_release(r->dev, r->graph[i].graph);
        }
    }
    charl_free(r->graph);
    for (int i = 0; i < r->count; i++) {
        charl__kernel_release(r->dev, r->item[i].kernel);
        charl_free(r->text[i]);
    }
    for (int i = 0; i < r->n_held; i++) {
        charl__buffer_release(r->held[i]);
    }
    charl_free(r->held);
    for (int i = 0; i < r->n_positions; i++) {
        charl_free(r->position[i].data);
    }
    charl_free(r->position);
    charl_free(r->item);
    charl_free(r->text);
    charl__device_release(r->dev);
    charl_free(r);
}
