/* dataset.c - setting up a dataset, and passes over it.
 *
 * Most settings are only kept; a pass begins with them as they are then. The
 * parser is made when it is first needed, since slots, format and files may
 * come in any order, and anew after one of them has changed.
 */
#include <poll.h>

#include "data/dataset/dataset_inside.h"
#include "base/args.h"
#include "base/timeline.h"

#define DEFAULT_FORMAT "multislot"
#define DEFAULT_BATCH 32

#define QUEUE_KIND "QueueDataset"
#define MEMORY_KIND "InMemoryDataset"

/* Longest wait for the first line of a pipe command. */
#define SAMPLE_WAIT_NS (60 * UINT64_C(1000000000))
#define SAMPLE_POLL_MS 100

/* --- new and free -------------------------------------------------------- */

static fl_input *new_input(const fl_conf *conf)
{
    fl_input *in = fl_alloc(sizeof(*in));

    in->format = fl_strdup(DEFAULT_FORMAT);
    in->seed = (uint64_t)conf->seed;
    return in;
}

static void free_input(fl_input *in)
{
    fl_parser_free(in->parser);
    fl_paths_release(&in->paths);
    fl_schema_release(&in->wanted);
    fl_free(in->shapes);
    fl_free(in->format);
    fl_free(in->options);
    fl_free(in->pipe_command);
    fl_free(in->cache);
    fl_free(in);
}

fl_status fl_dataset_make(fl_dataset **out, const fl_conf *conf,
                          const char *kind)
{
    bool in_memory = strcmp(kind, MEMORY_KIND) == 0;
    fl_dataset *d;

    if (!in_memory && strcmp(kind, QUEUE_KIND) != 0)
        FL_FAIL(FL_ERR_NOTFOUND,
                "no dataset is called %s; there are " QUEUE_KIND
                " and " MEMORY_KIND,
                kind);
    d = fl_alloc(sizeof(*d));
    d->in_memory = in_memory;
    d->conf = conf;
    d->input = new_input(conf);
    d->batch_size = DEFAULT_BATCH;
    d->n_threads = 1;
    fl_mutex_init(&d->mu);
    fl_cond_init(&d->left);
    *out = d;
    return FL_OK;
}

static void free_dispatcher(const fl_dispatcher *dispatcher)
{
    if (dispatcher->free)
        dispatcher->free(dispatcher->arg);
}

void fl_dataset_free(fl_dataset *d)
{
    if (!d)
        return;
    fl_dataset_end(d);
    fl_preload_cancel(d->preload);
    fl_loaded_free(d->loaded);
    free_input(d->input);
    free_dispatcher(&d->dispatcher);
    fl_cond_release(&d->left);
    fl_mutex_release(&d->mu);
    fl_free(d);
}

/* --- settings ------------------------------------------------------------ */

fl_status fl_dataset_check_idle(const fl_dataset *d, const char *what)
{
    if (d->preload)
        FL_FAIL(FL_ERR_INVAL,
                "fl_dataset_%s: files are being preloaded; call "
                "fl_dataset_wait_preload_done first",
                what);
    if (d->n_consumers)
        FL_FAIL(FL_ERR_INVAL,
                "fl_dataset_%s: a pass is under way; call fl_dataset_end first",
                what);
    return FL_OK;
}

static void set_text(char **field, const char *text)
{
    char *copy = text && *text ? fl_strdup(text) : NULL;

    fl_free(*field);
    *field = copy;
}

fl_status fl_dataset_set_filelist(fl_dataset *d, const char *const *paths,
                                  size_t n_paths)
{
    fl_paths found = { 0 };
    fl_status st;

    FL_TRY(fl_dataset_check_idle(d, "set_filelist"));
    st = fl_paths_expand(paths, n_paths, &found);
    if (st) {
        fl_paths_release(&found);
        return st;
    }
    d->n_records = 0;
    fl_paths_release(&d->input->paths);
    d->input->paths = found;
    d->input->is_listed = true;
    d->input->is_stale = true;
    return FL_OK;
}

fl_status fl_dataset_set_dispatcher(fl_dataset *d,
                                    const fl_dispatcher *dispatcher)
{
    fl_status st = fl_dataset_check_idle(d, "dispatch_files");

    if (st) {
        free_dispatcher(dispatcher);
        return st;
    }
    free_dispatcher(&d->dispatcher);
    d->dispatcher = *dispatcher;
    d->dispatched_from = d->epoch;
    return FL_OK;
}

