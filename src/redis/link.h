/* link.h - a connection to Redis, with what every use of it needs: a deadline
 * for each answer, errors that name the server, and the names of keys.
 *
 * Commands are sent by the pile: fl_redis_send keeps them, fl_redis_take gives
 * the answers in their order. One thread at a time.
 */
#ifndef FL_REDIS_LINK_H
#define FL_REDIS_LINK_H

#include <hiredis/hiredis.h>

#include "base/buf.h"
#include "base/status.h"
#include "base/vec.h"
#include "flotilla/redis.h"

/* Which Redis, and which model of it. */
typedef struct fl_redis_place {
    char *address, *name, *password;
    int timeout_ms;
} fl_redis_place;

FL_MUST_CHECK
fl_status fl_redis_place_init(fl_redis_place *p, const fl_redis_args *args);
void fl_redis_place_release(fl_redis_place *p);

typedef struct fl_redis_link {
    const fl_redis_place *place; /* borrowed */
    redisContext *c;
} fl_redis_link;

FL_MUST_CHECK
fl_status fl_redis_link_open(fl_redis_link *l, const fl_redis_place *place);
void fl_redis_link_close(fl_redis_link *l);

/* Words of a command; bytes are borrowed until it is sent. */
typedef struct fl_redis_words {
    FL_VEC(const char *) at;
    FL_VEC(size_t) len;
    fl_buf command; /* the last one that was sent */
} fl_redis_words;
void fl_redis_words_add(fl_redis_words *w, const void *bytes, size_t len);
void fl_redis_words_text(fl_redis_words *w, const char *text);
void fl_redis_words_clear(fl_redis_words *w);
void fl_redis_words_release(fl_redis_words *w);

FL_MUST_CHECK
fl_status fl_redis_send(fl_redis_link *l, fl_redis_words *w);
/* The next answer, freed with freeReplyObject; one that is an error, or not of
   this type, fails. */
FL_MUST_CHECK
fl_status fl_redis_take(fl_redis_link *l, int type, redisReply **out);
/* The same of an answer that is not looked at. */
FL_MUST_CHECK
fl_status fl_redis_skip(fl_redis_link *l, int type);

/* The next answer, an array of n texts, handed out where they lie: a batch has
   thousands, each of which would be two pieces of memory. One that is not there
   is left out. All are read, also behind a value that was refused. */
typedef fl_status (*fl_redis_value_fn)(void *arg, size_t i, const char *text,
                                       size_t len);
FL_MUST_CHECK
fl_status fl_redis_take_values(fl_redis_link *l, size_t n, fl_redis_value_fn fn,
                               void *arg);

/* One command of texts and its answer; the last word is NULL. */
FL_MUST_CHECK
fl_status fl_redis_ask(fl_redis_link *l, int type, redisReply **out,
                       const char *const *words);

/* The text behind a key, freed with fl_free; "" when there is no such key. */
FL_MUST_CHECK
fl_status fl_redis_get(fl_redis_link *l, const char *key, char **out);

/* --- names of keys -------------------------------------------------------- */

/* Versions that count, the oldest first, apart by commas. */
char *fl_redis_current_key(const fl_redis_place *p);
/* A set of all versions that have keys. */
char *fl_redis_versions_key(const fl_redis_place *p);
/* A list of the tables of a version. */
char *fl_redis_tables_key(const fl_redis_place *p, const char *version);
/* Virtual shards whose rows are in one hash: so many that a batch of some hundred
   records asks each hash for many rows, since a command costs Redis more than
   a row. */
#define FL_REDIS_SHARDS 64

/* A hash: the rows of the shards of which this is one. */
char *fl_redis_shard_key(const fl_redis_place *p, const char *version,
                         const char *table, uint32_t shard);

/* Calls fn for each word between commas. */
void fl_redis_each_version(const char *current,
                           void (*fn)(void *arg, const char *version),
                           void *arg);

#endif
