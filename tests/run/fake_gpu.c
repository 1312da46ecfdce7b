/* Stands for the drivers of GPUs: what of theirs the library asks. Memory of this "GPU" is what fake_allocate
 * has given, which the processor may not touch until fake_reach; copies by the driver may. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static int initialised;
static char* memory;
static size_t bytes;
static int reachable;
static int contexts; /* on the stack of the thread that copies */
static int copies;
static char streams[64];
static int made; /* of these */
static void* waited;
static int copies_wait; /* whether they are done when they return */
static char pending[1 << 20];
static void* pending_to;
static size_t pending_bytes;

void fake_initialise(void) {
  initialised = 1;
}
/* At an address that is free, as drivers choose them too; null: anywhere. */
void* fake_allocate_at(void* place, size_t size) {
  bytes = size;
  memory = mmap(place, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | (place != NULL ? MAP_FIXED : 0), -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}
void* fake_allocate(size_t size) {
  return fake_allocate_at(NULL, size);
}
static void let(int touch) {
  if (memory != NULL) mprotect(memory, bytes, touch ? PROT_READ | PROT_WRITE : PROT_NONE);
}
void fake_reach(int to) {
  reachable = to;
  let(to);
}
/* Copies that the driver has made. */
int fake_copies(void) {
  return copies;
}

static void finish_upload(void) {
  if (pending_to == NULL) return;
  let(1);
  memcpy(pending_to, pending, pending_bytes);
  let(reachable);
  pending_to = NULL;
}
/* A copy from pageable memory as programs make it: on the default stream, and on its way when it returns. */
void fake_upload(void* to, const void* from, size_t size) {
  finish_upload();
  if (size > sizeof pending) return;
  memcpy(pending, from, size);
  pending_to = to;
  pending_bytes = size;
  if (copies_wait) finish_upload();
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

int cuPointerSetAttribute(const void* value, int attribute, unsigned long long address) {
  if (!owns(address) || attribute != 6) return 1;
  copies_wait = *(const int*)value;
  return 0;
}
int cuStreamIsCapturing(void* stream, int* state) {
  *state = 0;
  return (uintptr_t)stream == 1 || (uintptr_t)stream == 2 ? 0 : 400;
}

/* 1 context, 7 allocation, 9 device, 10 whether it can be shared, 11 begin, 12 length. */
int cuPointerGetAttributes(unsigned count, const int* attributes, void** values, unsigned long long address) {
  const int mine = owns(address);
  if (!initialised) return 3;
  for (unsigned i = 0; i < count; ++i) {
    unsigned value = 0;
    switch (attributes[i]) {
      case 1:
        *(void**)values[i] = NULL;
        break;
      case 7:
        *(unsigned long long*)values[i] = mine ? 1 : 0;
        break;
      case 9:
        *(int*)values[i] = mine ? 0 : -2;
        break;
      case 11:
        *(unsigned long long*)values[i] = mine ? (uintptr_t)memory : 0;
        break;
      case 12:
        *(size_t*)values[i] = mine ? bytes : 0;
        break;
      default:
        if (mine) cuPointerGetAttribute(&value, attributes[i], address);
        *(unsigned*)values[i] = value;
    }
  }
  return 0;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &bytes;
  return device == 0 ? 0 : 101;
}
int cuCtxPushCurrent_v2(void* context) {
  ++contexts;
  return context == &bytes ? 0 : 201;
}
int cuCtxPopCurrent_v2(void** context) {
  *context = &bytes;
  return contexts-- > 0 ? 0 : 201;
}
int cuStreamCreate(void** stream, unsigned flags) {
  if (contexts == 0 || flags != 1 || made == (int)sizeof streams) return 201;
  *stream = &streams[made++];
  return 0;
}
static int is_stream(const void* stream) {
  return (uintptr_t)stream - (uintptr_t)streams < (uintptr_t)made;
}
/* The last stream that was waited for. */
void* fake_waited_for(void) {
  return waited;
}
int cuStreamSynchronize(void* stream) {
  if ((uintptr_t)stream == 1) finish_upload(); /* the default stream */
  if ((uintptr_t)stream == 1 || (uintptr_t)stream == 2) return contexts > 0 ? 0 : 201;
  waited = stream;
  return contexts > 0 && is_stream(stream) ? 0 : 400;
}
int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t size, void* stream) {
  if (contexts == 0 || !is_stream(stream)) return 400;
  let(1);
  memcpy((void*)(uintptr_t)to, (const void*)(uintptr_t)from, size);
  let(reachable);
  ++copies;
  return 0;
}
typedef struct {
  size_t from_x, from_y;
  unsigned from_type;
  const void* from_host;
  unsigned long long from;
  void* from_array;
  size_t from_pitch, to_x, to_y;
  unsigned to_type;
  void* to_host;
  unsigned long long to;
  void* to_array;
  size_t to_pitch, width, height;
} Copy2D;
int cuMemcpy2DAsync_v2(const Copy2D* copy, void* stream) {
  if (copy->from_type != 4 || copy->to_type != 4 || copy->width > copy->from_pitch ||
      copy->width > copy->to_pitch)
    return 1;
  for (size_t row = 0; row < copy->height; ++row) {
    const int code = cuMemcpyAsync(copy->to + row * copy->to_pitch, copy->from + row * copy->from_pitch,
                                   copy->width, stream);
    if (code != 0) return code;
  }
  return 0;
}
int cuMemHostRegister_v2(void* address, size_t size, unsigned flags) {
  return address != NULL && size > 0 && flags == 1 ? 0 : 1;
}
int cuMemHostUnregister(void* address) {
  return address != NULL ? 0 : 1;
}
int cuMemAlloc_v2(unsigned long long* address, size_t size) {
  (void)address, (void)size;
  return 2;
}
int cuMemFree_v2(unsigned long long address) {
  (void)address;
  return 0;
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
