#include "broken_table.h"
BROKEN_PLUGIN(table.split = 0)
