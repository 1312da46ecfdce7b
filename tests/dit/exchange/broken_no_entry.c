/* A library that is no plugin. */
int not_the_entry_of_a_plugin(void);
int not_the_entry_of_a_plugin(void) {
  return 1;
}
