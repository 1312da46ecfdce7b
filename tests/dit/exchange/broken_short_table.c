#include "broken_table.h"
BROKEN_PLUGIN(table.struct_size = 100)
