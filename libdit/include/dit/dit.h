/** @file
 * libdit for engines in any language: Ulysses sequence parallelism for attention, without tensors of ours.
 *
 * A session is an exchange plugin opened by name. A layout says which tokens and heads each rank has before
 * and after an exchange. A transfer carries a tensor from one to the other: prepared once, started and waited
 * for as often as wanted, while the caller computes in between. V-Major decides which rows need to travel.
 *
 *     sequence layout: some tokens, all heads:  [batch, sequence_rows, heads, head_dim]
 *     head layout:     all tokens, some heads:  [batch, tokens, heads of the rank, head_dim]
 *
 * Functions return a dit_status. Anything but DIT_OK leaves the outputs as they are, and dit_last_error tells
 * which argument was wrong, its value, and what would be right. No exception leaves the library. Handles are
 * used by one thread at a time; different handles by different threads. Structs begin with struct_size,
 * sizeof the struct as the caller knows it: they may grow at their ends. Pointers may be null only where it
 * says so.
 */
#ifndef DIT_DIT_H
#define DIT_DIT_H

#include <dit/exchange.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DIT_VERSION_MAJOR 0 /**< major version of this header */
#define DIT_VERSION_MINOR 1 /**< minor version of this header; before 1.0 it may change the interface */
#define DIT_VERSION_PATCH 0 /**< patch version of this header */

#ifndef DIT_API
#define DIT_API __attribute__((visibility("default")))
#endif

/** @defgroup library The library
 * @{ */
/** Version of the library that is loaded, as "0.1.0". */
DIT_API const char* dit_version(void);
/** What was wrong in this thread's last call that failed; "" when none has. Valid until this thread's next
 * call. */
DIT_API const char* dit_last_error(void);
/** @} */

/** @defgroup session Sessions
 * @{ */
typedef struct dit_session dit_session; /**< an exchange plugin with an open context: one group of ranks */

/** Opens a plugin: "local" (linked in), a name (libdit-exchange-NAME.so on the search path, see
 * DIT_PLUGIN_PATH) or a path with a slash. `options` may be null: all ranks of the job, no time limit.
 * Collective. */
DIT_API dit_status dit_session_open(const char* plugin, const dit_open_options* options,
                                    dit_session** session);
/** Closes and sets the handle to null; a null handle is a no-op. Collective. Transfers are freed before. */
DIT_API dit_status dit_session_close(dit_session** session);
/** This rank and the number of ranks. */
DIT_API dit_status dit_session_ranks(const dit_session* session, int* rank, int* size);
/** The number of a level, from fast (0) to slow, by its name; "" is the first level that leaves a node. */
DIT_API dit_status dit_session_level(const dit_session* session, const char* name, int* level);
/** What was moved since open; totals->struct_size is set by the caller. */
DIT_API dit_status dit_session_totals(const dit_session* session, dit_exchange_totals* totals);
/** The plugin's own table and context, for exchanges of one's own. They live as long as the session. */
DIT_API dit_status dit_session_plugin(const dit_session* session, const dit_exchange_plugin** plugin,
                                      dit_context** context);
/** @} */

/** @defgroup layout Layouts
 * Pure: every rank computes every rank's part. Any number of tokens, heads and ranks.
 * @{ */
typedef struct dit_layout dit_layout; /**< who holds which tokens and heads */

/** How joint sequences of text and image tokens are laid out, and what to do with many ranks. Or-ed. */
enum dit_layout_flags {
  DIT_LAYOUT_IMAGE_FIRST = 1, /**< the joint sequence is image, text; else text, image */
  DIT_LAYOUT_TEXT_REPLICATED =
      2, /**< every rank has all text tokens in the sequence layout; else each has a part */
  DIT_LAYOUT_ONE_RANK_A_HEAD = 4 /**< refuse more ranks than heads; else ranks share heads, each with all keys
                                    and values and a part of the queries */
};

/** One attention call of all ranks together. */
typedef struct dit_attention_shape {
  size_t struct_size;   /**< sizeof(dit_attention_shape) */
  int64_t batch;        /**< samples, at least 1 */
  int64_t text_tokens;  /**< of a sample; may be 0 */
  int64_t image_tokens; /**< of a sample; may be 0 */
  int64_t heads;        /**< query heads */
  int64_t kv_heads;     /**< key and value heads; divides heads */
  int64_t head_dim;     /**< elements of a head's row */
  unsigned flags;       /**< of dit_layout_flags */
} dit_attention_shape;

/** Half-open. */
typedef struct dit_range {
  int64_t begin; /**< first */
  int64_t end;   /**< one past the last */
} dit_range;

/** What a rank has. */
typedef struct dit_rank_part {
  size_t struct_size;     /**< sizeof(dit_rank_part) */
  dit_range text_tokens;  /**< sequence layout, numbered within text */
  dit_range image_tokens; /**< sequence layout, numbered within image */
  int64_t sequence_rows;  /**< both together: tokens of a sample in the sequence layout, in the joint order */
  dit_range heads;        /**< query heads that the rank attends for */
  dit_range kv_heads;     /**< the key and value heads that those need */
  dit_range query_tokens; /**< of the joint sequence: those that the rank attends for; all, unless heads are
                             shared */
} dit_rank_part;

/** Makes a layout for so many ranks. */
DIT_API dit_status dit_layout_create(const dit_attention_shape* shape, int ranks, dit_layout** layout);
/** Frees and sets the handle to null; a null handle is a no-op. */
DIT_API dit_status dit_layout_free(dit_layout** layout);
/** A rank's part. Heads are those of part `group` of `groups` of the rank's heads (0 of 1: all; parts may be
 * empty). part->struct_size is set by the caller. */
