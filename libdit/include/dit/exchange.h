/** @file
 * The exchange plugin interface: how libdit, or any other engine, moves blocks of bytes between ranks.
 *
 * A plugin is a shared library that exports one function, dit_exchange_plugin_v1, which returns a table of
 * functions. It knows nothing of attention, tensors or models. libdit finds plugins by name (libdit-exchange-
 * NAME.so on the search path) or has them linked in. The interface is C, versioned, and grows only at the end
 * of its structs: struct_size tells how much of a struct the other side knows. Both sides take structs of
 * other sizes: what a smaller one lacks counts as zero, what a larger one has more is not read. Functions at
 * the end of the table may be missing: look with DIT_EXCHANGE_HAS before they are called.
 *
 * Threads: different contexts, and different channels of one context, may be used by different threads at the
 * same time: start, and test, wait and cancel for the channel's requests; totals and describe by any. What
 * belongs to a context as a whole (open, close, split, open_channel, register_memory, unregister_memory) is
 * called while no other thread uses it. Plugins over MPI need MPI_THREAD_MULTIPLE for that; describe says
 * what they have.
 *
 * Device memory: start puts the exchange on a stream of the device, behind what is there, and does not wait
 * for it; wait_stream makes other streams wait for its end. The exchanges of device memory of a context are
 * in one order on all ranks, whatever their channels, and its plugin keeps them in that order on the device.
 * A stream that is captured records the exchange for replays; test and wait then find it done, as for the
 * host it is. The first exchange of device memory, and register_memory, are not captured: they prepare what
 * later ones need. A rank that does not come in time ends the exchanges of device memory with
 * DIT_ERROR_COMMUNICATION and words that name it; those of host memory go on.
 *
 * Errors: functions return a dit_status; last_error then tells in words which argument was wrong, its value,
 * and what would have been right. No function ends the program but abort_job.
 *
 * Buffers: what an exchange sends and receives belongs to the caller, and is in use until the exchange is
 * done: until wait or test set the request to null (also when they fail), or start gave none. A failure that
 * leaves the request as it is leaves the exchange under way: the plugin may still read and write the buffers.
 * The caller then waits or tests again, or gives the request up with cancel and keeps the buffers until the
 * plugin calls `release`. A late peer completes the exchange, whether it was given up or not, and the context
 * stays good.
 */
#ifndef DIT_EXCHANGE_H
#define DIT_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DIT_EXCHANGE_VERSION 1                      /**< version of this interface */
#define DIT_EXCHANGE_ENTRY "dit_exchange_plugin_v1" /**< name of the function that a plugin exports */

/** What a function has to say. */
typedef enum dit_status {
  DIT_OK = 0,
  DIT_ERROR_ARGUMENT = 1,      /**< an argument is wrong; nothing was done */
  DIT_ERROR_UNSUPPORTED = 2,   /**< this plugin cannot do that (a memory kind, a split) */
  DIT_ERROR_COMMUNICATION = 3, /**< the layer below failed; the context is only good for close */
  DIT_ERROR_TIMEOUT = 4,       /**< a peer did not arrive in time; last_error says which, as far as that can
                                    be known. The exchange is still under way, see wait and cancel */
  DIT_ERROR_MEMORY = 5,        /**< an allocation failed; nothing was done */
  DIT_ERROR_INTERNAL = 6       /**< a bug of the plugin */
} dit_status;

/** Where buffers lie. */
typedef enum dit_memory_kind { DIT_MEMORY_HOST = 0, DIT_MEMORY_CUDA = 1 } dit_memory_kind;

/** One peer's bytes in a buffer. */
typedef struct dit_block {
  size_t offset; /**< bytes from the start of the buffer */
  size_t bytes;  /**< may be 0 */
} dit_block;

/** One peer's bytes that do not lie together: planes of rows of row_bytes bytes, in this order. An image's
 * tokens are rows, its batch may be planes. Zero in any of the three is no bytes. */
typedef struct dit_strided_block {
  size_t offset;       /**< bytes from the start of the buffer to the first row */
  size_t row_bytes;    /**< bytes that lie together */
  size_t rows;         /**< in a plane */
  size_t row_stride;   /**< bytes from a row to the next; row_bytes or more */
  size_t planes;       /**< 1 when there is one */
  size_t plane_stride; /**< bytes from a plane to the next; not read with one plane */
} dit_strided_block;

