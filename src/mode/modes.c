/* modes.c - the only place that expands the list of modes. */
#include <string.h>

#include "mode/mode.h"

static const fl_mode *const all[] = {
#define FL_MODE(name) &fl_mode_##name,
#include "mode/modes.def"
#undef FL_MODE
};

size_t fl_mode_count(void)
{
    return FL_LEN(all);
}

const fl_mode *fl_mode_at(size_t i)
{
    return all[i];
}

const fl_mode *fl_mode_find(const char *name)
{
    for (size_t i = 0; i < FL_LEN(all); i++)
        if (!strcmp(all[i]->name, name))
            return all[i];
    return NULL;
}

bool fl_mode_is_of_jobs(const fl_mode *m)
{
    return m->needs_servers || m->workers_serve;
}

bool fl_mode_reads(const fl_mode *m, const char *setting)
{
    size_t len = strlen(setting);

    for (const char *at = m->settings; at && *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");

        if (n == len && !strncmp(at, setting, len))
            return true;
        at += n;
    }
    return false;
}
