/* cache_disk.c - header, name and checksum of a cache file. */
#include "data/cache/cache_disk.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

/* Of the source's own name, in the name of its cache: for people. */
#define NAME_PART_MAX 64

fl_status fl_cache_check_machine(void)
{
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    FL_FAIL(FL_ERR_INVAL, "a data cache needs a little-endian machine; train "
                          "without a cache directory here");
#endif
    return FL_OK;
}

/* --- header -------------------------------------------------------------- */

static const char *pipe_of(const fl_cache_key *k)
{
    return k->pipe_command ? k->pipe_command : "";
}

static char *put_text(char *at, const char *text)
{
    while (*text)
        *at++ = *text++;
    return at;
}

static void put_slot(char *at, const fl_slot *slot)
{
    fl_cache_slot disk = { .name_len = (uint32_t)strlen(slot->name),
                           .kind = (uint32_t)slot->kind,
                           .width = slot->width,
                           .height = slot->height };

    memcpy(at, &disk, sizeof(disk));
}

static uint32_t names_len(const fl_schema *s)
{
    size_t len = 0;

    for (uint32_t i = 0; i < s->n_slots; i++)
        len += strlen(s->slots[i].name);
    return (uint32_t)len;
}

fl_cache_head *fl_cache_header_new(const fl_cache_key *k, const fl_schema *s)
{
    fl_cache_head head = { .magic = FL_CACHE_MAGIC,
                           .version = FL_CACHE_VERSION,
                           .parser_hash = k->parser_hash,
                           .source_bytes = k->source_bytes,
                           .source_mtime_ns = k->source_mtime_ns,
                           .source_len = (uint32_t)strlen(k->source),
                           .pipe_len = (uint32_t)strlen(pipe_of(k)),
                           .n_slots = s->n_slots,
                           .names_len = names_len(s) };
    size_t bytes = sizeof(head) + s->n_slots * sizeof(fl_cache_slot) +
                   head.source_len + head.pipe_len + head.names_len;
    fl_cache_head *out = fl_alloc(fl_cache_padded(bytes));
    char *at = (char *)(out + 1);

    head.bytes = (uint32_t)fl_cache_padded(bytes);
    *out = head;
    for (uint32_t i = 0; i < s->n_slots; i++, at += sizeof(fl_cache_slot))
        put_slot(at, &s->slots[i]);
    at = put_text(at, k->source);
    at = put_text(at, pipe_of(k));
    for (uint32_t i = 0; i < s->n_slots; i++)
        at = put_text(at, s->slots[i].name);
    out->sum = fl_sum_of(out, head.bytes);
    return out;
}

/* --- name ---------------------------------------------------------------- */

/* Size and time are left out: the cache of a file that has changed takes the
   place of the old one. Settings are not: two jobs that read one file in two
   ways keep a cache each. */
static uint64_t name_hash(const fl_cache_key *k)
{
    uint64_t h = fl_hash_str(k->source);

    h = fl_mix64(h ^ k->parser_hash);
    return fl_mix64(h ^ fl_hash_str(pipe_of(k)));
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '.' || c == '-';
}

void fl_cache_add_path(fl_str *to, const char *directory, const fl_cache_key *k)
{
    const char *slash = strrchr(k->source, '/');
    char name[NAME_PART_MAX + 1];
    size_t n = 0;

    for (const char *c = slash ? slash + 1 : k->source; *c && n < NAME_PART_MAX;
         c++)
        name[n++] = is_plain(*c) ? *c : '_';
    name[n] = '\0';
    fl_str_addf(to, "%s/%s-%016" PRIx64 ".flcache", directory, name,
                name_hash(k));
}

/* --- checksum ------------------------------------------------------------ */

__extension__ typedef unsigned __int128 wide;

/* Odd numbers without a pattern, one per lane. */
static const uint64_t lane_keys[FL_SUM_LANES] = {
    UINT64_C(0x9fb21c651e98df25),
    UINT64_C(0xd6e8feb86659fd93),
    UINT64_C(0xa0761d6478bd642f),
    UINT64_C(0xe7037ed1a0b428db),
};

void fl_sum_init(fl_layers_sum *s)
{
    for (uint64_t i = 0; i < FL_SUM_LANES; i++)
        s->lanes[i] = fl_mix64(i + 1);
    s->bytes = 0;
}

/* Multiplies and folds: every bit of the two words and of the lane reaches
   about half of the new lane. */
static inline uint64_t sum_step(uint64_t lane, const char *at, uint64_t key)
{
    uint64_t words[2];
    wide product;

    memcpy(words, at, sizeof(words));
    product = (wide)(words[0] ^ key) * (words[1] ^ lane);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Copies n bytes, whole blocks, and adds them; with `to` NULL adds them only.
   It is inlined into two callers which do either. The lanes are four variables:
   in an array, compilers keep them in memory. */
static inline void sum_blocks(fl_layers_sum *s, char *restrict to,
                              const char *restrict from, size_t n)
{
    uint64_t a = s->lanes[0], b = s->lanes[1];
    uint64_t c = s->lanes[2], d = s->lanes[3];

    for (size_t i = 0; i < n; i += FL_CACHE_ALIGN) {
        const char *at = from + i;

        if (to)
            memcpy(to + i, at, FL_CACHE_ALIGN);
        a = sum_step(a, at, lane_keys[0]);
        b = sum_step(b, at + 16, lane_keys[1]);
        c = sum_step(c, at + 32, lane_keys[2]);
        d = sum_step(d, at + 48, lane_keys[3]);
    }
    s->lanes[0] = a;
    s->lanes[1] = b;
    s->lanes[2] = c;
    s->lanes[3] = d;
    s->bytes += n;
}

void fl_sum_add(fl_layers_sum *s, const void *bytes, size_t n)
{
    FL_DEBUG_ASSERT(n % FL_CACHE_ALIGN == 0);
    sum_blocks(s, NULL, bytes, n);
}

void fl_sum_copy(fl_layers_sum *s, void *to, const void *from, size_t n)
{
    size_t whole = n / FL_CACHE_ALIGN * FL_CACHE_ALIGN;
    const char *rest = (const char *)from + whole;

    sum_blocks(s, to, from, whole);
    if (whole == n)
        return;
    fl_sum_add(s, rest, FL_CACHE_ALIGN);
    memcpy((char *)to + whole, rest, n - whole);
}

uint64_t fl_sum_end(const fl_layers_sum *s)
{
    uint64_t h = s->bytes;

    for (int i = 0; i < FL_SUM_LANES; i++)
        h = fl_mix64(h ^ s->lanes[i]);
    return h;
}

uint64_t fl_sum_of(const void *bytes, size_t n)
{
    fl_layers_sum s;

    fl_sum_init(&s);
    fl_sum_add(&s, bytes, n);
    return fl_sum_end(&s);
}
