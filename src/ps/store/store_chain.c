/* store_chain.c - the version that what a server holds stands on. */
#include "ps/store/store_chain.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "table/cut.h"

void fl_store_chain_set(fl_store_chain *c, const char *dir, const char *id,
                        fl_store_epochs *epochs)
{
    fl_store_chain_release(c);
    c->dir = fl_strdup(dir);
    (void)snprintf(c->id, sizeof(c->id), "%s", id);
    c->epochs = *epochs;
    *epochs = (fl_store_epochs){ 0 };
}

void fl_store_chain_release(fl_store_chain *c)
{
    fl_free(c->dir);
    fl_vec_release(&c->epochs);
    *c = (fl_store_chain){ 0 };
}

bool fl_store_chain_is_in(const fl_store_chain *c, const char *dir)
{
    return *c->id && !strcmp(c->dir, dir);
}

bool fl_store_chain_knows(const fl_store_chain *c, size_t i, fl_table *t)
{
    uint32_t known = fl_table_watched_since(t);

    return i < c->epochs.len && known && known <= c->epochs.data[i];
}
