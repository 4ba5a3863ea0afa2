/* saver.c - a server's part of a save.
 *
 * The thread owns the version and the cut. Guarded by mu are the order that waits
 * for it and the values that came for server 0. Lock order: mu alone; reports are
 * made without it.
 */
#include "ps/server/saver.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "ckpt/online.h"
#include "ckpt/pace.h"
#include "ckpt/remote.h"
#include "ckpt/version.h"
#include "ps/server/save_files.h"
#include "ps/server/save_commit.h"
#include "ps/store/store_cut.h"

typedef struct order {
    fl_save_work_reply is; /* its dir is our own */
    char *dir;             /* the same, with a NUL behind it */
    fl_save_parts *parts;
} order;

typedef struct loading {
    char *path, *plan; /* plan NULL: all of it */
    fl_reply *reply;
} loading;

/* Bytes of a file that came; they are our own. */
typedef struct incoming {
    fl_save_file_request is;
    uint8_t *bytes;
    fl_reply *reply;
} incoming;

struct fl_saver {
    fl_saver_options o;
    char *host;
    fl_mutex mu;
    fl_cond changed;
    fl_thread *thread; /* guarded by mu, as is what follows */
    bool has_order;
    order order;
    bool is_ending;
    FL_VEC(loading) loads; /* that were asked for */
    FL_VEC(incoming) incoming;
    uint64_t number;       /* of the save that values are taken for */
    fl_save_values values; /* that came so far */

    /* The thread's own. */
    order now;
    fl_model_version *version;
    bool is_elsewhere;   /* the version is on this host, for server 0 to get */
    fl_save_files files; /* on server 0 */
    fl_store_cut *cut;
    fl_store_epochs epochs; /* of the cut that was taken */
    fl_store_use use;       /* what that is for */
    bool has_cut;           /* or as good as */
    char *chain_dir;        /* deltas may follow in it; NULL: none */
    fl_pace pace;           /* any thread */
};

/* --- reports -------------------------------------------------------------- */

static void report(fl_saver *s, fl_save_state state, const void *bytes,
                   size_t len)
{
    fl_save_work_request r = { .number = s->now.is.number,
                               .state = (uint32_t)state,
                               .bytes = { bytes, len } };

    s->o.report(s->o.arg, &r);
}

static void report_failure(fl_saver *s)
{
    char text[FL_ERR_TEXT_MAX];

    fl_msg_text(text, fl_last_error());
    report(s, FL_SAVE_FAILED, text, strlen(text));
}

/* Somebody else has made the save void. */
static bool is_void(fl_saver *s)
{
    bool is;

    fl_lock(&s->mu);
    is = s->is_ending || (s->has_order && s->order.is.order == FL_SAVE_END);
    fl_unlock(&s->mu);
    return is;
}

/* --- preparing ------------------------------------------------------------ */

/* *out stays NULL for a save of all that there is. */
static fl_status read_recipe(const fl_saver *s, fl_save_recipe *room,
                             const fl_save_recipe **out)
{
    fl_msg_bytes bytes = fl_save_split(s->now.is.dir).rest;

    if (!bytes.len)
        return FL_OK;
    FL_TRY(fl_save_recipe_read(room, bytes));
    *out = room;
    return FL_OK;
}

static fl_store_use use_of(const fl_saver *s)
{
    return fl_save_split(s->now.is.dir).rest.len ? FL_STORE_SERVE
                                                 : FL_STORE_TRAIN;
}

/* The version that a model for prediction would change: one that computes the
   same. */
static fl_status find_online(const fl_saver *s, const char *local,
                             fl_model_version **out, const char **why)
{
    const fl_save_recipe *recipe = NULL;
    fl_save_recipe room;
    fl_online o;

    FL_TRY(read_recipe(s, &room, &recipe));
    FL_ASSERT(recipe);
    o = (fl_online){ .feeds = recipe->feeds.names,
                     .n_feeds = recipe->feeds.n,
                     .targets = recipe->targets.names,
                     .n_targets = recipe->targets.n,
                     .program = recipe->model.program.data,
                     .program_len = (size_t)recipe->model.program.len };
    *out = fl_online_base(local, &o, why);
    fl_save_recipe_release(&room);
    return FL_OK;
}