void fl_dataset_set_batch_size(fl_dataset *d, size_t n)
{
    d->batch_size = n;
}

void fl_dataset_set_thread(fl_dataset *d, int n)
{
    d->n_threads = n;
}

int fl_dataset_threads(const fl_dataset *d)
{
    return d->n_threads;
}

fl_status fl_dataset_set_shaped_slots(fl_dataset *d, const fl_slot *slots,
                                      const fl_shape *shapes, size_t n_slots)
{
    fl_input *in = d->input;
    fl_schema wanted;

    FL_TRY(fl_dataset_check_idle(d, "set_slots"));
    if (d->loaded)
        FL_FAIL(FL_ERR_INVAL,
                "fl_dataset_set_slots: the records in memory have other slots; "
                "call fl_dataset_release_memory first");
    FL_TRY(fl_schema_init(&wanted, slots, n_slots));
    fl_schema_release(&in->wanted);
    in->wanted = wanted;
    fl_free(in->shapes);
    in->shapes = NULL;
    if (shapes) {
        in->shapes = fl_alloc(n_slots * sizeof(*shapes));
        memcpy(in->shapes, shapes, n_slots * sizeof(*shapes));
    }
    in->is_stale = true;
    return FL_OK;
}

fl_status fl_dataset_set_slots(fl_dataset *d, const fl_slot *slots,
                               size_t n_slots)
{
    return fl_dataset_set_shaped_slots(d, slots, NULL, n_slots);
}

/* An unknown name is told here and not when the format is opened. */
static fl_status check_format(const char *spec)
{
    fl_parser_args args = { .spec = spec };
    char *name = fl_strdup(spec);
    fl_parser *none = NULL;
    bool found;

    name[strcspn(name, ":")] = '\0';
    found = fl_format_find(name) != NULL;
    fl_free(name);
    return found ? FL_OK : fl_parser_new(&none, &args);
}

fl_status fl_dataset_set_format(fl_dataset *d, const char *spec)
{
    FL_TRY(fl_dataset_check_idle(d, "set_format"));
    FL_TRY(check_format(spec));
    set_text(&d->input->format, spec);
    d->input->is_stale = true;
    return FL_OK;
}

fl_status fl_dataset_set_options(fl_dataset *d, const char *options)
{
    FL_TRY(fl_dataset_check_idle(d, "set_options"));
    set_text(&d->input->options, options);
    d->input->is_stale = true;
    return FL_OK;
}

void fl_dataset_set_pipe_command(fl_dataset *d, const char *command)
{
    bool none = command && strcmp(command, "cat") == 0;

    set_text(&d->input->pipe_command, none ? NULL : command);
    d->input->is_stale = true;
}

void fl_dataset_set_cache(fl_dataset *d, const char *directory)
{
    set_text(&d->input->cache, directory);
}

void fl_dataset_set_seed(fl_dataset *d, uint64_t seed)
{
    d->input->seed = seed;
    d->input->is_stale = true;
    d->n_shuffles = 0;
}

/* --- the parser ---------------------------------------------------------- */

/* Waits until a pipe has something, not for ever. */
static fl_status wait_for_text(const fl_source *s, uint64_t deadline_ns)
{
    struct pollfd fd = { .fd = fl_source_fd(s), .events = POLLIN };

    if (fl_now_ns() >= deadline_ns)
        FL_FAIL(FL_ERR_TIMEOUT,
                "%s: its first line, which tells the slots, did not come in "
                "%llu seconds; set the slots to do without",
                fl_source_path(s),
                (unsigned long long)(SAMPLE_WAIT_NS / 1000000000));
    (void)poll(&fd, 1, SAMPLE_POLL_MS);
    return FL_OK;
}

static fl_status next_text(fl_source *s, fl_text *text)
{
    uint64_t deadline_ns = fl_now_ns() + SAMPLE_WAIT_NS;
    fl_source_state state = FL_SOURCE_WAIT;

    while (state != FL_SOURCE_END && text->n_lines == 0) {
        FL_TRY(fl_source_next(s, text, &state));
        if (state == FL_SOURCE_WAIT)
            FL_TRY(wait_for_text(s, deadline_ns));
    }
    return FL_OK;
}

/* The first line, without its end; text stays empty when the file has none. */
static fl_status read_first_line(const char *path, const fl_source_options *o,
                                 fl_text *text)
{
    fl_source *s = NULL;
    fl_status st;

    FL_TRY(fl_source_open(&s, path, o));
    st = next_text(s, text);
    fl_source_close(s);
    if (!st && text->n_lines) {
        char *end = memchr(text->data, '\n', text->len);

        if (end > text->data && end[-1] == '\r')
            end--;
        *end = '\0';
    }
    return st;
}

