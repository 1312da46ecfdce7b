/* Knows no MPI: opens the plugin that does, as interpreters do. Usage: plugin_host PLUGIN */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  int (*run)(void) = NULL;
  if (plugin != NULL) *(void**)&run = dlsym(plugin, "run");
  if (run == NULL) {
    fprintf(stderr, "plugin_host: %s\n", argc > 1 ? dlerror() : "no plugin named");
    return 2;
  }
  return run();
}
