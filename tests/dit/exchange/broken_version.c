#include "broken_table.h"
BROKEN_PLUGIN(table.version = 7)
