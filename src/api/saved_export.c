/* saved_export.c - all of a model in one safetensors file, for others.
 *
 * The columns of a table lie in several files and become one. First all tensors
 * are listed, then their bytes are put, from where they are mapped. */
#include <string.h>

#include "api/saved.h"
#include "base/arena.h"
#include "ckpt/dense.h"

typedef struct piece {
    const void *bytes;
    size_t n;
} piece;

/* A tensor of the file to be, and where its bytes are. */
typedef struct exporting {
    const fl_saved *s;
    fl_arena arena;
    FL_VEC(fl_st_tensor) tensors;
    FL_VEC(size_t) first_piece; /* of each tensor */
    FL_VEC(piece) pieces;
    FL_VEC(fl_saved_rows *) tables;
} exporting;

static void add_tensor(exporting *e, const char *name, fl_st_type type,
                       const fl_shape *shape)
{
    fl_st_tensor t = { .name = name, .type = type, .shape = *shape };

    fl_vec_push(&e->tensors, t);
    fl_vec_push(&e->first_piece, e->pieces.len);
}

static void add_piece(exporting *e, const void *bytes, uint64_t n)
{
    if (n)
        fl_vec_push(&e->pieces, ((piece){ bytes, (size_t)n }));
}

static void add_dense(exporting *e)
{
    const fl_st_tensor *t;

    for (size_t i = 0; e->s->dense && (t = fl_st_at(e->s->dense, i)); i++) {
        add_tensor(e, t->name, t->type, &t->shape);
        add_piece(e, fl_st_bytes(e->s->dense, t), t->bytes);
    }
}

/* --- columns -------------------------------------------------------------- */

static uint64_t count_keys(const fl_saved_rows *r, size_t kind)
{
    uint64_t n = 0;

    for (size_t i = 0; i < r->parts.len; i++)
        n += r->parts.data[i].groups[kind].n;
    return n;
}

static const char *column_name(exporting *e, const char *table, size_t kind,
                               const char *name)
{
    return fl_arena_printf(&e->arena, "%s.%s%s", table,
                           fl_saved_kinds[kind].prefix, name);
}

static void add_keys(exporting *e, const char *table, const fl_saved_rows *r,
                     size_t kind)
{
    fl_shape shape = { 1, { (int64_t)count_keys(r, kind) } };

    add_tensor(e, column_name(e, table, kind, "key"), FL_ST_U64, &shape);
    for (size_t i = 0; i < r->parts.len; i++) {
        const fl_saved_group *g = &r->parts.data[i].groups[kind];

        add_piece(e, g->keys, g->n * sizeof(*g->keys));
    }
}

/* Field f of the first file that has keys; in all others it is the same one. */
static void add_field(exporting *e, const char *table, const fl_saved_rows *r,
                      size_t kind, const fl_saved_field *field)
{
    fl_shape shape = { 2, { (int64_t)count_keys(r, kind), field->len } };

    add_tensor(e, column_name(e, table, kind, field->name), FL_ST_F32, &shape);
    for (size_t i = 0; i < r->parts.len; i++) {
        const fl_saved_group *g = &r->parts.data[i].groups[kind];

        for (uint32_t f = 0; f < g->n_fields; f++)
            if (!strcmp(g->fields[f].name, field->name))
                add_piece(e, g->fields[f].values,
                          g->n * field->len * sizeof(float));
    }
}

static const fl_saved_group *first_group(const fl_saved_rows *r, size_t kind)
{
    for (size_t i = 0; i < r->parts.len; i++)
        if (r->parts.data[i].groups[kind].n)
            return &r->parts.data[i].groups[kind];
    return NULL;
}

/* All files of a table have the same columns, or they are of two tables. */
static fl_status check_columns(const char *table, const fl_saved_rows *r,
                               size_t kind, const fl_saved_group *first)
{
    for (size_t i = 0; i < r->parts.len; i++) {
        const fl_saved_group *g = &r->parts.data[i].groups[kind];
        bool same = !g->n || g->n_fields == first->n_fields;

        for (uint32_t f = 0; g->n && same && f < g->n_fields; f++)
            same = g->fields[f].len == first->fields[f].len &&
                   !strcmp(g->fields[f].name, first->fields[f].name);
        if (!same)
            FL_FAIL(FL_ERR_CORRUPT,
                    "the files of table %s do not have the same columns",
                    table);
    }
    return FL_OK;
}

static fl_status add_table(exporting *e, const char *table,
                           const fl_saved_rows *r)
{
    for (size_t k = 0; k < FL_SAVED_KINDS; k++) {
        const fl_saved_group *g = first_group(r, k);

        if (!g)
            continue;
        FL_TRY(check_columns(table, r, k, g));
        add_keys(e, table, r, k);
        for (uint32_t f = 0; f < g->n_fields; f++)
            add_field(e, table, r, k, &g->fields[f]);
    }
    return FL_OK;
}

static fl_status add_tables(exporting *e)
{
    const fl_manifest *m = &e->s->version->manifest;

    for (size_t i = 0; i < m->tables.len; i++) {
        const char *name = m->tables.data[i].name;
        fl_saved_rows *r = NULL;

        FL_TRY(fl_saved_rows_open(&r, e->s, name));
        fl_vec_push(&e->tables, r);
        FL_TRY(add_table(e, name, r));
    }
    return FL_OK;
}

/* --- the file ------------------------------------------------------------- */

static fl_status put_tensor(const exporting *e, fl_st_writer *w, size_t i)
{
    size_t end =
        i + 1 < e->tensors.len ? e->first_piece.data[i + 1] : e->pieces.len;

    for (size_t k = e->first_piece.data[i]; k < end; k++)
        FL_TRY(fl_st_writer_put(w, i, e->pieces.data[k].bytes,
                                e->pieces.data[k].n));
    return FL_OK;
}

static fl_status write_file(exporting *e, const char *path)
{
    uint64_t *sums =
        fl_arena_alloc(&e->arena, (e->tensors.len + 1) * sizeof(*sums));
    fl_st_writer *w = NULL;
    uint64_t bytes;
    fl_status st = FL_OK;

    FL_TRY(fl_st_writer_open(&w, path, e->tensors.data, e->tensors.len));
    for (size_t i = 0; !st && i < e->tensors.len; i++)
        st = put_tensor(e, w, i);
    if (!st)
        return fl_st_writer_commit(w, &bytes, sums);
    fl_st_writer_drop(w);
    return st;
}

fl_status fl_saved_export(const fl_saved *s, const char *path)
{
    exporting e = { .s = s };
    const fl_manifest *m = &s->version->manifest;
    fl_status st;

    if (m->kind == FL_MANIFEST_DELTA)
        FL_FAIL(FL_ERR_INVAL,
                "version %s is a delta of %s and not a whole model; make one "
                "of it with `flotilla model merge` and export that",
                m->id, m->base);
    fl_arena_init(&e.arena, 4096);
    add_dense(&e);
    st = add_tables(&e);
    if (!st)
        st = write_file(&e, path);
    for (size_t i = 0; i < e.tables.len; i++)
        fl_saved_rows_close(e.tables.data[i]);
    fl_vec_release(&e.tables);
    fl_vec_release(&e.pieces);
    fl_vec_release(&e.first_piece);
    fl_vec_release(&e.tensors);
    fl_arena_release(&e.arena);
    return st;
}
