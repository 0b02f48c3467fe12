/* tree: heap arithmetic and big-endian packing; nothing is allocated and nothing is remembered. */
#include "agent/shim/tree.h"

#include <string.h>

int64_t tree_parent(int64_t node)
{
    return node > 0 ? (node - 1) / TREE_RADIX : -1;
}

int64_t tree_child(int64_t node, int64_t i)
{
    return node * TREE_RADIX + 1 + i;
}

int64_t tree_child_count(int64_t node, int64_t nodes)
{
    int64_t n = nodes - tree_child(node, 0);
    return n < 0 ? 0 : n > TREE_RADIX ? TREE_RADIX : n;
}

bool tree_in_subtree(int64_t node, int64_t top)
{
    while (node > top)
        node = tree_parent(node);
    return node == top;
}

int64_t tree_next_hop(int64_t from, int64_t to)
{
    int64_t below = to;
    while (below > from && tree_parent(below) != from)
        below = tree_parent(below);
    return below > from ? below : tree_parent(from);
}

static void put_u32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

void frame_encode_header(const struct frame *f, uint8_t out[TREE_HEADER])
{
    memset(out, 0, TREE_HEADER);
    put_u32(out, (uint32_t)(TREE_HEADER - 4 + f->key_len + f->len));
    out[4] = (uint8_t)f->type;
    put_u32(out + 8, f->source);
    put_u32(out + 12, f->target);
    put_u32(out + 16, (uint32_t)f->status);
    put_u32(out + 20, (uint32_t)(f->id >> 32));
    put_u32(out + 24, (uint32_t)f->id);
    put_u32(out + 28, (uint32_t)f->key_len);
}

int frame_size(const uint8_t head[4], size_t *size, struct err *err)
{
    uint32_t rest = get_u32(head);
    if (rest < TREE_HEADER - 4 || rest > TREE_FRAME_MAX)
        return err_set(err, "a shim sent a frame of %u bytes (allowed: %d to %u)", rest, TREE_HEADER - 4,
                       TREE_FRAME_MAX);
    *size = (size_t)rest + 4;
    return 0;
}

int frame_decode(const uint8_t *buf, size_t size, struct frame *out, struct err *err)
{
    uint32_t key_len = get_u32(buf + 28);
    if (key_len > size - TREE_HEADER)
        return err_set(err, "a shim sent a frame whose key (%u bytes) is longer than itself (%zu bytes)",
                       key_len, size);
    if (buf[4] == 0 || buf[4] >= FRAME_TYPE_END)
        return err_set(err, "a shim sent a frame of unknown type %d", buf[4]);
    *out = (struct frame){.type = buf[4],
                          .source = get_u32(buf + 8),
                          .target = get_u32(buf + 12),
                          .status = (int32_t)get_u32(buf + 16),
                          .id = (uint64_t)get_u32(buf + 20) << 32 | get_u32(buf + 24),
                          .key = (const char *)buf + TREE_HEADER,
                          .key_len = key_len,
                          .data = buf + TREE_HEADER + key_len,
                          .len = size - TREE_HEADER - key_len};
    return 0;
}
