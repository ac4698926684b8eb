#include <string.h>

#include "analysis/tables/tables.h"

#define COLUMN(ENUMERATOR, NAME, TYPE, NULLABLE) {NAME, CELL_##TYPE, NULLABLE},
#define TABLE(ENUMERATOR, COLUMNS, NAME, KEY)                                                      \
    static const struct table_column columns_of_##ENUMERATOR[] = {COLUMNS(COLUMN)};                \
    _Static_assert(sizeof columns_of_##ENUMERATOR / sizeof *columns_of_##ENUMERATOR <=             \
                       TABLE_WIDTH_MAX,                                                            \
                   NAME);
TABLES(TABLE)
#undef TABLE
#undef COLUMN

static const struct table tables[TABLE_COUNT] = {
#define TABLE(ENUMERATOR, COLUMNS, NAME, KEY)                                                      \
    [ENUMERATOR] = {NAME, columns_of_##ENUMERATOR, COLUMNS##_WIDTH, KEY},
    TABLES(TABLE)
#undef TABLE
};

const struct table *table_get(enum table_id id)
{
    return &tables[id];
}

bool table_find(const char *name, enum table_id *id)
{
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (strcmp(tables[i].name, name) == 0) {
            *id = (enum table_id)i;
            return true;
        }
    }
    return false;
}
