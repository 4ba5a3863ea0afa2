#include "redis/link.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define TIMEOUT_MS 5000
#define NAME "model"
#define UNIX "unix:"
#define COUNT_MAX 24 /* of a number in a command, with what is around it */

static char *copy_text(const char *text, size_t n)
{
    char *copy = fl_alloc(n + 1);

    memcpy(copy, text, n);
    return copy;
}

/* --- the place ------------------------------------------------------------ */

static bool is_path(const char *address)
{
    return !strncmp(address, UNIX, strlen(UNIX));
}

/* 0: there is none. */
static int port_of(const char *address)
{
    const char *colon = strrchr(address, ':');
    char *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : 0;

    return end && !*end && port > 0 && port <= UINT16_MAX ? (int)port : 0;
}

static fl_status check_place(const fl_redis_place *p)
{
    if (!is_path(p->address) && !port_of(p->address))
        FL_FAIL(FL_ERR_INVAL,
                "\"%s\" is no address of Redis; give host:port or unix:path",
                p->address);
    if (!*p->name || strchr(p->name, ':'))
        FL_FAIL(FL_ERR_INVAL,
                "\"%s\" cannot be the name of a model in Redis: it must not be "
                "empty and have no colon",
                p->name);
    if (p->timeout_ms < 0)
        FL_FAIL(FL_ERR_INVAL, "timeout_ms is %d; give 0 or more",
                p->timeout_ms);
    return FL_OK;
}

fl_status fl_redis_place_init(fl_redis_place *p, const fl_redis_args *args)
{
    *p = (fl_redis_place){ 0 };
    if (!args->address)
        FL_FAIL(FL_ERR_INVAL, "which Redis? An address is missing");
    p->address = fl_strdup(args->address);
    p->name = fl_strdup(args->name ? args->name : NAME);
    p->password = args->password ? fl_strdup(args->password) : NULL;
    p->timeout_ms = args->timeout_ms ? args->timeout_ms : TIMEOUT_MS;
    return check_place(p);
}

void fl_redis_place_release(fl_redis_place *p)
{
    fl_free(p->address);
    fl_free(p->name);
    fl_free(p->password);
}

/* --- life ----------------------------------------------------------------- */

static fl_status failed(const fl_redis_link *l)
{
    const char *why = l->c && l->c->err ? l->c->errstr : "no memory";
    bool is_late = l->c && l->c->err == REDIS_ERR_IO;

    FL_FAIL(FL_ERR_IO, "Redis at %s: %s%s", l->place->address, why,
            is_late ? " (it has timeout_ms for each answer; is it up?)" : "");
}

static struct timeval patience(const fl_redis_place *p)
{
    return (struct timeval){ p->timeout_ms / 1000,
                             p->timeout_ms % 1000 * 1000 };
}

static redisContext *dial(const fl_redis_place *p)
{
    struct timeval wait = patience(p);
    redisContext *c;
    char *host;

    if (is_path(p->address))
        return redisConnectUnixWithTimeout(p->address + strlen(UNIX), wait);
    host =
        copy_text(p->address, (size_t)(strrchr(p->address, ':') - p->address));
    c = redisConnectWithTimeout(host, port_of(p->address), wait);
    fl_free(host);
    return c;
}

static fl_status log_in(fl_redis_link *l)
{
    const char *words[] = { "AUTH", l->place->password, NULL };

    if (!l->place->password)
        return FL_OK;
    return fl_err_ctx(fl_redis_ask(l, REDIS_REPLY_STATUS, NULL, words),
                      "the password");
}

fl_status fl_redis_link_open(fl_redis_link *l, const fl_redis_place *place)
{
    *l = (fl_redis_link){ .place = place, .c = dial(place) };
    if (!l->c || l->c->err || redisSetTimeout(l->c, patience(place)))
        return failed(l);
    return log_in(l);
}

void fl_redis_link_close(fl_redis_link *l)
{
    if (l->c)
        redisFree(l->c);
    l->c = NULL;
}

/* --- commands ------------------------------------------------------------- */

void fl_redis_words_add(fl_redis_words *w, const void *bytes, size_t len)
{
    fl_vec_push(&w->at, bytes);
    fl_vec_push(&w->len, len);
}

void fl_redis_words_text(fl_redis_words *w, const char *text)
{
    fl_redis_words_add(w, text, strlen(text));
}

void fl_redis_words_clear(fl_redis_words *w)
{
    w->at.len = w->len.len = 0;
}

