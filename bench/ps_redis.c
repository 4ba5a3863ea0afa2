/* ps_redis.c - Redis as a server of rows: MGET and MSET by binary keys, several
 * commands on their way, nothing written to disk.
 *
 * Built without hiredis, or run where there is no redis-server, it is not
 * there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "ps_peers.h"
#include "ps_process.h"

#ifdef BENCH_REDIS

#include <hiredis/hiredis.h>

/* From 10 to 100 it is fastest; with 10,000 a push costs it half as much
   again. */
#define COMMAND_KEYS 100
#define PATIENCE_MS 10000
#define PAUSE_MS 10

typedef struct redis {
    pid_t server;
    redisContext *link;
    char folder[40], path[64]; /* of the UNIX socket; else empty */
    char *command;
    size_t len;
} redis;

/* --- life ---------------------------------------------------------------- */

static pid_t start_server(const char *path, const char *port)
{
    char *argv[] = { "redis-server",
                     "--save",
                     "",
                     "--appendonly",
                     "no",
                     "--logfile",
                     "/dev/null",
                     "--bind",
                     "127.0.0.1",
                     "--port",
                     (char *)(uintptr_t)port,
                     *path ? "--unixsocket" : NULL,
                     (char *)(uintptr_t)path,
                     NULL };

    return process_start(argv);
}

/* NULL when the server ends before it listens: it is not installed. */
static redisContext *connect_to(const redis *r, int port)
{
    for (int ms = 0; ms < PATIENCE_MS; ms += PAUSE_MS) {
        redisContext *link = *r->path ? redisConnectUnix(r->path)
                                      : redisConnect("127.0.0.1", port);

        if (link && !link->err)
            return link;
        if (link)
            redisFree(link);
        if (!process_is_alive(r->server))
            return NULL;
        usleep(PAUSE_MS * 1000);
    }
    fprintf(stderr, "bench: redis-server does not answer\n");
    exit(1);
}

static void redis_close(void *peer)
{
    redis *r = peer;

    if (r->link)
        redisFree(r->link);
    process_stop(r->server);
    if (*r->path) {
        unlink(r->path);
        rmdir(r->folder);
    }
    free(r->command);
    free(r);
}

/* Room for the longest text of a command's every key and value. */
#define KEY_TEXT_MAX 64
#define VALUE_TEXT_MAX (PS_ROW_BYTES + 32)

static void *open_at(redis *r, const char *port)
{
    r->command = bench_alloc((PS_BATCH + 1) * (KEY_TEXT_MAX + VALUE_TEXT_MAX));
    r->server = start_server(r->path, port);
    r->link = connect_to(r, (int)strtol(port, NULL, 10));
    if (r->link)
        return r;
    redis_close(r);
    return NULL;
}

static void *unix_open(const ps_shape *s)
{
    redis *r = bench_alloc(sizeof *r);

    (void)s;
    snprintf(r->folder, sizeof r->folder, "/tmp/flotilla_bench_XXXXXX");
    bench_check_new(mkdtemp(r->folder), "a folder below /tmp");
    snprintf(r->path, sizeof r->path, "%s/redis", r->folder);
    return open_at(r, "0");
}

static void *tcp_open(const ps_shape *s)
{
    char address[ADDRESS_MAX];

    (void)s;
    process_free_address(address);
    return open_at(bench_alloc(sizeof(redis)), strrchr(address, ':') + 1);
}

/* --- commands ------------------------------------------------------------ */

static void add_bytes(redis *r, const void *bytes, size_t n)
{
    r->len +=
        (size_t)snprintf(r->command + r->len, KEY_TEXT_MAX, "$%zu\r\n", n);
    memcpy(r->command + r->len, bytes, n);
    memcpy(r->command + r->len + n, "\r\n", 2);
    r->len += n + 2;
}

/* Keys of the command that begins with key i. */
static size_t command_keys(const ps_batch *b, size_t i)
{
    return b->n - i < COMMAND_KEYS ? b->n - i : COMMAND_KEYS;
}

