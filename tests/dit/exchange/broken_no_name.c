#include "broken_table.h"
BROKEN_PLUGIN(table.name = "")
