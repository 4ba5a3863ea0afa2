/* cache.c - the reading side of a cache, and its key.
 *
 * The file is mapped. Nothing in it is believed: the header must be the very
 * bytes that this key and these slots would be written with, the footer has a
 * checksum and its directory must cover the file without a gap, and a chunk is
 * copied and summed in one pass, with every size checked against the chunk's
 * own before it is used. What was read is used only when the sum is right, and
 * even a file with right sums cannot make a reader leave its memory.
 *
 * A file that is cut while it is mapped ends the process with SIGBUS, as with
 * every map. No writer of ours does that: they rename.
 */
#include "data/cache/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "data/cache/cache_disk.h"

#define NS_PER_SECOND UINT64_C(1000000000)

struct fl_cache {
    const fl_schema *schema;
    char *path;
    const char *map;
    size_t map_bytes;
    fl_cache_totals totals;
    fl_cache_chunk *chunks; /* a copy, checked */
};

/* --- key ----------------------------------------------------------------- */

fl_status fl_cache_key_of(fl_cache_key *out, const char *source,
                          uint64_t parser_hash, const char *pipe_command)
{
    struct stat st;

    if (stat(source, &st) != 0)
        FL_FAIL(FL_ERR_IO, "cannot look at %s: %s; check the list of files",
                source, strerror(errno));
    if (!S_ISREG(st.st_mode))
        FL_FAIL(FL_ERR_INVAL,
                "%s is not a regular file and cannot have a data cache; read "
                "it without a cache directory",
                source);
    *out = (fl_cache_key){ .source = source,
                           .source_bytes = (uint64_t)st.st_size,
                           .source_mtime_ns =
                               (uint64_t)st.st_mtim.tv_sec * NS_PER_SECOND +
                               (uint64_t)st.st_mtim.tv_nsec,
                           .parser_hash = parser_hash,
                           .pipe_command = pipe_command };
    return FL_OK;
}

void fl_cache_path(const fl_cache_key *k, const char *directory, char *out,
                   size_t cap)
{
    fl_str path = { 0 };

    fl_cache_add_path(&path, directory, k);
    snprintf(out, cap, "%s", fl_str_text(&path));
    fl_str_release(&path);
}

/* --- opening ------------------------------------------------------------- */

/* True when the header is whole, whatever it is for. */
static bool header_is_whole(const fl_cache *c, const fl_cache_head *has)
{
    fl_cache_head blank = *has;
    fl_layers_sum s;

    if (has->bytes < sizeof(*has) || has->bytes % FL_CACHE_ALIGN ||
        has->bytes > c->map_bytes)
        return false;
    blank.sum = 0;
    fl_sum_init(&s);
    fl_sum_add(&s, &blank, sizeof(blank));
    fl_sum_add(&s, c->map + sizeof(blank), has->bytes - sizeof(blank));
    return fl_sum_end(&s) == has->sum;
}

/* Why the header is not the wanted one; NULL when it is. */
static const char *header_differs(const fl_cache *c, const fl_cache_head *want)
{
    fl_cache_head has;

    if (c->map_bytes < sizeof(has))
        return "it is too short";
    memcpy(&has, c->map, sizeof(has));
    if (memcmp(has.magic, want->magic, sizeof(has.magic)) != 0)
        return "it is no cache file";
    if (has.version != want->version)
        return "it has another version";
    if (!header_is_whole(c, &has))
        return "its header is damaged";
    if (has.source_bytes != want->source_bytes ||
        has.source_mtime_ns != want->source_mtime_ns)
        return "its source has changed";
    if (has.parser_hash != want->parser_hash)
        return "the format has changed";
    if (has.bytes != want->bytes || memcmp(c->map, want, want->bytes) != 0)
        return "it has another source, pipe command or slots";
    return NULL;
}

/* Chunks follow one another from the header to the footer, so that every byte
   of the file is under some checksum. */