/* The version that counts in the directory: what a delta would change. */
static fl_status find_base(const fl_saver *s, fl_save_work_request *r)
{
    const char *why = "there is no version yet";
    fl_model_version *v = NULL;
    char *local = NULL;
    fl_status st = FL_OK;

    FL_TRY(fl_remote_place(s->o.conf, s->now.dir, &local));
    if (use_of(s) == FL_STORE_SERVE)
        st = find_online(s, local, &v, &why);
    else if (fl_version_open(&v, local))
        v = NULL;
    if (v)
        fl_msg_text(r->base, v->id);
    else
        fl_msg_text(r->whole, why);
    fl_version_close(v);
    fl_free(local);
    return st;
}

/* Whether this server knows what changed since then. By score rows tell it
   themselves. */
static fl_status check_base(const fl_saver *s, fl_save_work_request *r)
{
    const char *base = s->o.rank ? s->now.is.base : r->base, *why;

    if (!(s->now.is.kind & FL_SAVE_KIND_DELTA))
        return FL_OK;
    if (!s->o.rank)
        FL_TRY(find_base(s, r));
    if (!*base || (s->now.is.kind & FL_SAVE_KIND_BY_SCORE))
        return FL_OK;
    why = fl_store_cut_why_whole(s->o.store, use_of(s), base);
    if (why)
        fl_msg_text(r->whole, why);
    return FL_OK;
}

/* Where only a command reaches, it is written to this host first. */
static fl_status begin_version(fl_saver *s)
{
    fl_version_options o = { .keep = s->now.is.keep };
    char *local = NULL;
    fl_status st;

    FL_TRY(fl_remote_check(s->o.conf, s->now.dir));
    FL_TRY(fl_remote_place(s->o.conf, s->now.dir, &local));
    st = fl_version_begin(&s->version, local, &o);
    fl_free(local);
    FL_TRY(st);
    fl_lock(&s->mu);
    s->number = s->now.is.number;
    fl_save_values_clear(&s->values);
    fl_unlock(&s->mu);
    return FL_OK;
}

static fl_status join_at(fl_saver *s, const char *local)
{
    fl_model_version *v;
    fl_status st;

    FL_TRY(fl_version_join(&v, local, s->now.is.version));
    st = fl_version_probe(v);
    if (st)
        fl_version_close(v);
    else
        s->version = v;
    return st;
}

/* A folder of this host, for the part that server 0 gets file by file. */
static fl_status begin_elsewhere(fl_saver *s)
{
    char *local = NULL;
    fl_str place = { 0 };
    fl_status st;

    FL_WARN("ps", "server %d sends its part of the save: %s", s->o.rank,
            fl_last_error());
    fl_str_addf(&place, "gather-%d://%s", s->o.rank, s->now.dir);
    st = fl_remote_place(s->o.conf, fl_str_text(&place), &local);
    fl_str_release(&place);
    FL_TRY(st);
    st = fl_version_begin(&s->version, local, NULL);
    fl_free(local);
    s->is_elsewhere = !st;
    return st;
}

static fl_status join_version(fl_saver *s)
{
    char *local = NULL;
    fl_status st;

    FL_TRY(fl_remote_place(s->o.conf, s->now.dir, &local));
    st = join_at(s, local);
    fl_free(local);
    if (st && s->o.conf->save_gather)
        return begin_elsewhere(s);
    return fl_err_ctx(st,
                      "host %s does not see what server 0 has begun; save to "
                      "storage that all servers see, or let server 0 get all "
                      "parts with the setting save_gather=true",
                      s->host);
}

static void prepare(fl_saver *s)
{
    fl_save_work_request r = { .number = s->now.is.number,
                               .state = FL_SAVE_PREPARED };
    fl_status st;

    st = check_base(s, &r);
    if (!st)
        st = s->o.rank ? join_version(s) : begin_version(s);
    if (st) {
        report_failure(s);
        return;
    }
    r.bytes = (fl_msg_bytes){ s->version->id, strlen(s->version->id) };
    s->o.report(s->o.arg, &r);
}

