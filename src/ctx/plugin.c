/* plugin.c - libraries of users. */
#include "ctx/plugin.h"

#include <dlfcn.h>

#include "base/alloc.h"
#include "flotilla/experimental/op.h"
#include "flotilla/experimental/plugin.h"

#define ENTRY "flotilla_plugin"
/* What every library that is linked with ours sees. */
#define OURS "fl_op_add_sized"

typedef fl_status (*entry_fn)(fl_ctx *c);

/* A library that brings a second libflotilla would add to that one's lists. */
static fl_status check_same(void *library, const char *path)
{
    fl_status (*ours)(const fl_op *, size_t) = fl_op_add_sized;
    void *theirs = dlsym(library, OURS), *here;

    memcpy(&here, &ours, sizeof(here));
    if (theirs && theirs != here)
        FL_FAIL(FL_ERR_UNSUPPORTED,
                "%s is linked with another libflotilla than this program; link "
                "both with the one that is installed",
                path);
    return FL_OK;
}

/* Never closed: descriptors of its own stay in our lists. */
static fl_status open_library(fl_ctx *c, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol;
    entry_fn entry;

    if (!library)
        FL_FAIL(FL_ERR_IO, "%s", dlerror());
    FL_TRY(check_same(library, path));
    symbol = dlsym(library, ENTRY);
    if (!symbol)
        FL_FAIL(FL_ERR_NOTFOUND,
                "%s has no function %s (flotilla/experimental/plugin.h)", path,
                ENTRY);
    memcpy(&entry, &symbol, sizeof(entry));
    return fl_err_ctx(entry(c), "%s", path);
}

fl_status fl_plugins_open(fl_ctx *c)
{
    char *list = fl_strdup(c->conf.plugins), *rest = NULL;
    fl_status st = FL_OK;

    for (char *path = strtok_r(list, ",", &rest); path && !st;
         path = strtok_r(NULL, ",", &rest))
        st = fl_err_ctx(open_library(c, path), "setting plugins");
    fl_free(list);
    return st;
}