/* Hands the commands of one batch over; they leave when an answer is read. */
static void add_commands(redis *r, const ps_batch *b, bool is_push)
{
    r->len = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (i % COMMAND_KEYS == 0) {
            r->len +=
                (size_t)snprintf(r->command + r->len, KEY_TEXT_MAX, "*%zu\r\n",
                                 1 + command_keys(b, i) * (is_push ? 2 : 1));
            add_bytes(r, is_push ? "MSET" : "MGET", 4);
        }
        add_bytes(r, &b->keys[i], sizeof b->keys[i]);
        if (is_push)
            add_bytes(r, b->values + i * PS_DIM, PS_ROW_BYTES);
    }
    if (redisAppendFormattedCommand(r->link, r->command, r->len) != REDIS_OK) {
        fprintf(stderr, "bench: redis: %s\n", r->link->errstr);
        exit(1);
    }
}

static void take_rows(const redisReply *reply, size_t n, float *out)
{
    bool is_good = reply->type == REDIS_REPLY_ARRAY && reply->elements == n;

    for (size_t i = 0; is_good && i < n; i++) {
        const redisReply *row = reply->element[i];

        is_good = row->type == REDIS_REPLY_STRING && row->len == PS_ROW_BYTES;
        if (is_good)
            memcpy(out + i * PS_DIM, row->str, PS_ROW_BYTES);
    }
    if (is_good)
        return;
    fprintf(stderr, "bench: redis: an MGET gives no rows\n");
    exit(1);
}

static void take_answers(redis *r, const ps_batch *b, bool is_push)
{
    for (size_t i = 0; i < b->n; i += COMMAND_KEYS) {
        void *reply = NULL;

        if (redisGetReply(r->link, &reply) != REDIS_OK ||
            ((redisReply *)reply)->type == REDIS_REPLY_ERROR) {
            fprintf(stderr, "bench: redis: %s\n",
                    reply ? ((redisReply *)reply)->str : r->link->errstr);
            exit(1);
        }
        if (!is_push)
            take_rows(reply, command_keys(b, i), b->out + i * PS_DIM);
        freeReplyObject(reply);
    }
}

static void run_all(redis *r, const ps_batch *b, size_t n, bool is_push)
{
    for (size_t i = 0; i < n + PS_DEPTH; i++) {
        if (i >= PS_DEPTH && i - PS_DEPTH < n)
            take_answers(r, &b[i - PS_DEPTH], is_push);
        if (i < n)
            add_commands(r, &b[i], is_push);
    }
}

static void redis_pull(void *peer, const ps_batch *b, size_t n)
{
    run_all(peer, b, n, false);
}

static void redis_push(void *peer, const ps_batch *b, size_t n)
{
    run_all(peer, b, n, true);
}

static double redis_cpu_seconds(const void *peer)
{
    const redis *r = peer;

    return process_cpu_seconds(r->server);
}

void ps_redis_address(const void *peer, char *out, size_t cap)
{
    const redis *r = peer;

    snprintf(out, cap, "unix:%s", r->path);
}

const ps_kind ps_redis = { .name = "redis",
                           .overwrites = true,
                           .open = unix_open,
                           .pull = redis_pull,
                           .push = redis_push,
                           .cpu_seconds = redis_cpu_seconds,
                           .close = redis_close };
const ps_kind ps_redis_tcp = { .name = "redis over TCP",
                               .overwrites = true,
                               .open = tcp_open,
                               .pull = redis_pull,
                               .push = redis_push,
                               .cpu_seconds = redis_cpu_seconds,
                               .close = redis_close };

#else

static void *not_there(const ps_shape *s)
{
    (void)s;
    return NULL;
}

void ps_redis_address(const void *peer, char *out, size_t cap)
{
    (void)peer, (void)cap;
    *out = 0;
}

const ps_kind ps_redis = { .name = "redis", .open = not_there };
const ps_kind ps_redis_tcp = { .name = "redis over TCP", .open = not_there };

#endif