/* --- the cut, and writing ------------------------------------------------- */

static fl_status give_values(fl_saver *s, const fl_pack *p)
{
    fl_save_part_request r = { .number = s->now.is.number,
                               .bytes = { p->data, p->len } };

    return s->o.send ? s->o.send(s->o.arg, FL_MSG_SAVE_PART, &r)
                     : fl_saver_add_values(s, r.number, r.bytes);
}

static fl_status write_parts(fl_saver *s, fl_manifest *m,
                             const fl_save_recipe *recipe)
{
    fl_save_writing w = { .version = s->version,
                          .manifest = m,
                          .rank = s->o.rank,
                          .n_servers = s->o.n_servers,
                          .pace = &s->pace,
                          .recipe = recipe };

    for (size_t i = 0; i < s->cut->values.len; i++)
        FL_TRY(give_values(s, &s->cut->values.data[i]));
    for (size_t i = 0; i < s->cut->tables.len && !is_void(s); i++)
        FL_TRY(fl_save_table(&w, s->cut->tables.data[i]));
    return FL_OK;
}

static fl_status write_by_recipe(fl_saver *s, fl_manifest *m)
{
    const fl_save_recipe *recipe = NULL;
    fl_save_recipe room = { 0 };
    fl_status st = read_recipe(s, &room, &recipe);

    if (!st)
        st = write_parts(s, m, recipe);
    fl_save_recipe_release(&room);
    return st;
}

static fl_status send_files(fl_saver *s, const fl_manifest *m)
{
    fl_save_way way = { .send = s->o.send,
                        .arg = s->o.arg,
                        .number = s->now.is.number,
                        .pace = &s->pace };

    for (size_t i = 0; i < m->files.len && !is_void(s); i++)
        FL_TRY(fl_save_files_send(&way, s->version, m->files.data[i].name));
    return FL_OK;
}

static void write_behind(fl_saver *s)
{
    fl_manifest m;
    fl_status st;
    char *text;

    fl_manifest_init(&m, FL_MANIFEST_PART);
    st = write_by_recipe(s, &m);
    if (!(s->now.is.kind & FL_SAVE_KIND_BY_SCORE)) {
        fl_store_cut_end(s->cut); /* else its scores are to be spent */
        s->cut = NULL;
    }
    if (!st && s->is_elsewhere)
        st = send_files(s, &m);
    if (st && !is_void(s))
        report_failure(s);
    if (!st && !is_void(s)) {
        text = fl_manifest_print(&m);
        report(s, FL_SAVE_WRITTEN, text, strlen(text));
        fl_free(text);
    }
    fl_manifest_release(&m);
}

/* Deltas follow where they were asked for, and where they are made already. */
static bool may_be_base(const fl_saver *s, const fl_store_chain *chain)
{
    const fl_conf *conf = s->o.conf;

    if ((s->now.is.kind & FL_SAVE_KIND_DELTA) || s->use == FL_STORE_SERVE)
        return s->now.is.kind & FL_SAVE_KIND_DELTA;
    return fl_store_chain_is_in(chain, s->now.dir) ||
           (conf->save_delta_every_ms && !strcmp(conf->save_dir, s->now.dir));
}

/* By score a log that reaches back is of use, and not needed. */
static fl_store_cut_options cut_of(const fl_saver *s)
{
    const fl_store_chain *chain = fl_store_chain_of(s->o.store, s->use);
    const char *base = s->now.is.base;
    bool by_score = s->now.is.kind & FL_SAVE_KIND_BY_SCORE;
    fl_store_cut_options o = { .watch = may_be_base(s, chain) };

    if (*base &&
        (!by_score || !fl_store_cut_why_whole(s->o.store, s->use, base)))
        o.since = chain;
    if (by_score)
        o.pick = *base ? FL_PICK_DELTA : FL_PICK_BASE;
    return o;
}

