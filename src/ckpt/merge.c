/* merge.c - a chain of deltas becomes one whole version.
 *
 * A table is loaded link by link, the base first, and saved as a cut of what
 * came out: so a merged version is what a load of the chain gives, by the same
 * code. All other files of the newest link are whole and are copied, with the
 * sums they have: a copy that went wrong does not verify. */
#include "ckpt/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/file_writer.h"
#include "base/hash.h"
#include "ckpt/table_file.h"

#define COPY_BYTES ((size_t)1 << 20)

typedef struct merging {
    FL_VEC(fl_model_version *) chain; /* the newest first */
    fl_model_version *to;
    fl_manifest manifest;
} merging;

static fl_status open_chain(merging *m, const char *path)
{
    fl_model_version *v = NULL;

    FL_TRY(fl_version_open(&v, path));
    fl_vec_push(&m->chain, v);
    while (v->manifest.kind == FL_MANIFEST_DELTA) {
        FL_TRY(fl_version_open_base(&v, v));
        fl_vec_push(&m->chain, v);
    }
    return FL_OK;
}

/* --- tables --------------------------------------------------------------- */

static fl_status load_links(const merging *m, const char *name, fl_table *t)
{
    const fl_table_load_options load = { .last = FL_SHARDS - 1,
                                         .is_verified = true };

    for (size_t i = m->chain.len; i-- > 0;) {
        const fl_model_version *v = m->chain.data[i];

        if (fl_manifest_find_table(&v->manifest, name))
            FL_TRY(fl_table_file_load(t, v, name, &load));
    }
    return FL_OK;
}

static fl_status save_rows(merging *m, fl_table *t)
{
    fl_table_save_options save = {
        .last = FL_SHARDS - 1,
        .values_only = m->manifest.kind == FL_MANIFEST_INFERENCE,
    };
    fl_status st;

    FL_TRY(fl_table_cut_begin(&save.cut, t, NULL));
    st = fl_table_file_write(m->to, &m->manifest, &save);
    fl_table_cut_end(save.cut);
    return st;
}

static fl_status merge_table(merging *m, const fl_manifest_table *table)
{
    fl_table_config config;
    fl_table *t = NULL;
    fl_status st;

    FL_TRY(fl_table_config_parse(&config, table->name, table->settings,
                                 table->seed));
    FL_TRY(fl_table_create(&t, &config));
    st = load_links(m, table->name, t);
    if (!st)
        st = save_rows(m, t);
    fl_table_destroy(t);
    return fl_err_ctx(st, "table %s", table->name);
}

/* --- everything else ------------------------------------------------------ */

static bool is_of_table(const fl_manifest *m, const char *file)
{
    for (size_t i = 0; i < m->tables.len; i++)
        for (size_t k = 0; k < m->tables.data[i].n_files; k++)
            if (!strcmp(m->tables.data[i].files[k].file, file))
                return true;
    return false;
}

static fl_status copy_bytes(int fd, const char *from, fl_file_writer *w)
{
    char *bytes = fl_try_alloc(COPY_BYTES);
    fl_status st = FL_OK;
    ssize_t n;

    if (!bytes)
        FL_FAIL(FL_ERR_NOMEM, "no memory to copy %s", from);
    do {
        n = read(fd, bytes, COPY_BYTES);
        if (n > 0)
            st = fl_file_writer_add(w, bytes, (size_t)n);
        else if (n < 0 && errno != EINTR)
            st = fl_file_failed("read", from, errno);
    } while (!st && n != 0);
    fl_data_free(bytes, COPY_BYTES);
    return st;
}

static fl_status copy_to(int fd, const char *from, const char *to)
{
    fl_file_writer *w = NULL;
    fl_status st;

    FL_TRY(fl_file_writer_open(&w, to));
    st = copy_bytes(fd, from, w);
    if (!st)
        return fl_file_writer_commit(w);
    fl_file_writer_drop(w);
    return st;
}