/* Of the first file that is not empty. */
static fl_status read_sample(const fl_input *in, const fl_conf *conf,
                             fl_text *text)
{
    fl_source_options o = { .pipe_command = in->pipe_command,
                            .block_bytes = (size_t)conf->read_block_bytes,
                            .line_max = (size_t)conf->max_line_bytes };

    for (size_t i = 0; i < in->paths.len && text->n_lines == 0; i++)
        FL_TRY(read_first_line(in->paths.data[i], &o, text));
    return FL_OK;
}

static fl_status make_parser(const fl_input *in, const fl_conf *conf,
                             fl_parser **out)
{
    fl_text text = { 0 };
    fl_parser_args args = { .spec = in->format,
                            .options = in->options,
                            .wanted = in->wanted.slots,
                            .n_wanted = in->wanted.n_slots,
                            .empty_slots = conf->empty_slots,
                            .seed = in->seed };
    fl_status st = FL_OK;

    /* Wanted slots say all that the first line could. */
    if (in->wanted.n_slots == 0)
        st = read_sample(in, conf, &text);
    if (!st) {
        args.sample = text.n_lines ? text.data : NULL;
        st = fl_parser_new(out, &args);
    }
    fl_text_release(&text);
    return st;
}

static fl_status open_parser(fl_input *in, const fl_conf *conf)
{
    fl_parser *p = NULL;

    if (in->parser && !in->is_stale)
        return FL_OK;
    FL_TRY(make_parser(in, conf, &p));
    FL_ASSERT(!in->wanted.n_slots || p->schema.n_slots == in->wanted.n_slots);
    fl_parser_free(in->parser);
    in->parser = p;
    in->is_stale = false;
    return FL_OK;
}

fl_status fl_dataset_open_input(fl_dataset *d, const char *what, int n_threads)
{
    if (!d->input->is_listed)
        FL_FAIL(FL_ERR_INVAL,
                "fl_dataset_%s: the dataset has no files; call "
                "fl_dataset_set_filelist first",
                what);
    if (n_threads < 1 || n_threads > FL_PUMP_THREADS_MAX)
        FL_FAIL(FL_ERR_INVAL,
                "fl_dataset_%s: %d reading threads are not in 1..%d; call "
                "fl_dataset_set_thread first",
                what, n_threads, FL_PUMP_THREADS_MAX);
    return fl_err_ctx(open_parser(d->input, d->conf), "fl_dataset_%s", what);
}

/* Slots that the format has of itself come without shapes. */
void fl_input_shape_feeds(const fl_input *in, fl_columns *c)
{
    for (uint32_t i = 0; in->shapes && i < c->schema->n_slots; i++) {
        fl_shape *shape = &c->feeds[i].value.shape;
        int64_t n_rows = shape->dim[0];

        *shape = in->shapes[i];
        shape->dim[0] = n_rows;
    }
}

const fl_slot *fl_dataset_slots(const fl_dataset *d, size_t *n_slots)
{
    const fl_input *in = d->input;
    const fl_schema *s = NULL;
    bool is_idle = !d->preload && !d->n_consumers;

    if (d->loaded)
        s = &d->loaded->schema;
    else if (in->wanted.n_slots)
        s = &in->wanted;
    else if (!is_idle || !open_parser(d->input, d->conf))
        s = &in->parser->schema;
    *n_slots = s ? s->n_slots : 0;
    return s ? s->slots : NULL;
}

/* --- passes -------------------------------------------------------------- */

static fl_status check_begin(const fl_dataset *d, int n_consumers)
{
    FL_TRY(fl_dataset_check_idle(d, "begin"));
    if (n_consumers < 1 || n_consumers > FL_CONSUMERS_MAX)
        FL_FAIL(FL_ERR_INVAL, "fl_dataset_begin: %d consumers are not in 1..%d",
                n_consumers, FL_CONSUMERS_MAX);
    if (d->batch_size < 1)
        FL_FAIL(FL_ERR_INVAL,
                "fl_dataset_begin: a batch has at least one record; call "
                "fl_dataset_set_batch_size with 1 or more first");
    return FL_OK;
}

fl_status fl_dataset_begin(fl_dataset *d, int n_consumers)
{
    return fl_dataset_begin_at(d, n_consumers, NULL);
}