static bool directory_is_sound(const fl_cache *c, uint64_t at, uint64_t end)
{
    uint64_t records = 0;

    for (uint64_t i = 0; i < c->totals.chunks; i++) {
        const fl_cache_chunk *k = &c->chunks[i];

        if (k->offset != at || k->bytes > end - at ||
            k->bytes % FL_CACHE_ALIGN || k->records < 1 ||
            k->records > FL_CACHE_RECORDS)
            return false;
        at += k->bytes;
        records += k->records;
    }
    return at == end && records == c->totals.records;
}

/* The part of a footer that the totals and the chunks take. */
static bool footer_holds(const fl_cache_totals *t, uint64_t bytes)
{
    return t->chunks <= bytes / sizeof(fl_cache_chunk) &&
           fl_cache_padded(sizeof(*t) + t->chunks * sizeof(fl_cache_chunk)) ==
               bytes;
}

/* Copies totals and directory. *why is set when they are not as they must be;
   fails without memory only. */
static fl_status read_footer(fl_cache *c, uint64_t lo, uint64_t bytes,
                             const char **why)
{
    uint64_t end = c->map_bytes - sizeof(fl_cache_trailer) - bytes;
    const char *at = c->map + end;
    size_t list_bytes;

    *why = "its footer is damaged";
    memcpy(&c->totals, at, sizeof(c->totals));
    if (!footer_holds(&c->totals, bytes))
        return FL_OK;
    list_bytes = c->totals.chunks * sizeof(*c->chunks);
    c->chunks = fl_try_alloc(list_bytes);
    if (!c->chunks)
        FL_FAIL(FL_ERR_NOMEM, "cache %s: no memory for %" PRIu64 " chunks",
                c->path, c->totals.chunks);
    memcpy(c->chunks, at + sizeof(c->totals), list_bytes);
    if (directory_is_sound(c, lo, end))
        *why = NULL;
    return FL_OK;
}

/* The same, beginning from the trailer; `lo` is the end of the header. */
static fl_status read_end(fl_cache *c, uint64_t lo, const char **why)
{
    fl_cache_trailer t;
    uint64_t end;

    *why = "it was never finished";
    if (c->map_bytes < lo + sizeof(t))
        return FL_OK;
    end = c->map_bytes - sizeof(t);
    memcpy(&t, c->map + end, sizeof(t));
    if (memcmp(t.magic, FL_CACHE_END_MAGIC, sizeof(t.magic)) != 0)
        return FL_OK;
    *why = "its footer is damaged";
    if (t.footer_offset < lo || t.footer_offset > end ||
        t.footer_bytes != end - t.footer_offset ||
        t.footer_bytes < sizeof(c->totals) || t.footer_bytes % FL_CACHE_ALIGN ||
        fl_sum_of(c->map + t.footer_offset, t.footer_bytes) != t.footer_sum)
        return FL_OK;
    return read_footer(c, lo, t.footer_bytes, why);
}

/* Maps what is open. An empty file has nothing to map. */
static fl_status map_file(fl_cache *c, int fd)
{
    struct stat st;
    void *p;

    if (fstat(fd, &st) != 0)
        FL_FAIL(FL_ERR_IO, "cannot look at the data cache %s: %s; delete it",
                c->path, strerror(errno));
    if (st.st_size <= 0 || !S_ISREG(st.st_mode))
        return FL_OK;
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        FL_FAIL(FL_ERR_IO,
                "cannot map the data cache %s: %s; train without a cache",
                c->path, strerror(errno));
    c->map = p;
    c->map_bytes = (size_t)st.st_size;
    return FL_OK;
}

/* *missing when there is no such file. A pipe of that name, where nobody may
   ever write, is not waited for. */
