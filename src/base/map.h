/* map.h - names to pointers, open addressing.
 *
 * Keys are borrowed: they must outlive the map (they usually live in the same
 * arena as the values). Owner thread only.
 */
#ifndef FL_BASE_MAP_H
#define FL_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct fl_map_entry {
    const char *key; /* NULL: free; with value NULL: removed */
    void *value;
    uint64_t hash;
} fl_map_entry;

typedef struct fl_map {
    fl_map_entry *entries;
    size_t len, used, cap;
} fl_map;

void fl_map_release(fl_map *m);

/* Adds or replaces. value must not be NULL. */
void fl_map_put(fl_map *m, const char *key, void *value);
void *fl_map_find(const fl_map *m, const char *key);
void fl_map_remove(fl_map *m, const char *key);

#endif
