/* Reads fields of the files beside a checkpoint. They are hostile input: a wrong type or an absurd number is BAD_FILE, and the sentence
   names the file and the field. */
#ifndef RVIT_CORE_MODEL_CONFIG_READ_H
#define RVIT_CORE_MODEL_CONFIG_READ_H

#include "core/file/json.h"
#include "core/model/class_names.h"
#include "core/model/facts.h"
#include "core/model/unsupported.h"

typedef struct rvit_config_reader {
    const char *path;    /* printable */
    const char *name;    /* "config.json" */
    const char *section; /* what stands before a field's name: "vision_config.", "" */
    rvit_facts *facts;
    rvit_unsupported *unsupported;
    const struct rvit_processor_class **processor; /* of the model type; *processor is NULL where none is known */
    int32_t *has_processor;                        /* set once a file has told how images are prepared */
    rvit_alloc *alloc;
    rvit_class_names *classes;
} rvit_config_reader;

/* "config.json: vision_config.hidden_act", for facts and reasons. */
const char *rvit_config_where(const rvit_config_reader *r, const char *field, char out[RVIT_FACT_WHERE]);
/* The same of a field that may be absent: "config.json: pretrained_cfg.crop_mode (default)". */
const char *rvit_config_where_default(const rvit_config_reader *r, const rvit_json *object, const char *field, char out[RVIT_FACT_WHERE]);
/* The member of an object; NULL if it is absent or null. */
const rvit_json *rvit_config_get(const rvit_json *object, const char *field);
/* The value of a field; absent: unchanged. */
rvit_status rvit_config_integer(const rvit_config_reader *r, const rvit_json *object, const char *field, int64_t least, int64_t most,
                                int64_t *out);
/* Above 0 and finite. */
rvit_status rvit_config_number(const rvit_config_reader *r, const rvit_json *object, const char *field, double *out);
rvit_status rvit_config_bool(const rvit_config_reader *r, const rvit_json *object, const char *field, int32_t *out);
rvit_status rvit_config_string(const rvit_config_reader *r, const rvit_json *object, const char *field, const char **out);
rvit_status rvit_config_object(const rvit_config_reader *r, const rvit_json *object, const char *field, const rvit_json **out);
/* Height and width: a number, a list of them or {"height": , "width": }. */
rvit_status rvit_config_size(const rvit_config_reader *r, const rvit_json *object, const char *field, double out[2], int32_t *out_given);

/* The same into a fact. */
rvit_status rvit_config_integer_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact);
rvit_status rvit_config_number_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact);
rvit_status rvit_config_size_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact);
/* One number for all, or one for each of three channels; from least to most. */
rvit_status rvit_config_colours_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, double least, rvit_fact fact);
/* The words that a field may have, and what they stand for; the last has none. */
typedef struct rvit_config_word {
    const char *word;
    int32_t value;
} rvit_config_word;
/* Another word becomes a reason in `unsupported`, in which it is not understood or, with names_it, is named: then nothing weaker may speak
 * instead. */
rvit_status rvit_config_word_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact,
                                  const rvit_config_word *words, int names_it);
/* A name of an activation. */
rvit_status rvit_config_activation_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact);
/* Notes a field that changes the computation, but whose meaning is not known here. */
void rvit_config_not_understood(const rvit_config_reader *r, const char *field);

/* Each format; root: the file's object. */
rvit_status rvit_config_timm(const rvit_config_reader *r, const rvit_json *root);
rvit_status rvit_config_hf(const rvit_config_reader *r, const rvit_json *root);
rvit_status rvit_config_open_clip(const rvit_config_reader *r, const rvit_json *root);
rvit_status rvit_config_preprocessor(const rvit_config_reader *r, const rvit_json *root);
/* How the weights are quantised: the quantization_config of a config.json, a hf_quant_config.json. What is not known becomes a reason in
 * `unsupported`.
 */
rvit_status rvit_config_quantization(const rvit_config_reader *r, const rvit_json *root);
rvit_status rvit_config_modelopt(const rvit_config_reader *r, const rvit_json *root);
/* The class of Hugging Face's processors that goes with a model_type; NULL: none is known here. */
const struct rvit_processor_class *rvit_processor_of_model(const char *model_type);

/* The files beside `path`, else the text under "config" of a checkpoint's metadata, else the name under "architecture". Either may be NULL.
 */
typedef struct rvit_config_source {
    const char *path, *config, *architecture;
    const char *given; /* the text of a config.json that takes the place of all these; NULL: none */
} rvit_config_source;
/* The caller frees *out_classes, also after a failure. */
rvit_status rvit_config_files(const rvit_config_source *source, rvit_alloc *alloc, rvit_facts *facts, rvit_unsupported *unsupported,
                              rvit_class_names *out_classes);

#endif
