/* stats_kit.h - looking into the statistics of a store. */
#ifndef FL_TESTS_PS_STATS_KIT_H
#define FL_TESTS_PS_STATS_KIT_H

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

/* The object of that name in a list; name NULL: the first. */
static inline const cJSON *find_item(const cJSON *root, const char *list,
                                     const char *name)
{
    const cJSON *item;

    cJSON_ArrayForEach(
        item,
        cJSON_GetObjectItem(
            root,
            list)) if (!name ||
                       !strcmp(cJSON_GetObjectItem(item, "name")->valuestring,
                               name)) return item;
    fail_msg("no %s in %s", name ? name : "item", list);
    return NULL;
}

/* "rows=10 pulls=1": those numbers are in the object. */
static inline void expect_numbers(const cJSON *root, const char *list,
                                  const char *name, const char *numbers)
{
    const cJSON *item = find_item(root, list, name);
    double want;
    char key[64];
    int len;

    while (sscanf(numbers, " %63[a-z_]=%lf%n", key, &want, &len) == 2) {
        const cJSON *n = cJSON_GetObjectItem(item, key);

        if (!cJSON_IsNumber(n) || n->valuedouble != want)
            fail_msg("%s of %s is %g and not %g", key, name ? name : list,
                     cJSON_GetNumberValue(n), want);
        numbers += len;
    }
    assert_int_equal(strlen(numbers), 0);
}

#endif