/** Which rows of which blocks travel. A row is row_bytes bytes; every block is a whole number of rows. For
 * peers that are reached at `boundary` or a slower level only the active rows travel, and the receiver's
 * other rows stay as they are; for nearer peers (and the rank itself) all rows travel. What a rank sends to a
 * peer and what that peer expects from it must be equal: both sides know the lists when the exchange starts.
 */
typedef struct dit_row_selection {
  size_t struct_size;        /**< sizeof(dit_row_selection) */
  uint64_t id;               /**< equal ids in one context mean equal selections on all ranks: a plugin may
                                  keep what it prepared for an id; 0: do not keep */
  size_t row_bytes;          /**< > 0 */
  int boundary;              /**< level, see level_of; 0: select everywhere but on the rank itself;
                                  level_count: nowhere. The lists for nearer peers are not read */
  const size_t* send_counts; /**< active rows of the block for each peer; size entries */
  const uint32_t* const* send_rows; /**< ascending row numbers within the block, for each peer */
  const size_t* recv_counts;        /**< active rows of the block from each peer */
  const uint32_t* const* recv_rows; /**< ascending row numbers within the block, from each peer */
} dit_row_selection;

/** The exchange must be complete when start returns DIT_OK; it need not make progress in the background. When
 * start fails with DIT_ERROR_TIMEOUT it is under way, and `*request` is set. */
#define DIT_EXCHANGE_BLOCKING 1u

/** One all-to-all. All ranks of a context make the same calls in the same order, channel by channel. Arrays
 * are copied by start; buffers are in use until the exchange is done, see above. What is received must not
 * overlap anything; sent blocks may overlap each other. */
typedef struct dit_exchange_call {
  size_t struct_size;                 /**< sizeof(dit_exchange_call) */
  const void* send;                   /**< may be null when this rank sends nothing */
  void* recv;                         /**< may be null when this rank receives nothing */
  const dit_block* send_blocks;       /**< block for each peer, itself too; size entries */
  const dit_block* recv_blocks;       /**< block from each peer; bytes must equal the sender's */
  const dit_row_selection* selection; /**< null: everything travels */
  int memory_kind;                    /**< a dit_memory_kind, of both buffers */
  int device;                         /**< device number; 0 for host memory */
  void* stream;                       /**< device stream that the exchange is put on; null: the default one */
  unsigned flags;                     /**< 0 or DIT_EXCHANGE_BLOCKING */
  const char* label;                  /**< what is exchanged, for messages and traces; may be null */
  uint64_t layout_id; /**< equal ids in one context mean equal sizes of all blocks between all ranks: a plugin
                         may keep what it prepared for an id, and then need not ask the other ranks; 0: do not
                         keep */
  int channel;        /**< 0, or one that open_channel gave */
  /** Blocks with strides, in place of send_blocks and recv_blocks, which then are not read; each may be null.
   * The bytes of a block are what its sender and its receiver must agree on, not their strides. Only with
   * plugins that have DIT_CAPABILITY_STRIDED or, of device memory, DIT_CAPABILITY_DEVICE_STRIDED, and without
   * a selection. That strided blocks do not overlap is not checked. Of device memory all ranks of an exchange
   * have some, or none has. */
  const dit_strided_block* send_strided;
  const dit_strided_block* recv_strided; /**< see send_strided */
} dit_exchange_call;

/** How a context is opened. */
typedef struct dit_open_options {
  size_t struct_size;     /**< sizeof(dit_open_options) */
  void* communicator;     /**< null: all processes of the job. mpi, tapa, nccl: MPI_Comm*; bootstrap:
                               dit_bootstrap*; local: what dit_local_group_member gave */
  double timeout_seconds; /**< a wait that takes longer fails with DIT_ERROR_TIMEOUT; 0: never. It may be
                               exceeded by a moment in which the missing ranks are found out */
  const char* config;     /**< plugin's own settings as "key=value,key=value"; may be null */
} dit_open_options;

typedef struct dit_context dit_context; /**< one group of ranks; the plugin's own */
typedef struct dit_request dit_request; /**< one exchange under way; the plugin's own */
typedef struct dit_memory dit_memory;   /**< registered memory; the plugin's own */

/** What one rank of a context has moved, for reports. Bytes by the level at which the peer is reached. */
typedef struct dit_exchange_totals {
  size_t struct_size;      /**< sizeof(dit_exchange_totals) */
  uint64_t exchanges;      /**< finished; of device memory: started */
  uint64_t sent_bytes[16]; /**< payload this rank addressed to peers of each level; index as in level_of;
                                what it sends to itself is not counted */
  double wait_seconds;     /**< spent in wait, and in start of blocking exchanges */
} dit_exchange_totals;

