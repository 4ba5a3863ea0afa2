/* model.c - a directory that PaddlePaddle 1.8 saved.
 *
 * What is to be there follows from the program: its persistent variables. A
 * directory without one has a variable per file, whose path below the directory
 * is its name. */
#include "paddle18/model.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define PROGRAM_FILE "__model__"
#define PARAMS_FILE "__params__"
#define PROGRAM_BYTES_MAX ((size_t)64 << 20)

/* Names may have slashes, which make folders. */
#define FOLDER_DEPTH_MAX 8

#define WRONG_BYTES_MAX 700

/* A file in memory, as long as the model lives. */
typedef struct mapping {
    void *bytes;
    size_t len;
} mapping;

struct fl_p18_model {
    const char *dir;
    fl_arena arena;
    char *desc_bytes;
    fl_p18_program_desc desc;
    fl_p18_program program;
    FL_VEC(mapping) maps;
    FL_VEC(fl_p18_var) vars;
    /* Variables that are wrong, all told at once. */
    fl_str wrong;
    size_t n_untold;
};

static const char *path_in(fl_p18_model *m, const char *name)
{
    return fl_arena_printf(&m->arena, "%s/%s", m->dir, name);
}

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* --- bytes ---------------------------------------------------------------- */

static fl_status map_descriptor(fl_p18_model *m, int fd, const char *path,
                                fl_p18_bytes *out)
{
    mapping map = { 0 };
    struct stat st;

    if (fstat(fd, &st) != 0)
        return fl_file_failed("read", path, errno);
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        FL_FAIL(FL_ERR_CORRUPT, "%s is no file with something in it", path);
    map.len = (size_t)st.st_size;
    map.bytes = mmap(NULL, map.len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map.bytes == MAP_FAILED)
        return fl_file_failed("map", path, errno);
    fl_vec_push(&m->maps, map);
    *out = (fl_p18_bytes){ map.bytes, map.bytes,
                           (const uint8_t *)map.bytes + map.len };
    return FL_OK;
}

static fl_status map_file(fl_p18_model *m, const char *path, fl_p18_bytes *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    fl_status st;

    if (fd < 0)
        return fl_file_failed("open", path, errno);
    st = map_descriptor(m, fd, path, out);
    close(fd);
    return st;
}

/* --- the program ---------------------------------------------------------- */

static fl_status read_program(fl_p18_model *m, const char *path,
                              const fl_op_set *ops)
{
    size_t len;
    fl_status st;

    FL_TRY(fl_file_read(path, PROGRAM_BYTES_MAX, &m->desc_bytes, &len));
    st = fl_wire_read(&fl_p18_program_message, m->desc_bytes, len, &m->arena,
                      &m->desc);
    if (!st)
        st = fl_p18_translate(&m->desc, ops, &m->program);
    return fl_err_ctx(st, "%s", path);
}

static fl_status open_program(fl_p18_model *m, const fl_p18_args *args,
                              const fl_op_set *ops)
{
    const char *path = path_in(m, args->program ? args->program : PROGRAM_FILE);

    if (!args->program && !is_file(path))
        return FL_OK;
    return read_program(m, path, ops);
}

/* --- which variables ------------------------------------------------------ */

static void add_var(fl_p18_model *m, const char *name)
{
    fl_vec_push(&m->vars, ((fl_p18_var){ .name = name }));
}

static void names_of_program(fl_p18_model *m)
{
    const fl_p18_block_desc *d =
        FL_P18_AT(fl_p18_block_desc, m->desc.blocks, 0);

    for (size_t i = 0; i < d->vars.n; i++) {
        const fl_p18_var_desc *v = FL_P18_AT(fl_p18_var_desc, d->vars, i);

        if (fl_p18_is_saved(v))
            add_var(m, v->name);
    }
}

/* Every file below the folder; `prefix` ends with a slash or is empty. */
static fl_status names_of_folder(fl_p18_model *m, const char *prefix, int depth)
{
    const char *path = path_in(m, prefix);
    DIR *d = opendir(path);
    fl_status st = FL_OK;

    if (!d)
        return fl_file_failed("list", path, errno);
    for (struct dirent *e; !st && (e = readdir(d));) {
        const char *name;

        if (e->d_name[0] == '.')
            continue;
        name = fl_arena_printf(&m->arena, "%s%s", prefix, e->d_name);
        if (is_file(path_in(m, name)))
            add_var(m, name);
        else if (depth < FOLDER_DEPTH_MAX)
            st = names_of_folder(m, fl_arena_printf(&m->arena, "%s/", name),
                                 depth + 1);
    }
    closedir(d);
    return st;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const fl_p18_var *)a)->name, ((const fl_p18_var *)b)->name);
}

/* In the order that one file has them in. */
static fl_status find_names(fl_p18_model *m, const fl_p18_args *args,
                            bool is_one_file)
{
    for (size_t i = 0; i < args->n_names; i++)
        add_var(m, args->names[i]);
    if (args->n_names)
        return FL_OK;
    if (m->program.program)
        names_of_program(m);
    else if (!is_one_file)
        FL_TRY(names_of_folder(m, "", 0));
    else
        FL_FAIL(FL_ERR_INVAL,
                "%s has all variables in one file and no program that names "
                "them; give their names in the order of the file (that of the "
                "alphabet)",
                m->dir);
    if (m->vars.len)
        qsort(m->vars.data, m->vars.len, sizeof(*m->vars.data), by_name);
    return FL_OK;
}

/* --- their values --------------------------------------------------------- */

/* Keeps the sentence of the last error for the end. */
static void note_wrong(fl_p18_model *m)
{
    const char *why = fl_last_error();

    if (m->wrong.len + strlen(why) > WRONG_BYTES_MAX && m->wrong.len) {
        m->n_untold++;
        return;
    }
    fl_str_addf(&m->wrong, "%s%s", m->wrong.len ? "; " : "", why);
}