static fl_status copy_file(const char *from, const char *to)
{
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    fl_status st;

    if (fd < 0)
        return fl_file_failed("open", from, errno);
    st = copy_to(fd, from, to);
    close(fd);
    return st;
}

/* The folder that a file of the version needs. */
static fl_status make_folder(const merging *m, const char *name)
{
    const char *slash = strrchr(name, '/');
    fl_str folder = { 0 };
    fl_status st;

    if (!slash)
        return FL_OK;
    fl_str_addf(&folder, "%.*s", (int)(slash - name), name);
    st = fl_version_folder(m->to, folder.data);
    fl_str_release(&folder);
    return st;
}

static void note_file(merging *m, const fl_manifest_file *f)
{
    uint64_t *sums;

    if (!f->has_tensors) {
        fl_manifest_add_file(&m->manifest, f->name, f->bytes, f->xxh3);
        return;
    }
    sums = fl_alloc((f->n_tensors + 1) * sizeof(*sums));
    for (size_t i = 0; i < f->n_tensors; i++)
        sums[i] = f->tensors[i].xxh3;
    fl_manifest_add_tensors(&m->manifest, f, sums);
    fl_free(sums);
}

static fl_status copy_one(merging *m, const fl_model_version *v,
                          const fl_manifest_file *f)
{
    char *from = fl_version_file(v, f->name);
    char *to = fl_version_file(m->to, f->name);
    fl_status st = make_folder(m, f->name);

    if (!st)
        st = copy_file(from, to);
    if (!st)
        note_file(m, f);
    fl_free(from);
    fl_free(to);
    return st;
}

static fl_status copy_files(merging *m)
{
    const fl_model_version *v = m->chain.data[0];

    for (size_t i = 0; i < v->manifest.files.len; i++)
        if (!is_of_table(&v->manifest, v->manifest.files.data[i].name))
            FL_TRY(copy_one(m, v, &v->manifest.files.data[i]));
    return FL_OK;
}

/* --- all of it ------------------------------------------------------------ */

static void copy_words(merging *m, const fl_manifest *from)
{
    fl_manifest *to = &m->manifest;

    to->kind = from->kind == FL_MANIFEST_INFERENCE ? FL_MANIFEST_INFERENCE
                                                   : FL_MANIFEST_FULL;
    to->mode = fl_manifest_text(to, from->mode);
    to->step = from->step;
    to->seed = from->seed;
    to->main_version = from->main_version;
    to->startup_version = from->startup_version;
    fl_manifest_set_inference(to, from->feeds, from->n_feeds, from->targets,
                              from->n_targets);
    if (from->passes)
        to->passes = fl_manifest_text(to, from->passes);
}

static fl_status verify_chain(const merging *m)
{
    for (size_t i = 0; i < m->chain.len; i++)
        FL_TRY(fl_version_verify(m->chain.data[i]));
    return FL_OK;
}

static fl_status merge(merging *m, const char *path, const char *dir)
{
    const fl_manifest *newest;

    FL_TRY(open_chain(m, path));
    FL_TRY(verify_chain(m));
    newest = &m->chain.data[0]->manifest;
    FL_TRY(fl_version_begin(&m->to, dir, NULL));
    copy_words(m, newest);
    FL_TRY(copy_files(m));
    for (size_t i = 0; i < newest->tables.len; i++)
        FL_TRY(merge_table(m, &newest->tables.data[i]));
    return fl_version_commit(m->to, &m->manifest);
}

fl_status fl_version_merge(const char *path, const char *dir)
{
    merging m = { 0 };
    fl_status st;

    fl_manifest_init(&m.manifest, FL_MANIFEST_FULL);
    st = merge(&m, path, dir);
    fl_version_close(m.to);
    for (size_t i = 0; i < m.chain.len; i++)
        fl_version_close(m.chain.data[i]);
    fl_vec_release(&m.chain);
    fl_manifest_release(&m.manifest);
    return fl_err_ctx(st, "merging %s", path);
}