/** What a plugin can do beside what all can, see dit_exchange_plugin::capabilities. */
#define DIT_CAPABILITY_STRIDED 1u        /**< strided blocks of host memory, not packed on their way */
#define DIT_CAPABILITY_DEVICE_STRIDED 2u /**< the same of device memory */
#define DIT_CAPABILITY_STORES 4u         /**< peer_memory, begin_stores and end_stores are there */

/** Called once when the buffers of a cancelled exchange are no longer used, by the thread of the call of the
 * context that finds it out. It must not call the context. */
typedef void (*dit_release)(void* user);

/** The table of functions. None may be null unless said so. */
typedef struct dit_exchange_plugin {
  size_t struct_size;      /**< sizeof(dit_exchange_plugin) as the plugin was built */
  uint32_t version;        /**< DIT_EXCHANGE_VERSION as the plugin was built */
  const char* name;        /**< short: "tapa" */
  const char* description; /**< a line: what it is, and of which library in which version */

  /** Opens a context. Collective over the communicator. */
  dit_status (*open)(const dit_open_options* options, dit_context** context);
  /** Waits for what is under way, cancelled or not, and closes. Collective. Null is a no-op. The context is
   * gone however it ends. When it fails the buffers of exchanges that are not done must stay for good, but
   * for those whose release was called. */
  dit_status (*close)(dit_context* context);
  /** This rank's number in the context. */
  int (*rank)(const dit_context* context);
  /** Number of ranks of the context. */
  int (*size)(const dit_context* context);
  /** Number of levels, >= 1; levels are numbered from fast (0) to slow (count - 1), at most 16. */
  int (*level_count)(const dit_context* context);
  /** Name of a level ("tile", "node", "world"), or null when there is no such level. Lives as long as the
   * context. */
  const char* (*level_name)(const dit_context* context, int level);
  /** The level at which this rank reaches a peer: the smallest group that holds both. 0 for itself. */
  int (*level_of)(const dit_context* context, int peer);
  /** The first level that leaves a node (crosses NICs); level_count when there is none. Same on all ranks. */
  int (*slow_level)(const dit_context* context);

  /** Starts an exchange. Collective in order; `*request` is null when it is already complete, and when start
   * fails, but for a blocking exchange that was started and whose wait failed: see wait. Progress goes on
   * while the caller computes, without further calls. */
  dit_status (*start)(dit_context* context, const dit_exchange_call* call, dit_request** request);
  /** Sets *done; when it is 1 the request is freed and set to null. A null request is done. Failures: see
   * wait. */
  dit_status (*test)(dit_context* context, dit_request** request, int* done);
  /** Waits, frees the request and sets it to null. A null request is done. After a failure the request is
   * null when the buffers are no longer used (the ranks did not agree on sizes, say), and else as it was:
   * after DIT_ERROR_TIMEOUT wait and test may be called again, for as long again. */
  dit_status (*wait)(dit_context* context, dit_request** request);

  /** New contexts of the ranks with equal colour, ordered by key, then rank. Collective. colour < 0: *result
   * null. */
  dit_status (*split)(dit_context* context, int colour, int key, dit_context** result);
  /** What was moved since open, but for what kernels of the caller's store. */
  dit_status (*totals)(const dit_context* context, dit_exchange_totals* totals);
  /** A text about the context (levels, library, thread support), at most `bytes` with the final zero; returns
   * its full length. */
  size_t (*describe)(const dit_context* context, char* text, size_t bytes);
  /** Words for the last error of this thread; context may be null (then: of open). "" when there was none. */
  const char* (*last_error)(const dit_context* context);
  /** Ends all ranks of the job after a failure of this one; does not return where the job has several
   * processes. */
  void (*abort_job)(dit_context* context, int exit_code);

  /* The table of the first plugins ended here. What follows may be missing, or null. */

  /** Gives an exchange up and sets the request to null; nobody is told, and its other ranks complete it with
   * this rank's data. The caller keeps the buffers as they are until `release` (may be null) is called with
   * `user`, exactly once: now, if the exchange is done; or in a later call of the context (start, test, wait,
   * cancel, close), once its late ranks have come; or never, when they never come, when the context fails
   * with DIT_ERROR_COMMUNICATION, or when close fails. A null request: `release` is called now. Fails with
   * DIT_ERROR_ARGUMENT only, without having done anything. */
  dit_status (*cancel)(dit_context* context, dit_request** request, dit_release release, void* user);
  /** A new channel, a number > 0. Exchanges of different channels never meet each other, so different ranks
   * may start them in different orders, and one that is late holds up those of its channel only. Every
   * context has channel 0. Collective, like the calls of channel 0. Channels end with the context; they cost
   * what a communicator costs. */
  dit_status (*open_channel)(dit_context* context, int* channel);
  /** DIT_CAPABILITY_...; 0 in shorter tables. */
  uint64_t capabilities;
  /** Tells the plugin of memory that exchanges will use again and again, so that it can prepare it once: pin
   * it, register it with the network, map it into peers. Collective, like the calls of channel 0; ranks may
   * register different numbers of bytes, also none. The memory stays the caller's, who unregisters it before
   * freeing it. Exchanges work the same with any memory, registered or not. Null where nothing can be
   * prepared. */
  dit_status (*register_memory)(dit_context* context, void* pointer, size_t bytes, int memory_kind,
                                int device, dit_memory** memory);
  /** Ends what register_memory began and sets the handle to null; no exchange under way uses the memory.
   * Collective; null on all ranks is a no-op. Null where register_memory is. */
  dit_status (*unregister_memory)(dit_context* context, dit_memory** memory);
  /** Makes a device stream wait: what is put into `stream` afterwards sees what was received and may
   * overwrite what was sent. Does not wait itself. The request stays, for wait or test, which may be called
   * at once or later. A null request: nothing to wait for. Null where the plugin moves host memory only. */
  dit_status (*wait_stream)(dit_context* context, dit_request* request, void* stream);
  /** Where this rank sees a rank's part of registered memory, its own too: device addresses, valid until
   * unregister_memory, for kernels of the caller's that store into them between begin_stores and end_stores.
   * Local. DIT_ERROR_UNSUPPORTED where that part cannot be reached (memory of an allocator that cannot be
   * shared, a rank of another node, no bytes). Null without DIT_CAPABILITY_STORES, as the two below. */
  dit_status (*peer_memory)(dit_context* context, const dit_memory* memory, int rank, void** begin);
  /** Kernels that are put into `stream` afterwards may store into the memory of all ranks: those have all
   * come to this call in their streams, behind whatever read the memory before. Collective in order, like an
   * exchange of device memory; nothing else of the context comes between it and end_stores. Does not wait
   * itself. */
  dit_status (*begin_stores)(dit_context* context, const dit_memory* memory, void* stream);
  /** What is put into `stream` afterwards sees the stores of all ranks. The stream of begin_stores. The
   * request is as of start: for test, wait, wait_stream and cancel. */
  dit_status (*end_stores)(dit_context* context, const dit_memory* memory, void* stream,
                           dit_request** request);
  /** This rank's program has failed, and starts no more exchanges of device memory: later calls fail with
   * `why`, and ranks whose devices wait for it fail at once, as far as they can be told. Local. Null where
   * the plugin moves host memory only, as the one below. */
  dit_status (*give_up)(dit_context* context, const char* why);
  /** After failures of exchanges of device memory, on whatever ranks: the context is as it was before the
   * first one, with its channels and registered memory; requests were waited for or cancelled before.
   * Collective. DIT_ERROR_UNSUPPORTED, alike on all ranks, where that is not possible. */
  dit_status (*restart)(dit_context* context);
  /** Whether the context, or what ran so far of its exchanges of device memory, has failed for good: DIT_OK,
   * or what every later call of that kind gives. Local; waits for nothing. */
  dit_status (*check)(dit_context* context);
} dit_exchange_plugin;

/** Whether a plugin has a function of the later part of the table. */
#define DIT_EXCHANGE_HAS(table, function)                                                         \
  ((table)->struct_size >= offsetof(dit_exchange_plugin, function) + sizeof((table)->function) && \
   (table)->function != NULL)

/** The function that a plugin exports. `wanted` is the caller's DIT_EXCHANGE_VERSION; returns null when the
 * plugin cannot serve that version. The table lives as long as the library is loaded. */
typedef const dit_exchange_plugin* (*dit_exchange_entry)(uint32_t wanted);

#ifdef __cplusplus
}
#endif

#endif /* DIT_EXCHANGE_H */