static void take_cut(fl_saver *s)
{
    fl_store_cut_options o;
    fl_status st;

    s->use = use_of(s);
    o = cut_of(s);
    st = fl_store_cut_begin(&s->cut, s->o.store, &o);
    s->has_cut = true;
    if (st) {
        report_failure(s);
        return;
    }
    fl_store_cut_epochs(s->cut, &s->epochs);
    s->chain_dir = o.watch ? fl_strdup(s->now.dir) : NULL;
    FL_INFO("ps", "server %d has its cut: requests waited %.1f ms", s->o.rank,
            (double)s->cut->closed_ns * 1e-6);
    fl_pace_begin(&s->pace, o.since ? FL_PACE_URGENT : FL_PACE_PATIENT);
    report(s, FL_SAVE_CUT, NULL, 0);
    write_behind(s);
}

/* --- the end -------------------------------------------------------------- */

static fl_status commit_by_recipe(fl_saver *s, const fl_save_values *values)
{
    fl_save_brought b = { .parts = s->now.parts, .values = values };
    fl_save_recipe room = { 0 };
    fl_status st = read_recipe(s, &room, &b.recipe);

    if (!st)
        st = fl_save_commit(s->version, &s->now.is, &b);
    fl_save_recipe_release(&room);
    return st ? st : fl_remote_publish(s->o.conf, s->now.dir);
}

static void commit(fl_saver *s)
{
    fl_save_values values;
    fl_status st;

    fl_lock(&s->mu);
    values = s->values;
    s->values = (fl_save_values){ 0 };
    fl_unlock(&s->mu);
    st = commit_by_recipe(s, &values);
    fl_save_values_clear(&values);
    if (st)
        report_failure(s);
    else
        report(s, FL_SAVE_COMMITTED, NULL, 0);
}

/* The save that this server has its cut of counts: what changes from now on
   belongs to the next delta. */
static void go_on_from(fl_saver *s)
{
    if (s->cut && *s->now.is.version)
        fl_store_cut_spend(s->cut);
    if (s->chain_dir && *s->now.is.version)
        fl_store_chain_set(fl_store_chain_of(s->o.store, s->use), s->chain_dir,
                           s->now.is.version, &s->epochs);
    if (s->now.is.has_cuts && !s->has_cut)
        fl_store_cut_skip(s->o.store);
}

/* A version that was not committed is removed by this. */
static void let_go(fl_saver *s)
{
    s->has_cut = false;
    fl_free(s->chain_dir);
    s->chain_dir = NULL;
    fl_store_cut_end(s->cut);
    s->cut = NULL;
    fl_save_files_clear(&s->files);
    s->is_elsewhere = false;
    fl_version_close(s->version);
    s->version = NULL;
    fl_lock(&s->mu);
    fl_save_values_clear(&s->values);
    fl_unlock(&s->mu);
}

static void end(fl_saver *s)
{
    go_on_from(s);
    let_go(s);
    report(s, FL_SAVE_IDLE, NULL, 0);
}

/* --- loading -------------------------------------------------------------- */

static void answer_load(loading *l, fl_status st)
{
    if (st)
        fl_reply_error(l->reply, st);
    else
        fl_reply_send(l->reply, NULL, 0);
    fl_free(l->path);
    fl_free(l->plan);
}

static void load_now(fl_saver *s, loading *l)
{
    char *local = NULL;
    fl_status st = fl_remote_fetch(s->o.conf, l->path, &local);

    if (!st)
        st = fl_store_load(s->o.store,
                           &(fl_model_share){ .path = local,
                                              .plan = l->plan,
                                              .rank = s->o.rank,
                                              .n_servers = s->o.n_servers });
    fl_free(local);
    if (!st)
        FL_INFO("ps", "server %d has loaded %s", s->o.rank, l->path);
    answer_load(l, st);
}

static void drop_loads(fl_saver *s)
{
    for (size_t i = 0; i < s->loads.len; i++)
        answer_load(&s->loads.data[i],
                    fl_err_set(FL_ERR_CLOSED, "server %d ends", s->o.rank));
    fl_vec_release(&s->loads);
}

/* --- files of other servers ----------------------------------------------- */

