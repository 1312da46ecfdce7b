extern "C" void nothing_of_use() {}
