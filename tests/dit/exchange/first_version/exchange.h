/** @file
 * dit/exchange.h as the first plugins and callers knew it, for tests; it does not change any more.
 *
 * A plugin is a shared library that exports one function, dit_exchange_plugin_v1, which returns a table of
 * functions. It knows nothing of attention, tensors or models. libdit finds plugins by name (libdit-exchange-
 * NAME.so on the search path) or has them linked in. The interface is C, versioned, and grows only at the end
 * of its structs: struct_size tells how much of a struct the other side knows.
 *
 * Threads: a context is used by one thread at a time. Errors: functions return a dit_status; last_error then
 * tells in words which argument was wrong, its value, and what would have been right. No function ends the
 * program but abort_job.
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
  DIT_ERROR_TIMEOUT = 4,       /**< a peer did not arrive in time; last_error names what is known */
  DIT_ERROR_MEMORY = 5,        /**< an allocation failed; nothing was done */
  DIT_ERROR_INTERNAL = 6       /**< a bug of the plugin */
} dit_status;

/** Where buffers lie. */
typedef enum dit_memory_kind {
  DIT_MEMORY_HOST = 0,
  DIT_MEMORY_CUDA = 1,
  DIT_MEMORY_HIP = 2,
  DIT_MEMORY_LEVEL_ZERO = 3
} dit_memory_kind;

/** One peer's bytes in a buffer. */
typedef struct dit_block {
  size_t offset; /**< bytes from the start of the buffer */
  size_t bytes;  /**< may be 0 */
} dit_block;

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

/** The exchange must be complete when start returns; it need not make progress in the background. */
#define DIT_EXCHANGE_BLOCKING 1u

/** One all-to-all. All ranks of a context make the same calls in the same order. Arrays are copied by start;
 * buffers belong to the caller and must stay until wait (or a true test) returns. What is received must not
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
  void* stream;       /**< device stream after whose present work the exchange may read; null: none */
  unsigned flags;     /**< 0 or DIT_EXCHANGE_BLOCKING */
  const char* label;  /**< what is exchanged, for messages and traces; may be null */
  uint64_t layout_id; /**< equal ids in one context mean equal sizes of all blocks between all ranks: a plugin
                         may keep what it prepared for an id, and then need not ask the other ranks; 0: do not
                         keep */
} dit_exchange_call;

/** How a context is opened. */
typedef struct dit_open_options {
  size_t struct_size; /**< sizeof(dit_open_options) */
  void* communicator; /**< null: all processes of the job. mpi, tapa: MPI_Comm*; local: dit_local_member* */
  double timeout_seconds; /**< a wait that takes longer fails with DIT_ERROR_TIMEOUT; 0: never */
  const char* config;     /**< plugin's own settings as "key=value,key=value"; may be null */
} dit_open_options;

typedef struct dit_context dit_context; /**< one group of ranks; the plugin's own */
typedef struct dit_request dit_request; /**< one exchange under way; the plugin's own */

/** What one rank of a context has moved, for reports. Bytes by the level at which the peer is reached. */
typedef struct dit_exchange_totals {
  size_t struct_size;      /**< sizeof(dit_exchange_totals) */
  uint64_t exchanges;      /**< finished */
  uint64_t sent_bytes[16]; /**< payload this rank addressed to peers of each level; index as in level_of;
                                what it sends to itself is not counted */
  double wait_seconds;     /**< spent in wait, and in start of blocking exchanges */
} dit_exchange_totals;

/** The table of functions. None may be null unless said so. */
typedef struct dit_exchange_plugin {
  size_t struct_size;      /**< sizeof(dit_exchange_plugin) as the plugin was built */
  uint32_t version;        /**< DIT_EXCHANGE_VERSION as the plugin was built */
  const char* name;        /**< short: "tapa" */
  const char* description; /**< a line: what it is, and of which library in which version */

  /** Opens a context. Collective over the communicator. */
  dit_status (*open)(const dit_open_options* options, dit_context** context);
  /** Waits for what is under way and closes. Collective. Null is a no-op. */
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

  /** Starts an exchange. Collective in order; `*request` is null when it is already complete. Progress goes
   * on while the caller computes, without further calls. */
  dit_status (*start)(dit_context* context, const dit_exchange_call* call, dit_request** request);
  /** Sets *done; when it is 1 the request is freed and set to null. A null request is done. */
  dit_status (*test)(dit_context* context, dit_request** request, int* done);
  /** Waits, frees the request and sets it to null. A null request is done. */
  dit_status (*wait)(dit_context* context, dit_request** request);

  /** New contexts of the ranks with equal colour, ordered by key, then rank. Collective. colour < 0: *result
   * null. */
  dit_status (*split)(dit_context* context, int colour, int key, dit_context** result);
  /** What was moved since open. */
  dit_status (*totals)(const dit_context* context, dit_exchange_totals* totals);
  /** A text about the context (levels, library, thread support), at most `bytes` with the final zero; returns
   * its full length. */
  size_t (*describe)(const dit_context* context, char* text, size_t bytes);
  /** Words for the last error of this thread; context may be null (then: of open). "" when there was none. */
  const char* (*last_error)(const dit_context* context);
  /** Ends all ranks of the job after a failure of this one; does not return where the job has several
   * processes. */
  void (*abort_job)(dit_context* context, int exit_code);
} dit_exchange_plugin;

/** The function that a plugin exports. `wanted` is the caller's DIT_EXCHANGE_VERSION; returns null when the
 * plugin cannot serve that version. The table lives as long as the library is loaded. */
typedef const dit_exchange_plugin* (*dit_exchange_entry)(uint32_t wanted);

#ifdef __cplusplus
}
#endif

#endif /* DIT_EXCHANGE_H */
