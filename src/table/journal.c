/* journal.c - which keys of a partition changed. */
#include "table/journal.h"

#include <string.h>

#include "base/alloc.h"

#define FIRST_CAP 1024

static size_t bytes_of(const fl_journal_keys *log)
{
    return log->cap * sizeof(*log->keys);
}

static void empty(fl_journal *c)
{
    for (int i = 0; i < FL_CHANGES; i++) {
        fl_journal_keys *log = &c->logs[i];

        fl_data_free(log->keys, bytes_of(log));
        fl_vec_release(&log->marks);
        *log = (fl_journal_keys){ 0 };
    }
}

void fl_journal_start(fl_journal *c, uint32_t epoch)
{
    empty(c);
    c->from = epoch;
}

void fl_journal_stop(fl_journal *c)
{
    fl_journal_start(c, 0);
}

static bool make_room(fl_journal_keys *log)
{
    size_t cap = log->cap ? 2 * log->cap : FIRST_CAP;
    uint64_t *keys;

    if (log->len < log->cap)
        return true;
    keys = fl_try_alloc(cap * sizeof(*keys));
    if (!keys)
        return false;
    if (log->len)
        memcpy(keys, log->keys, log->len * sizeof(*keys));
    fl_data_free(log->keys, bytes_of(log));
    log->keys = keys;
    log->cap = cap;
    return true;
}

void fl_journal_add(fl_journal *c, fl_change kind, uint64_t key, uint32_t epoch,
                    size_t most)
{
    fl_journal_keys *log = &c->logs[kind];

    if (!c->from)
        return;
    if (log->len >= most || !make_room(log)) {
        fl_journal_stop(c);
        return;
    }
    if (!log->marks.len || log->marks.data[log->marks.len - 1].epoch < epoch)
        fl_vec_push(&log->marks, ((fl_journal_mark){ epoch, log->len }));
    log->keys[log->len++] = key;
}

size_t fl_journal_begin(const fl_journal_keys *log, uint32_t epoch)
{
    for (size_t i = 0; i < log->marks.len; i++)
        if (log->marks.data[i].epoch >= epoch)
            return log->marks.data[i].at;
    return log->len;
}

static void trim(fl_journal_keys *log, uint32_t since)
{
    size_t n = fl_journal_begin(log, since), n_marks = 0;

    if (!n)
        return;
    log->len -= n;
    memmove(log->keys, log->keys + n, log->len * sizeof(*log->keys));
    for (size_t i = 0; i < log->marks.len; i++) {
        fl_journal_mark m = log->marks.data[i];

        if (m.epoch >= since)
            log->marks.data[n_marks++] = (fl_journal_mark){ m.epoch, m.at - n };
    }
    log->marks.len = n_marks;
}

void fl_journal_trim(fl_journal *c, uint32_t since)
{
    if (since <= c->from)
        return;
    for (int i = 0; i < FL_CHANGES && c->from; i++)
        trim(&c->logs[i], since);
    c->from = c->from ? since : 0;
}

size_t fl_journal_bytes(const fl_journal *c)
{
    size_t sum = 0;

    for (int i = 0; i < FL_CHANGES; i++)
        sum += bytes_of(&c->logs[i]);
    return sum;
}