static void answer_file(incoming *f, fl_status st)
{
    if (st)
        fl_reply_error(f->reply, st);
    else
        fl_reply_send(f->reply, NULL, 0);
    fl_data_free(f->bytes, (size_t)f->is.bytes.len);
}

static fl_status check_number(const fl_saver *s, uint64_t number)
{
    if (!s->version || number != s->now.is.number)
        FL_FAIL(FL_ERR_CLOSED,
                "bytes for save %" PRIu64 " came when it was not under way",
                number);
    return FL_OK;
}

static void put_file(fl_saver *s, incoming *f)
{
    fl_status st = check_number(s, f->is.number);

    if (!st)
        st = fl_save_files_add(&s->files, s->version, &f->is);
    answer_file(f, st);
}

static void drop_files(fl_saver *s)
{
    for (size_t i = 0; i < s->incoming.len; i++)
        answer_file(&s->incoming.data[i],
                    fl_err_set(FL_ERR_CLOSED, "server %d ends", s->o.rank));
    fl_vec_release(&s->incoming);
}

/* --- the thread ----------------------------------------------------------- */

static void release_order(order *o)
{
    fl_save_parts_free(o->parts);
    fl_free(o->dir);
    *o = (order){ 0 };
}

/* What there is to do: a load, else bytes of a file, else an order; nothing at
   the end. */
typedef struct task {
    loading load;
    incoming file;
    bool has_order;
} task;

static task next_task(fl_saver *s)
{
    task t = { 0 };

    fl_lock(&s->mu);
    while (!s->has_order && !s->loads.len && !s->incoming.len && !s->is_ending)
        fl_cond_wait(&s->changed, &s->mu);
    if (s->is_ending) {
        ; /* what is left is dropped */
    } else if (s->loads.len) {
        t.load = s->loads.data[--s->loads.len];
    } else if (s->incoming.len) { /* of each server there is one at a time */
        t.file = s->incoming.data[--s->incoming.len];
    } else {
        release_order(&s->now);
        s->now = s->order;
        s->order = (order){ 0 };
        t.has_order = true;
        s->has_order = false;
    }
    fl_unlock(&s->mu);
    return t;
}

static void work(void *arg)
{
    static void (*const steps[])(fl_saver * s) = {
        [FL_SAVE_PREPARE] = prepare,
        [FL_SAVE_TAKE_CUT] = take_cut,
        [FL_SAVE_COMMIT] = commit,
        [FL_SAVE_END] = end,
    };
    fl_saver *s = arg;

    for (;;) {
        task t = next_task(s);

        if (t.load.path)
            load_now(s, &t.load);
        else if (t.file.reply)
            put_file(s, &t.file);
        else if (t.has_order)
            steps[s->now.is.order](s);
        else
            break;
    }
    let_go(s);
}

static void set_order(fl_saver *s, const fl_save_work_reply *r,
                      fl_save_parts *parts)
{
    release_order(&s->order);
    s->order = (order){ .is = *r, .parts = parts };
    s->order.dir = fl_alloc((size_t)r->dir.len + 1);
    if (r->dir.len)
        memcpy(s->order.dir, r->dir.data, (size_t)r->dir.len);
    s->order.is.dir.data = s->order.dir;
    s->has_order = true;
}

/* Under mu. */
static void start_thread(fl_saver *s)
{
    if (!s->thread && fl_thread_start(&s->thread, "save", work, s))
        FL_WARN("ps", "server %d cannot save: %s", s->o.rank, fl_last_error());
}

/* Memory for as much as came is there: it came. */
static char *copy_plan(fl_msg_bytes plan)
{
    char *copy = plan.len ? fl_alloc((size_t)plan.len + 1) : NULL;

    if (copy)
        memcpy(copy, plan.data, (size_t)plan.len);
    return copy;
}

void fl_saver_load(fl_saver *s, const char *path, fl_msg_bytes plan,
                   fl_reply *reply)
{
    loading l = { fl_strdup(path), copy_plan(plan), reply };

    fl_lock(&s->mu);
    fl_vec_push(&s->loads, l);
    if (s->is_ending)
        drop_loads(s);
    else
        start_thread(s);
    fl_cond_wake_all(&s->changed);
    fl_unlock(&s->mu);
}

