/* position.c - how far a pass over the data is. */
#include "data/dataset/position.h"

#include <string.h>

void fl_ranges_add(fl_ranges *r, uint64_t lo, uint64_t hi)
{
    if (lo == hi)
        return;
    if (r->len && r->data[r->len - 1].hi == lo)
        r->data[r->len - 1].hi = hi;
    else
        fl_vec_push(r, ((fl_range){ lo, hi }));
}

uint64_t fl_ranges_sum(const fl_ranges *r)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < r->len; i++)
        sum += r->data[i].hi - r->data[i].lo;
    return sum;
}

/* The range of the two lists that begins first, and is taken away from its
   list. */
static fl_range take_first(const fl_ranges *a, size_t *i, const fl_ranges *b,
                           size_t *k)
{
    bool is_of_b =
        *i == a->len || (*k < b->len && b->data[*k].lo < a->data[*i].lo);

    return is_of_b ? b->data[(*k)++] : a->data[(*i)++];
}

void fl_ranges_unite(fl_ranges *r, const fl_ranges *other)
{
    fl_ranges all = { 0 };
    size_t i = 0, k = 0;

    while (i < r->len || k < other->len) {
        fl_range next = take_first(r, &i, other, &k);
        fl_range *last = all.len ? &all.data[all.len - 1] : NULL;

        if (!last || next.lo > last->hi)
            fl_vec_push(&all, next);
        else if (next.hi > last->hi)
            last->hi = next.hi;
    }
    fl_vec_release(r);
    *r = all;
}

void fl_position_unite(fl_position *p, const fl_position *other)
{
    for (size_t i = 0; i < other->files.len; i++) {
        const fl_file_position *from = &other->files.data[i];
        fl_file_position *to = fl_position_find(p, from->path);

        if (!to)
            to = fl_position_add(p, from->path);
        to->is_done = to->is_done || from->is_done;
        to->is_cached = to->is_cached || from->is_cached;
        fl_ranges_unite(&to->trained, &from->trained);
    }
}

void fl_position_release(fl_position *p)
{
    for (size_t i = 0; i < p->files.len; i++) {
        fl_free(p->files.data[i].path);
        fl_vec_release(&p->files.data[i].trained);
    }
    fl_vec_release(&p->files);
    fl_vec_release(&p->trained);
    *p = (fl_position){ 0 };
}

fl_file_position *fl_position_add(fl_position *p, const char *path)
{
    fl_vec_push(&p->files, ((fl_file_position){ .path = fl_strdup(path) }));
    return &p->files.data[p->files.len - 1];
}

fl_file_position *fl_position_find(const fl_position *p, const char *path)
{
    for (size_t i = 0; i < p->files.len; i++)
        if (!strcmp(p->files.data[i].path, path))
            return &p->files.data[i];
    return NULL;
}