fl_status fl_dataset_begin_at(fl_dataset *d, int n_consumers,
                              const fl_position *from)
{
    FL_TRY(check_begin(d, n_consumers));
    if (d->in_memory)
        FL_TRY(fl_memory_pass_begin(d, n_consumers, from));
    else
        FL_TRY(fl_queue_pass_begin(d, n_consumers, from));
    atomic_store(&d->waited_ns, 0);
    fl_lock(&d->mu);
    d->n_consumers = n_consumers;
    fl_unlock(&d->mu);
    return FL_OK;
}

/* A consumer that is inside keeps the pass from being freed. */
static fl_status enter(fl_dataset *d, int consumer)
{
    int n_consumers;

    fl_lock(&d->mu);
    n_consumers = d->n_consumers;
    if (consumer >= 0 && consumer < n_consumers)
        d->n_inside++;
    fl_unlock(&d->mu);
    if (n_consumers == 0)
        FL_FAIL(FL_ERR_INVAL, "fl_dataset_next: no pass is under way; call "
                              "fl_dataset_begin first");
    if (consumer < 0 || consumer >= n_consumers)
        FL_FAIL(FL_ERR_INVAL,
                "fl_dataset_next: consumer %d is not in 0..%d, as the pass was "
                "begun",
                consumer, n_consumers - 1);
    return FL_OK;
}

static void leave(fl_dataset *d)
{
    fl_lock(&d->mu);
    if (--d->n_inside == 0)
        fl_cond_wake_all(&d->left);
    fl_unlock(&d->mu);
}

fl_status fl_dataset_next(fl_dataset *d, int consumer, const fl_feed **feeds,
                          size_t *n_rows)
{
    uint64_t waited_ns = 0, since = fl_timeline_now();
    fl_columns *c = NULL;
    fl_status st;

    FL_TRY(enter(d, consumer));
    st = d->in_memory ? fl_memory_pass_next(d->walk, consumer, &c, &waited_ns)
                      : fl_queue_pass_next(d->queue, consumer, &c, &waited_ns);
    atomic_fetch_add(&d->waited_ns, waited_ns);
    if (waited_ns)
        fl_timeline_add("wait", "wait: data", NULL, since);
    if (!st) {
        *feeds = c ? c->feeds : NULL;
        *n_rows = c ? c->n_rows : 0;
    }
    leave(d);
    return st;
}

/* Consumers that wait are woken first; nobody enters any more. */
static bool close_pass(fl_dataset *d)
{
    bool was_open;

    fl_lock(&d->mu);
    was_open = d->n_consumers > 0;
    d->n_consumers = 0;
    if (was_open && d->queue)
        fl_queue_pass_close(d->queue);
    while (d->n_inside)
        fl_cond_wait(&d->left, &d->mu);
    fl_unlock(&d->mu);
    return was_open;
}

void fl_dataset_interrupt(fl_dataset *d)
{
    fl_lock(&d->mu);
    if (d->n_consumers > 0 && d->queue)
        fl_queue_pass_close(d->queue);
    fl_unlock(&d->mu);
}

uint64_t fl_dataset_records(const fl_dataset *d)
{
    bool is_dealt = d->dispatcher.next != NULL;

    return d->in_memory ? fl_dataset_get_memory_data_size(d)
           : is_dealt   ? 0
                        : d->n_records;
}

void fl_dataset_set_records(fl_dataset *d, uint64_t n)
{
    d->n_records = n;
}

void fl_dataset_end(fl_dataset *d)
{
    if (!close_pass(d))
        return;
    if (d->queue)
        d->stats = fl_queue_pass_end(d->queue);
    fl_memory_pass_end(d->walk);
    fl_trained_free(d->trained);
    d->queue = NULL;
    d->walk = NULL;
    d->trained = NULL;
}

double fl_dataset_waited(const fl_dataset *d)
{
    return (double)atomic_load(&d->waited_ns) * 1e-9;
}

fl_status fl_dataset_stats_get(const fl_dataset *d, fl_dataset_stats *out)
{
    fl_pump_stats s = d->queue ? fl_queue_pass_stats(d->queue) : d->stats;
    const fl_dataset_stats all = {
        .files = s.files,
        .empty_files = s.empty_files,
        .lines = s.lines,
        .records = s.records,
        .bad_lines = s.bad_lines,
        .bytes = s.read,
        .cached_files = s.cached_files,
        .wait_seconds = fl_dataset_waited(d),
        .skipped_lines = s.skipped_lines,
    };

    return FL_ARGS_FILL(fl_dataset_stats, out, &all);
}