DIT_API dit_status dit_layout_part(const dit_layout* layout, int rank, int group, int groups,
                                   dit_rank_part* part);
/** @} */

/** @defgroup transfer Transfers
 * @{ */
typedef struct dit_transfer dit_transfer; /**< one tensor's way, with the buffers that it needs */

/** What a transfer carries. */
enum dit_transfer_kind {
  DIT_SCATTER_QUERY =
      0, /**< sequence layout -> head layout [batch, query_tokens, heads of the group, head_dim] */
  DIT_SCATTER_KEY = 1,   /**< the same with [batch, tokens, kv_heads of the group, head_dim] */
  DIT_SCATTER_VALUE = 2, /**< as DIT_SCATTER_KEY */
  DIT_GATHER_OUTPUT = 3  /**< attention's output in the head layout of queries -> sequence layout; each group
                            fills its  heads and leaves the others alone */
};

/** How a transfer is prepared. */
typedef struct dit_transfer_options {
  size_t struct_size;   /**< sizeof(dit_transfer_options) */
  int kind;             /**< of dit_transfer_kind */
  int group;            /**< 0 .. groups - 1: a part of each rank's heads */
  int groups;           /**< at least 1 */
  size_t element_bytes; /**< of a number: 2 for bf16 */
  const char* label;    /**< for messages and traces; may be null */
} dit_transfer_options;

/** Which rows travel on slow links: V-Major. */
typedef struct dit_active_rows {
  size_t struct_size; /**< sizeof(dit_active_rows) */
  int boundary;       /**< peers at this level or a slower one get active rows only, see dit_session_level */
  const uint8_t* masks; /**< of all ranks, as dit_share_masks gives them */
  size_t masks_bytes;   /**< bytes at masks */
} dit_active_rows;

/** Prepares a transfer between the session's ranks. The layout may be freed afterwards. */
DIT_API dit_status dit_transfer_create(dit_session* session, const dit_layout* layout,
                                       const dit_transfer_options* options, dit_transfer** transfer);
/** Bytes of the source and of the target tensor on this rank. */
DIT_API dit_status dit_transfer_bytes(const dit_transfer* transfer, size_t* source_bytes,
                                      size_t* target_bytes);
/** Starts: all ranks start the same transfers in the same order. Both tensors are in host memory and stay
 * untouched until the wait. `active` may be null: all rows travel; with it, the target's other rows stay as
 * they are (scatters only). A tensor without bytes may be null. */
DIT_API dit_status dit_transfer_start(dit_transfer* transfer, const void* source, size_t source_bytes,
                                      void* target, size_t target_bytes, const dit_active_rows* active);
/** Sets *done to 1 when the target is complete (then there is nothing to wait for), else to 0. */
DIT_API dit_status dit_transfer_test(dit_transfer* transfer, int* done);
/** Waits until the target is complete; returns at once when nothing is under way. */
DIT_API dit_status dit_transfer_wait(dit_transfer* transfer);
/** Waits, frees and sets the handle to null; a null handle is a no-op. */
DIT_API dit_status dit_transfer_free(dit_transfer** transfer);
/** @} */

/** @defgroup v_major V-Major: which rows travel
 * A row mask has a bit for each row of a rank's sequence-layout tensor (batch * sequence_rows): row i is bit
 * i % 8 of byte i / 8. All decisions depend on their arguments only, so that ranks agree.
 * @{ */
typedef struct dit_v_major
    dit_v_major; /**< a rule: when all rows travel, and which fraction stays otherwise */

/** A rule from text: "v-major", "v-major:warmup=5,refresh=10,ratio=linear", "ratio=0.5", "ratio=0/0.25/0.5"
 * (one for each step), "ratio=@FILE", "boundary=node". */
DIT_API dit_status dit_v_major_create(const char* text, dit_v_major** rule);
/** Frees and sets the handle to null; a null handle is a no-op. */
DIT_API dit_status dit_v_major_free(dit_v_major** rule);
/** The rule in full, at most `bytes` with the final zero; *length, which may be null, is its full length. */
DIT_API dit_status dit_v_major_text(const dit_v_major* rule, char* text, size_t bytes, size_t* length);
/** What step `step` of `steps`, counted from 0, does: *full is 1 when all rows travel; else the fraction
 * *ratio stays.
 */
DIT_API dit_status dit_v_major_decide(const dit_v_major* rule, int step, int steps, int* full, double* ratio);
/** Mean over all steps of the fraction of rows that travel. */
DIT_API dit_status dit_v_major_mean_active(const dit_v_major* rule, int steps, double* fraction);

/** Bytes of a mask of so many rows; 0 for a negative number. */
DIT_API size_t dit_row_mask_bytes(int64_t rows);
/** Sets the bits of the `rows - floor(ratio * rows)` rows with the largest scores; of equal ones the first.
 * NaN is largest. */
DIT_API dit_status dit_choose_active_rows(const float* scores, int64_t rows, double ratio, uint8_t* mask,
                                          size_t mask_bytes);
/** Every rank gives its mask and gets those of all, one after the other in rank order, each of
 * dit_row_mask_bytes(batch * sequence_rows) bytes. Collective and blocking. */
DIT_API dit_status dit_share_masks(dit_session* session, const dit_layout* layout, const uint8_t* mask,
                                   size_t mask_bytes, uint8_t* masks, size_t masks_bytes);
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* DIT_DIT_H */