static fl_status copy_file(incoming *f, const fl_save_file_request *r)
{
    size_t len = (size_t)r->bytes.len;

    f->is = *r;
    f->bytes = fl_try_alloc(len);
    if (!f->bytes)
        FL_FAIL(FL_ERR_NOMEM, "no memory for %zu bytes of a file to save", len);
    memcpy(f->bytes, r->bytes.data, len);
    f->is.bytes.data = f->bytes;
    return FL_OK;
}

void fl_saver_take_file(fl_saver *s, const fl_save_file_request *r,
                        fl_reply *reply)
{
    incoming f = { .reply = reply };
    fl_status st = copy_file(&f, r);

    if (st) {
        fl_reply_error(reply, st);
        return;
    }
    fl_lock(&s->mu);
    fl_vec_push(&s->incoming, f);
    if (s->is_ending)
        drop_files(s);
    fl_cond_wake_all(&s->changed);
    fl_unlock(&s->mu);
}

void fl_saver_take_order(fl_saver *s, fl_status st, const fl_save_work_reply *r,
                         fl_save_parts *parts)
{
    bool is_good =
        !st && r->order >= FL_SAVE_PREPARE && r->order <= FL_SAVE_END;

    fl_lock(&s->mu);
    if (st)
        s->is_ending = true; /* the job is over */
    else if (is_good && !s->is_ending)
        set_order(s, r, parts);
    else
        fl_save_parts_free(parts);
    if (is_good && !s->is_ending)
        start_thread(s);
    fl_cond_wake_all(&s->changed);
    fl_unlock(&s->mu);
}

fl_status fl_saver_add_values(fl_saver *s, uint64_t number, fl_msg_bytes bytes)
{
    fl_status st = FL_OK;

    if (!s)
        FL_FAIL(FL_ERR_INVAL, "this server takes no part in saves");
    fl_lock(&s->mu);
    if (number != s->number)
        st = fl_err_set(FL_ERR_CLOSED,
                        "values for save %" PRIu64 " came during save %" PRIu64,
                        number, s->number);
    else
        st = fl_save_values_add(&s->values, bytes);
    fl_unlock(&s->mu);
    return st;
}

/* --- life ----------------------------------------------------------------- */

static uint64_t requests_so_far(void *store)
{
    return fl_store_requests(store);
}

/* All cores are no limit: others get theirs from the system. */
static fl_pace_limits limits_of(const fl_saver_options *o)
{
    double share = o->conf->save_core_share;

    return (fl_pace_limits){
        .bytes_per_s = (uint64_t)(o->conf->save_mb_per_s * 1e6),
        .cores = share < 1 ? share * fl_cpu_count() : 0,
        .work = requests_so_far,
        .arg = o->store,
    };
}

fl_saver *fl_saver_new(const fl_saver_options *o)
{
    fl_pace_limits limits = limits_of(o);
    fl_saver *s = fl_alloc(sizeof(*s));

    s->o = *o;
    s->host = fl_strdup(o->host);
    fl_mutex_init(&s->mu);
    fl_cond_init(&s->changed);
    fl_pace_init(&s->pace, &limits);
    return s;
}

void fl_saver_start(fl_saver *s)
{
    fl_save_work_request r = { .state = FL_SAVE_IDLE };

    s->o.report(s->o.arg, &r);
}

void fl_saver_free(fl_saver *s)
{
    fl_thread *thread;

    if (!s)
        return;
    fl_lock(&s->mu);
    s->is_ending = true;
    thread = s->thread;
    s->thread = NULL;
    fl_cond_wake_all(&s->changed);
    fl_unlock(&s->mu);
    fl_pace_stop(&s->pace);
    fl_thread_join(thread);
    fl_pace_release(&s->pace);
    drop_loads(s);
    drop_files(s);
    release_order(&s->order);
    release_order(&s->now);
    fl_vec_release(&s->epochs);
    fl_save_values_clear(&s->values);
    fl_cond_release(&s->changed);
    fl_mutex_release(&s->mu);
    fl_free(s->host);
    fl_free(s);
}