static fl_status map_path(fl_cache *c, bool *missing)
{
    int fd = open(c->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    fl_status st;

    *missing = fd < 0 && (errno == ENOENT || errno == ENOTDIR);
    if (*missing)
        return FL_OK;
    if (fd < 0)
        FL_FAIL(FL_ERR_IO,
                "cannot open the data cache %s: %s; check its permissions and "
                "the limit on open files (ulimit -n)",
                c->path, strerror(errno));
    st = map_file(c, fd);
    close(fd);
    return st;
}

/* *fits when the file is there and is the one that is wanted. */
static fl_status load(fl_cache *c, const fl_cache_head *want, bool *fits)
{
    const char *why;
    bool missing;

    *fits = false;
    FL_TRY(map_path(c, &missing));
    if (missing)
        return FL_OK;
    why = header_differs(c, want);
    if (!why)
        FL_TRY(read_end(c, want->bytes, &why));
    *fits = !why;
    if (why)
        FL_INFO("data", "cache=%s is not used: %s", c->path, why);
    return FL_OK;
}

fl_status fl_cache_open(fl_cache **out, const char *directory,
                        const fl_cache_key *k, const fl_schema *s)
{
    fl_str path = { 0 };
    fl_cache_head *want;
    fl_cache *c;
    fl_status st;
    bool fits = false;

    FL_TRY(fl_cache_check_machine());
    c = fl_alloc(sizeof(*c));
    fl_cache_add_path(&path, directory, k);
    c->schema = s;
    c->path = fl_str_take(&path);
    want = fl_cache_header_new(k, s);
    st = load(c, want, &fits);
    fl_free(want);
    if (!fits) {
        fl_cache_close(c);
        c = NULL;
    }
    if (!st)
        *out = c;
    return st;
}

void fl_cache_close(fl_cache *c)
{
    if (!c)
        return;
    if (c->map)
        munmap((void *)(uintptr_t)c->map, c->map_bytes);
    fl_data_free(c->chunks, c->totals.chunks * sizeof(*c->chunks));
    fl_free(c->path);
    fl_free(c);
}

size_t fl_cache_chunks(const fl_cache *c)
{
    return (size_t)c->totals.chunks;
}

uint64_t fl_cache_chunk_records(const fl_cache *c, size_t i)
{
    FL_ASSERT(i < c->totals.chunks);
    return c->chunks[i].records;
}

uint64_t fl_cache_records(const fl_cache *c)
{
    return c->totals.records;
}

uint64_t fl_cache_lines(const fl_cache *c)
{
    return c->totals.lines;
}

uint64_t fl_cache_bad_lines(const fl_cache *c)
{
    return c->totals.bad_lines;
}

/* --- a chunk ------------------------------------------------------------- */

/* A chunk on its way into columns. */
typedef struct reading {
    const fl_cache *cache;
    size_t chunk;
    size_t n_rows;
    const char *at; /* next section in the map */
    fl_columns *to;
    fl_layers_sum sum;
} reading;

static fl_status damaged(const reading *r, const char *what)
{
    FL_FAIL(FL_ERR_CORRUPT,
            "data cache %s: chunk %zu of %" PRIu64 " is damaged: %s; delete "
            "the file and it is made again",
            r->cache->path, r->chunk, r->cache->totals.chunks, what);
}

static size_t counts_bytes(const reading *r, const fl_slot *slot)
{
    return slot->width ? 0 : fl_cache_padded(r->n_rows * sizeof(uint32_t));
}

/* Reads the number of values of each column. Together they must take the bytes
   that the chunk has: none of them can lead behind it afterwards. A map has
   less than 2^48 bytes, so the sum over 4096 slots cannot overflow. */
static fl_status read_sizes(reading *r, uint64_t chunk_bytes)
{
    const fl_schema *s = r->cache->schema;
    uint64_t head = fl_cache_padded(s->n_slots * sizeof(uint64_t));
    uint64_t need = head;

    if (head > chunk_bytes)
        return damaged(r, "it is too short for its slots");
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const fl_slot *slot = &s->slots[i];
        uint64_t n;

        memcpy(&n, r->at + i * sizeof(n), sizeof(n));
        if (n > chunk_bytes / fl_slot_bytes(slot) ||
            (slot->width && n != (uint64_t)r->n_rows * slot->width))
            return damaged(r, "a number of values is wrong");
        need +=
            counts_bytes(r, slot) + fl_cache_padded(n * fl_slot_bytes(slot));
        r->to->cols[i].n_values = n;
    }
    if (need != chunk_bytes)
        return damaged(r, "its columns do not fill it");
    fl_sum_add(&r->sum, r->at, head);
    r->at += head;
    return FL_OK;
}

