/* added.c - adding to a list of descriptors. */
#include "base/added.h"

static fl_status push(fl_added *a, const fl_addition *add)
{
    const void *same = add->find(add->name);
    size_t n = fl_added_count(a);

    if (same == add->item)
        return FL_OK;
    if (same)
        FL_FAIL(FL_ERR_EXISTS, "%s %s exists already; give yours another name",
                add->what, add->name);
    if (n == FL_ADDED_MAX)
        FL_FAIL(FL_ERR_INVAL, "%s %s: %d of them were added, there is no room",
                add->what, add->name, FL_ADDED_MAX);
    a->all[n] = add->item;
    atomic_store_explicit(&a->n, n + 1, memory_order_release);
    return FL_OK;
}

fl_status fl_added_push(fl_added *a, const fl_addition *add)
{
    fl_status st;

    if (!add->name || !*add->name)
        FL_FAIL(FL_ERR_INVAL, "an empty name cannot be that of an added %s",
                add->what);
    pthread_mutex_lock(&a->lock);
    st = push(a, add);
    pthread_mutex_unlock(&a->lock);
    return st;
}

fl_status fl_added_check_size(const char *what, size_t size, size_t ours)
{
    if (size != ours)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "the %s was built with the headers of another version (its "
                "descriptor has %zu bytes, here %zu); compile it anew",
                what, size, ours);
    return FL_OK;
}
