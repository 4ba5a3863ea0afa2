/* timers.c - a binary heap of slots. An id is a slot's number and its
 * generation, which changes whenever the slot is given up. */
#include "rpc/loop/timers.h"

void fl_timers_release(fl_timers *t)
{
    fl_vec_release(&t->slots);
    fl_vec_release(&t->heap);
}

static bool is_sooner(const fl_timers *t, uint32_t a, uint32_t b)
{
    const fl_timer_slot *x = &t->slots.data[a], *y = &t->slots.data[b];

    return x->at_ms != y->at_ms ? x->at_ms < y->at_ms : x->order < y->order;
}

static void put(fl_timers *t, size_t place, uint32_t slot)
{
    t->heap.data[place] = slot;
    t->slots.data[slot].place = (uint32_t)place;
}

static void move_up(fl_timers *t, size_t place)
{
    uint32_t slot = t->heap.data[place];

    while (place > 0) {
        size_t parent = (place - 1) / 2;

        if (!is_sooner(t, slot, t->heap.data[parent]))
            break;
        put(t, place, t->heap.data[parent]);
        place = parent;
    }
    put(t, place, slot);
}

static void move_down(fl_timers *t, size_t place)
{
    uint32_t slot = t->heap.data[place];

    for (;;) {
        size_t child = 2 * place + 1;

        if (child >= t->heap.len)
            break;
        if (child + 1 < t->heap.len &&
            is_sooner(t, t->heap.data[child + 1], t->heap.data[child]))
            child++;
        if (!is_sooner(t, t->heap.data[child], slot))
            break;
        put(t, place, t->heap.data[child]);
        place = child;
    }
    put(t, place, slot);
}

static uint32_t take_slot(fl_timers *t)
{
    uint32_t slot;

    if (!t->first_free) {
        FL_ASSERT(t->slots.len < UINT32_MAX);
        fl_vec_push(&t->slots, (fl_timer_slot){ .generation = 1 });
        return (uint32_t)(t->slots.len - 1);
    }
    slot = t->first_free - 1;
    t->first_free = t->slots.data[slot].place;
    return slot;
}

/* Out of the heap, and the slot is free. */
static void drop(fl_timers *t, uint32_t slot)
{
    fl_timer_slot *s = &t->slots.data[slot];
    size_t place = s->place;
    uint32_t last = t->heap.data[--t->heap.len];

    s->fn = NULL;
    s->generation++;
    s->place = t->first_free;
    t->first_free = slot + 1;
    if (last == slot)
        return;
    put(t, place, last);
    move_up(t, place);
    move_down(t, t->slots.data[last].place);
}

uint64_t fl_timers_add(fl_timers *t, uint64_t at_ms, fl_loop_fn fn, void *arg)
{
    uint32_t slot = take_slot(t);
    fl_timer_slot *s = &t->slots.data[slot];

    FL_ASSERT(fn);
    s->at_ms = at_ms;
    s->order = t->next_order++;
    s->fn = fn;
    s->arg = arg;
    fl_vec_push(&t->heap, slot);
    move_up(t, t->heap.len - 1);
    return (uint64_t)s->generation << 32 | ((uint64_t)slot + 1);
}

void fl_timers_remove(fl_timers *t, uint64_t id)
{
    uint64_t number = id & UINT32_MAX;
    fl_timer_slot *s;

    if (!number || number > t->slots.len)
        return;
    s = &t->slots.data[number - 1];
    if (s->fn && s->generation == (uint32_t)(id >> 32))
        drop(t, (uint32_t)(number - 1));
}

uint64_t fl_timers_next_ms(const fl_timers *t)
{
    return t->heap.len ? t->slots.data[t->heap.data[0]].at_ms : UINT64_MAX;
}

bool fl_timers_take(fl_timers *t, uint64_t now_ms, uint64_t order,
                    fl_loop_fn *fn, void **arg)
{
    const fl_timer_slot *s;

    if (!t->heap.len)
        return false;
    s = &t->slots.data[t->heap.data[0]];
    if (s->at_ms > now_ms || s->order >= order)
        return false;
    *fn = s->fn;
    *arg = s->arg;
    drop(t, t->heap.data[0]);
    return true;
}