/* Against the variable of the program that has its name, if there is one. */
static fl_status check_fit(const fl_p18_model *m, const fl_p18_var *v)
{
    char a[FL_SHAPE_TEXT_MAX], b[FL_SHAPE_TEXT_MAX];
    const fl_tensor *got = &v->value.tensor;
    const fl_var *var;

    if (!m->program.program)
        return FL_OK;
    var = fl_block_find_var(fl_program_main(m->program.program), v->name);
    if (!var || (var->meta.dtype == got->dtype &&
                 fl_shape_matches(&var->meta.shape, &got->shape)))
        return FL_OK;
    FL_FAIL(FL_ERR_CORRUPT,
            "variable %s is %s%s in the program and %s%s in "
            "its file",
            v->name, fl_dtype_text(var->meta.dtype),
            fl_shape_text(&var->meta.shape, a), fl_dtype_text(got->dtype),
            fl_shape_text(&got->shape, b));
}

/* A program here reads a whole parameter where theirs had rows on servers. */
static fl_status check_no_program(const fl_p18_model *m, const fl_p18_var *v)
{
    if (m->program.program)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "variable %s holds %" PRIu64
                " rows of a table (SelectedRows), where its program has a "
                "whole parameter; import the folder without %s, and load the "
                "table with a program that has one of that name",
                v->name, v->value.n_rows, PROGRAM_FILE);
    return FL_OK;
}

/* Nothing says what a file of a folder without a program holds: what does not
   read as a tensor may be rows of a table. */
static fl_status read_value(fl_p18_model *m, fl_p18_bytes *b, fl_p18_var *v)
{
    fl_status st = fl_p18_read_tensor(b, v->name, &m->arena, &v->value);
    fl_err why;

    if (!st)
        return check_fit(m, v);
    fl_err_save(&why, st);
    if (!fl_p18_read_rows(b, v->name, &m->arena, &v->value))
        return check_no_program(m, v);
    return fl_err_restore(&why);
}

static fl_status read_one_file(fl_p18_model *m, const char *path)
{
    fl_p18_bytes b = { 0 };

    FL_TRY(map_file(m, path, &b));
    for (size_t i = 0; i < m->vars.len; i++)
        FL_TRY(fl_err_ctx(read_value(m, &b, &m->vars.data[i]), "%s", path));
    if (b.at != b.end)
        FL_FAIL(FL_ERR_CORRUPT,
                "%s has %zu bytes behind its %zu variables: it holds others "
                "than are asked for",
                path, (size_t)(b.end - b.at), m->vars.len);
    return FL_OK;
}

static fl_status read_own_file(fl_p18_model *m, fl_p18_var *v)
{
    fl_p18_bytes b = { 0 };

    FL_TRY(map_file(m, path_in(m, v->name), &b));
    FL_TRY(read_value(m, &b, v));
    if (b.at != b.end)
        FL_FAIL(FL_ERR_CORRUPT, "variable %s: its file has %zu bytes too many",
                v->name, (size_t)(b.end - b.at));
    return FL_OK;
}

static fl_status read_files(fl_p18_model *m)
{
    fl_status st = FL_OK;

    for (size_t i = 0; i < m->vars.len; i++) {
        fl_status one = read_own_file(m, &m->vars.data[i]);

        if (one)
            note_wrong(m);
        st = st ? st : one;
    }
    if (!st)
        return FL_OK;
    if (m->n_untold)
        fl_str_addf(&m->wrong, "; and %zu more", m->n_untold);
    FL_FAIL(st, "%s: %s", m->dir, m->wrong.data);
}

/* --- the model ------------------------------------------------------------ */

static fl_status open_model(fl_p18_model *m, const fl_p18_args *args,
                            const fl_op_set *ops)
{
    const char *params = path_in(m, args->params ? args->params : PARAMS_FILE);
    bool is_one_file = args->params || is_file(params);

    FL_TRY(open_program(m, args, ops));
    FL_TRY(find_names(m, args, is_one_file));
    FL_TRY(is_one_file ? read_one_file(m, params) : read_files(m));
    if (!m->vars.len && !m->program.program)
        FL_FAIL(FL_ERR_NOTFOUND, "%s has neither variables nor a program (%s)",
                m->dir, PROGRAM_FILE);
    return FL_OK;
}

fl_status fl_p18_open(fl_p18_model **out, const char *dir,
                      const fl_p18_args *args, const fl_op_set *ops)
{
    fl_p18_model *m = fl_alloc(sizeof(*m));
    fl_status st;

    fl_arena_init(&m->arena, 64 << 10);
    m->dir = fl_arena_strdup(&m->arena, dir);
    st = open_model(m, args, ops);
    if (st)
        fl_p18_close(m);
    else
        *out = m;
    return st;
}

void fl_p18_close(fl_p18_model *m)
{
    if (!m)
        return;
    fl_p18_program_release(&m->program);
    for (size_t i = 0; i < m->maps.len; i++)
        munmap(m->maps.data[i].bytes, m->maps.data[i].len);
    fl_vec_release(&m->maps);
    fl_vec_release(&m->vars);
    fl_str_release(&m->wrong);
    fl_free(m->desc_bytes);
    fl_arena_release(&m->arena);
    fl_free(m);
}

const fl_p18_program *fl_p18_program_of(const fl_p18_model *m)
{
    return &m->program;
}

const fl_p18_var *fl_p18_var_at(const fl_p18_model *m, size_t i)
{
    return i < m->vars.len ? &m->vars.data[i] : NULL;
}