void fl_redis_words_release(fl_redis_words *w)
{
    fl_vec_release(&w->at);
    fl_vec_release(&w->len);
    fl_buf_release(&w->command);
}

/* "*3" or "$8" and the end of a line, into room for COUNT_MAX bytes. */
static size_t put_count(char *to, char kind, size_t n)
{
    char digits[COUNT_MAX];
    size_t len = 0, at = 0;

    do
        digits[len++] = (char)('0' + n % 10);
    while (n /= 10);
    to[at++] = kind;
    while (len)
        to[at++] = digits[--len];
    to[at++] = '\r';
    to[at++] = '\n';
    return at;
}

static size_t most_bytes(const fl_redis_words *w)
{
    size_t n = COUNT_MAX;

    for (size_t i = 0; i < w->at.len; i++)
        n += w->len.data[i] + COUNT_MAX + 2;
    return n;
}

/* As the protocol has it; hiredis takes several times as long for that. */
static size_t print_command(const fl_redis_words *w, char *to)
{
    size_t at = put_count(to, '*', w->at.len);

    for (size_t i = 0; i < w->at.len; i++) {
        at += put_count(to + at, '$', w->len.data[i]);
        memcpy(to + at, w->at.data[i], w->len.data[i]);
        at += w->len.data[i];
        to[at++] = '\r';
        to[at++] = '\n';
    }
    return at;
}

fl_status fl_redis_send(fl_redis_link *l, fl_redis_words *w)
{
    size_t most = most_bytes(w), len;

    if (!fl_buf_reserve(&w->command, most))
        FL_FAIL(FL_ERR_NOMEM, "no memory for a command of %zu bytes", most);
    len = print_command(w, w->command.data);
    if (redisAppendFormattedCommand(l->c, w->command.data, len))
        return failed(l);
    return FL_OK;
}

static fl_status check_reply(const fl_redis_link *l, const redisReply *r,
                             int type)
{
    if (r->type == REDIS_REPLY_ERROR)
        FL_FAIL(FL_ERR_IO, "Redis at %s: %s", l->place->address, r->str);
    if (r->type != type)
        FL_FAIL(FL_ERR_CORRUPT,
                "Redis at %s answers with something of another type than was "
                "asked for: is what is under %s of this program?",
                l->place->address, l->place->name);
    return FL_OK;
}

/* A key that is not there is an answer without text. */
static int awaited(const redisReply *r, int type)
{
    return type == REDIS_REPLY_STRING && r->type == REDIS_REPLY_NIL
               ? REDIS_REPLY_NIL
               : type;
}

fl_status fl_redis_take(fl_redis_link *l, int type, redisReply **out)
{
    void *reply;
    fl_status st;

    if (redisGetReply(l->c, &reply)) {
        /* Not what it gives back: so it is seen that this is never FL_OK. */
        (void)failed(l);
        return FL_ERR_IO;
    }
    st = check_reply(l, reply, awaited(reply, type));
    if (st)
        freeReplyObject(reply);
    else
        *out = reply;
    return st;
}

fl_status fl_redis_skip(fl_redis_link *l, int type)
{
    redisReply *r = NULL;

    FL_TRY(fl_redis_take(l, type, &r));
    freeReplyObject(r);
    return FL_OK;
}

/* --- values as they come --------------------------------------------------- */

/* An answer on its way through the parser of hiredis, which makes what these
   functions give it instead of objects of its own. */
typedef struct value_sink {
    redisReply top; /* what hiredis sees of it */
    const fl_redis_link *link;
    fl_redis_value_fn fn;
    void *arg;
    size_t n;     /* texts that are due */
    fl_err wrong; /* the first thing that was */
} value_sink;

#if HIREDIS_MAJOR >= 1
typedef size_t sink_count;
#else
typedef int sink_count;
#endif

static void sink_note(value_sink *s, fl_status st)
{
    if (st && !s->wrong.status)
        fl_err_save(&s->wrong, st);
}

static fl_status sink_error(const value_sink *s, const char *text, size_t len)
{
    FL_FAIL(FL_ERR_IO, "Redis at %s: %.*s", s->link->place->address, (int)len,
            text);
}

static fl_status sink_stranger(const value_sink *s)
{
    redisReply stranger = { .type = REDIS_REPLY_NIL };

    return check_reply(s->link, &stranger, REDIS_REPLY_ARRAY);
}

