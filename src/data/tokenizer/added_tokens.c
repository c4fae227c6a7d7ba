/* A trie of bytes, searched from each position of the text where a token may begin. */
#include "data/tokenizer/added_tokens.h"

#include "base/alloc.h"
#include "data/tokenizer/normalize.h"

static int32_t child_of(const charl__added_tokens *a, int32_t node, unsigned char byte)
{
    int32_t child = a->nodes[node].child;

    while (child >= 0 && a->nodes[child].byte != byte) {
        child = a->nodes[child].sibling;
    }
    return child;
}

/* A new node; the first is the root. */
static charl_status add_node(charl__added_tokens *a, int32_t parent, unsigned char byte, int32_t *out)
{
    CHARL_TRY(charl__grow(a->count, sizeof *a->nodes, &a->nodes));
    *out = a->count++;
    a->nodes[*out] = (charl__added_node){.byte = byte, .token = -1, .child = -1, .sibling = -1};
    if (*out > 0) {
        a->nodes[*out].sibling = a->nodes[parent].child;
        a->nodes[parent].child = *out;
    }
    return CHARL_OK;
}

charl_status charl__added_tokens_add(charl__added_tokens *a, const charl__added_node *how, const unsigned char *text,
                                     size_t bytes)
{
    int32_t node = 0;

    if (a->count == 0) {
        CHARL_TRY(add_node(a, 0, 0, &node));
    }
    for (size_t i = 0; i < bytes; i++) {
        int32_t next = child_of(a, node, text[i]);

        if (next < 0) {
            CHARL_TRY(add_node(a, node, text[i], &next));
        }
        node = next;
    }
    CHARL_REQUIRE(a->nodes[node].token < 0, CHARL_ERR_DATA, "the added tokens %d and %d have the same text",
                  a->nodes[node].token, how->token);
    a->nodes[node].token = how->token;
    a->nodes[node].special = how->special;
    a->nodes[node].lstrip = how->lstrip;
    a->nodes[node].rstrip = how->rstrip;
    a->first[text[0]] = true;
    return CHARL_OK;
}

size_t charl__added_tokens_find(const charl__added_tokens *a, bool special, const unsigned char *text, size_t bytes,
                                size_t from, size_t *end, int32_t *token)
{
    *end = bytes;
    *token = -1;
    for (size_t at = a->count > 0 ? from : bytes, next; at < bytes; at = next) {
        int32_t node = 0, longest = 0;
        size_t n;

        next = at + 1;
        for (size_t i = at; a->first[text[at]] && i < bytes && (node = child_of(a, node, text[i])) >= 0; i++) {
            if (a->nodes[node].token >= 0) {
                longest = node;
                next = i + 1;
            }
        }
        if (longest > 0 && (special || !a->nodes[longest].special)) {
            const charl__added_node *found = &a->nodes[longest];

            while (found->lstrip && at > from && (n = charl__white_space_before(text + from, at - from)) > 0) {
                at -= n;
            }
            while (found->rstrip && (n = charl__white_space_at(text + next, bytes - next)) > 0) {
                next += n;
            }
            *token = found->token;
            *end = next;
            return at;
        }
    }
    return bytes;
}

void charl__added_tokens_fini(charl__added_tokens *a)
{
    charl_free(a->nodes);
    *a = (charl__added_tokens){0};
}
