/* Stands for the drivers of GPUs: what of theirs the library asks. Memory of this "GPU" is what fake_allocate
 * has given, which the processor may not touch until fake_reach. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static int initialised;
static char* memory;
static size_t bytes;

void fake_initialise(void) {
  initialised = 1;
}
void* fake_allocate(size_t size) {
  bytes = size;
  memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}
void fake_reach(int reachable) {
  mprotect(memory, bytes, reachable ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static int owns(uintptr_t address) {
  return memory != NULL && address >= (uintptr_t)memory && address - (uintptr_t)memory < bytes;
}

/* Its last page is managed memory: of the GPU, and for the processor. */
int cuPointerGetAttribute(unsigned* value, int attribute, unsigned long long address) {
  if (!initialised) return 3;
  if (!owns(address)) return 1;
  if (attribute == 2) *value = 2;
  if (attribute == 8) *value = bytes - (address - (uintptr_t)memory) <= 4096;
  return attribute == 2 || attribute == 8 ? 0 : 1;
}

typedef struct {
  uint32_t size, type;
  void *agent_base, *host_base;
  size_t bytes;
  void* user_data;
  uint64_t owner;
} PointerInfo;

/* The last page is of the processor's agent. */
int hsa_amd_pointer_info(const void* address, PointerInfo* info, void* allocate, uint32_t* agents,
                         void* list) {
  (void)allocate, (void)agents, (void)list;
  if (!initialised) return 0x100b;
  if (info->size < sizeof *info) return 0x1001;
  info->type = owns((uintptr_t)address);
  info->owner = bytes - ((uintptr_t)address - (uintptr_t)memory) <= 4096 ? 7 : 8;
  return 0;
}
int hsa_agent_get_info(uint64_t agent, int attribute, int* value) {
  *value = agent == 8;
  return attribute == 17 ? 0 : 0x1001;
}

int zeDriverGet(uint32_t* count, void** drivers) {
  if (!initialised) return 0x78000001;
  if (drivers != NULL) drivers[0] = &initialised;
  *count = 1;
  return 0;
}
typedef struct {
  uint32_t kind;
  const void* next;
  uint32_t flags;
} ContextDescription;
int zeContextCreate(void* driver, const ContextDescription* description, void** context) {
  if (driver != &initialised || description->kind != 0xd) return 0x78000004;
  *context = &bytes;
  return 0;
}
typedef struct {
  uint32_t kind;
  void* next;
  uint32_t type;
  uint64_t id, page;
} Properties;
/* The last page is shared memory. */
int zeMemGetAllocProperties(void* context, const void* address, Properties* found, void** device) {
  if (context != &bytes || found->kind != 0x17 || device != NULL) return 0x78000004;
  found->type = 0;
  if (owns((uintptr_t)address))
    found->type = bytes - ((uintptr_t)address - (uintptr_t)memory) <= 4096 ? 3 : 2;
  return 0;
}