static void *sink_string(const redisReadTask *t, char *text, size_t len)
{
    value_sink *s = t->privdata;

    if (t->type == REDIS_REPLY_ERROR)
        sink_note(s, sink_error(s, text, len));
    else if (!t->parent)
        sink_note(s, sink_stranger(s));
    else if (!s->wrong.status)
        sink_note(s, s->fn(s->arg, (size_t)t->idx, text, len));
    return &s->top;
}

static void *sink_array(const redisReadTask *t, sink_count n)
{
    value_sink *s = t->privdata;

    if (t->parent)
        sink_note(s, sink_stranger(s));
    else if ((size_t)n != s->n)
        sink_note(s, fl_err_set(FL_ERR_CORRUPT,
                                "Redis answers with %zu rows to a question for "
                                "%zu",
                                (size_t)n, s->n));
    return &s->top;
}

static void *sink_integer(const redisReadTask *t, long long value)
{
    value_sink *s = t->privdata;

    (void)value;
    sink_note(s, sink_stranger(s));
    return &s->top;
}

static void *sink_nil(const redisReadTask *t)
{
    value_sink *s = t->privdata;

    if (!t->parent)
        sink_note(s, sink_stranger(s));
    return &s->top;
}

static void sink_free(void *reply)
{
    (void)reply;
}

fl_status fl_redis_take_values(fl_redis_link *l, size_t n, fl_redis_value_fn fn,
                               void *arg)
{
    static redisReplyObjectFunctions functions = { .createString = sink_string,
                                                   .createArray = sink_array,
                                                   .createInteger =
                                                       sink_integer,
                                                   .createNil = sink_nil,
                                                   .freeObject = sink_free };
    value_sink s = { .top = { .type = REDIS_REPLY_ARRAY },
                     .link = l,
                     .fn = fn,
                     .arg = arg,
                     .n = n };
    redisReplyObjectFunctions *before = l->c->reader->fn;
    void *reply;
    int failure;

    l->c->reader->fn = &functions;
    l->c->reader->privdata = &s;
    failure = redisGetReply(l->c, &reply);
    l->c->reader->fn = before;
    l->c->reader->privdata = NULL;
    return failure ? failed(l) : fl_err_restore(&s.wrong);
}

fl_status fl_redis_ask(fl_redis_link *l, int type, redisReply **out,
                       const char *const *words)
{
    fl_redis_words w = { 0 };
    fl_status st;

    for (; *words; words++)
        fl_redis_words_text(&w, *words);
    st = fl_redis_send(l, &w);
    fl_redis_words_release(&w);
    if (st)
        return st;
    return out ? fl_redis_take(l, type, out) : fl_redis_skip(l, type);
}

fl_status fl_redis_get(fl_redis_link *l, const char *key, char **out)
{
    const char *words[] = { "GET", key, NULL };
    redisReply *r;

    FL_TRY(fl_redis_ask(l, REDIS_REPLY_STRING, &r, words));
    *out = copy_text(r->str ? r->str : "", r->len);
    freeReplyObject(r);
    return FL_OK;
}

/* --- names of keys -------------------------------------------------------- */

char *fl_redis_current_key(const fl_redis_place *p)
{
    fl_str s = { 0 };

    fl_str_addf(&s, "flotilla:%s:current", p->name);
    return fl_str_take(&s);
}

char *fl_redis_versions_key(const fl_redis_place *p)
{
    fl_str s = { 0 };

    fl_str_addf(&s, "flotilla:%s:versions", p->name);
    return fl_str_take(&s);
}

char *fl_redis_tables_key(const fl_redis_place *p, const char *version)
{
    fl_str s = { 0 };

    fl_str_addf(&s, "flotilla:%s:%s:tables", p->name, version);
    return fl_str_take(&s);
}

char *fl_redis_shard_key(const fl_redis_place *p, const char *version,
                         const char *table, uint32_t shard)
{
    fl_str s = { 0 };

    fl_str_addf(&s, "flotilla:%s:%s:%s:%02" PRIu32, p->name, version, table,
                shard / FL_REDIS_SHARDS);
    return fl_str_take(&s);
}

void fl_redis_each_version(const char *current,
                           void (*fn)(void *arg, const char *version),
                           void *arg)
{
    while (*current) {
        size_t n = strcspn(current, ",");
        char *version = copy_text(current, n);

        fn(arg, version);
        fl_free(version);
        current += n + (current[n] == ',');
    }
}