/* Counts become offsets, two steps at a time: that halves the chain of sums,
   each of which waits for the one before. */
static int64_t add_up(int64_t *offsets, const uint32_t *counts, size_t n)
{
    int64_t sum = 0;
    size_t i = 0;

    for (; i + 2 <= n; i += 2) {
        int64_t first = counts[i], both = first + counts[i + 1];

        offsets[i] = sum;
        offsets[i + 1] = sum + first;
        sum += both;
    }
    for (; i < n; i++) {
        offsets[i] = sum;
        sum += counts[i];
    }
    offsets[n] = sum;
    return sum;
}

/* The sum cannot pass 2^44. */
static fl_status read_counts(reading *r, fl_column *col)
{
    size_t bytes = fl_cache_padded(r->n_rows * sizeof(uint32_t));
    int64_t sum = add_up(col->offsets, (const void *)r->at, r->n_rows);

    if (sum != (int64_t)col->n_values)
        return damaged(r, "its counts do not match its values");
    fl_sum_add(&r->sum, r->at, bytes);
    r->at += bytes;
    return FL_OK;
}

/* The programs that look ids up rely on their limit. */
static bool ids_are_below(const uint64_t *ids, size_t n, uint64_t height)
{
    uint64_t most = 0;

    for (size_t i = 0; i < n; i++)
        most = ids[i] > most ? ids[i] : most;
    return n == 0 || most < height;
}

static fl_status read_column(reading *r, uint32_t i)
{
    const fl_slot *slot = &r->cache->schema->slots[i];
    fl_column *col = &r->to->cols[i];
    size_t bytes = col->n_values * fl_slot_bytes(slot);

    FL_TRY(fl_columns_reserve(r->to, i, col->n_values, r->n_rows));
    if (slot->width == 0)
        FL_TRY(read_counts(r, col));
    fl_sum_copy(&r->sum, col->values, r->at, bytes);
    r->at += fl_cache_padded(bytes);
    if (slot->height &&
        !ids_are_below(col->values, col->n_values, slot->height))
        return damaged(r, "an id is beyond its limit");
    return FL_OK;
}

static fl_status read_chunk(reading *r, const fl_cache_chunk *k)
{
    FL_TRY(read_sizes(r, k->bytes));
    for (uint32_t i = 0; i < r->cache->schema->n_slots; i++)
        FL_TRY(read_column(r, i));
    if (fl_sum_end(&r->sum) != k->sum)
        return damaged(r, "its checksum is wrong");
    fl_columns_seal(r->to, r->n_rows);
    return FL_OK;
}

fl_status fl_cache_columns(const fl_cache *c, size_t i, fl_columns *out)
{
    reading r = { .cache = c, .chunk = i, .to = out };

    FL_ASSERT(i < c->totals.chunks);
    r.n_rows = (size_t)c->chunks[i].records;
    r.at = c->map + c->chunks[i].offset;
    fl_sum_init(&r.sum);
    return read_chunk(&r, &c->chunks[i]);
}

/* The copy is not for the sum alone: packing from the map would trust counts
   that a hostile writer may change after they were checked. */
fl_status fl_cache_rows(const fl_cache *c, size_t i, fl_records *to)
{
    fl_columns columns;
    fl_status st;

    fl_columns_init(&columns, c->schema);
    st = fl_cache_columns(c, i, &columns);
    if (!st)
        st = fl_columns_pack(&columns, 0, columns.n_rows, to);
    fl_columns_release(&columns);
    return st;
}
